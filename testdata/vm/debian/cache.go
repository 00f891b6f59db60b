// Package debian fetches real Debian kernels for tests, benchmarks and the
// demo, and keeps them outside the source tree.
//
// The cache is $FITOUT_CACHE, by default ~/.cache/fitout:
//
//	debs/*.deb                     packages as the mirror has them
//	kernels/RELEASE/boot           vmlinuz, config, System.map
//	kernels/RELEASE/lib/modules    the modules, with depmod's tables
//	vm/                            file systems built from them (package vm)
//
// Everything in it can be deleted at any time. Several processes may use it at
// once: each entry is made under a lock, in a directory of its own, and
// renamed into place.
package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// CacheDir returns a directory below the cache, made if it is not there.
func CacheDir(elem ...string) (string, error) {
	base := os.Getenv("FITOUT_CACHE")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache directory: %w; set FITOUT_CACHE", err)
		}
		base = filepath.Join(home, ".cache", "fitout")
	}
	dir := filepath.Join(append([]string{base}, elem...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache directory: %w", err)
	}
	return dir, nil
}

// Lock holds the cache's lock of that name until the returned function is
// called or the process ends. It waits for other processes.
func Lock(name string) (unlock func(), err error) {
	dir, err := CacheDir("locks")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the cache's lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("waiting for the cache's lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// Once makes a file or directory of the cache by calling build with a temporary
// name, unless it is there. Two processes never build the same one twice.
func Once(file string, build func(tmp string) error) error {
	unlock, err := Lock(filepath.Base(file))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	tmp := file + ".new"
	os.RemoveAll(tmp)
	defer os.RemoveAll(tmp)
	if err := build(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
