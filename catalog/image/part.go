package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// partName is what is put behind a directory's name for the one that a fetch
// works in, partKept how long one that was broken off waits to be taken up.
const (
	partName = ".part"
	partKept = 7 * 24 * time.Hour
)

// lockPart makes the directory part, if it is not there, and holds it for this
// fetch alone until the file is closed or the process ends; waited says that
// another fetch had it.
func (img *Image) lockPart(ctx context.Context, part string) (held *os.File, waited bool, err error) {
	for {
		if err := os.MkdirAll(part, 0o700); err != nil {
			return nil, false, diskError("making "+part, err)
		}
		held, err := lockDir(part)
		if err != nil || held != nil {
			return held, waited, err
		}
		if !waited {
			img.opts.Log("another process is fetching this image; waiting for it")
		}
		waited = true
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, false, err
		}
	}
}

// lockDir locks a directory; nil when another process has it, or when it is not
// the one of that name any more. Where the file system knows no locks of
// directories (NFS) everyone gets it.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	mine, merr := f.Stat()
	there, terr := os.Stat(dir)
	if err == unix.EWOULDBLOCK || err == unix.EINTR || merr != nil || terr != nil || !os.SameFile(mine, there) {
		return nil, f.Close()
	}
	return f, nil
}

// Fetching says that a process is fetching into a directory just now, of which
// dir is the name with ".part".
func Fetching(dir string) bool {
	if _, err := os.Stat(dir); err != nil || filepath.Ext(dir) != partName {
		return false
	}
	held, err := lockDir(dir)
	if held != nil {
		held.Close()
	}
	return held == nil && err == nil
}

// sweepParts removes what fetches into other directories beside part have left:
// those that no process has and nobody has taken up for long.
func (img *Image) sweepParts(part string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(part), "*"+partName))
	for _, dir := range left {
		if dir == part || ownDir(dir) != nil || !img.stale(dir) {
			continue
		}
		held, err := lockDir(dir)
		if err != nil || held == nil {
			continue
		}
		if err := os.RemoveAll(dir); err == nil {
			img.opts.Log(fmt.Sprintf("%s was broken off more than %d days ago and is removed", dir, partKept/(24*time.Hour)))
		}
		held.Close()
	}
}

// stale says that nothing was written in a part for long.
func (img *Image) stale(part string) bool {
	for _, p := range []string{part, filepath.Join(part, resumptionName)} {
		if st, err := os.Stat(p); err == nil && img.opts.Now().Sub(st.ModTime()) < partKept {
			return false
		}
	}
	return true
}
