package debian

import (
	"fmt"
	"os"
	"path/filepath"
)

// Program returns a file of a Debian package ("usr/bin/kubectl"), extracted once
// into the cache: nothing is installed on this machine.
func Program(pkg, file string) (string, error) {
	deb, err := Download(pkg)
	if err != nil {
		return "", err
	}
	all, err := CacheDir("programs")
	if err != nil {
		return "", err
	}
	unlock, err := Lock("program-" + pkg)
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(all, filepath.Base(deb))
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, file), nil
	}
	tmp, err := os.MkdirTemp(all, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if _, err := run("", "dpkg-deb", "-x", deb, tmp); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(tmp, file)); err != nil {
		return "", fmt.Errorf("package %s: %w", pkg, err)
	}
	return filepath.Join(dir, file), os.Rename(tmp, dir)
}
