package hostops

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tempFor is the temporary file of whoever writes dst, always the same one: what
// a writer leaves that was killed, the next writer takes over, and [Node.Remove]
// removes. Its writer holds a lock on it.
func tempFor(dst string) string {
	dir, base := filepath.Split(dst)
	return dir + ".fitout-" + base[:min(len(base), 200)] + ".tmp"
}

// openTemp opens the empty temporary file for dst and waits for another writer
// of dst to end.
func openTemp(dst string) (*os.File, error) {
	name := tempFor(dst)
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, unix.ELOOP) { // of a link that was not put in place
			err = os.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if f == nil {
			continue
		}
		lock(f, unix.LOCK_EX)
		var mine, there unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &mine)
		// Else another writer has put it in place meanwhile.
		if err == nil && unix.Lstat(name, &there) == nil && mine.Ino == there.Ino && mine.Dev == there.Dev {
			if mine.Nlink == 1 && int(mine.Uid) == os.Geteuid() {
				if err = f.Truncate(0); err == nil {
					return f, nil
				}
			} else if err = os.Remove(name); errors.Is(err, fs.ErrNotExist) { // somebody else's
				err = nil
			}
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		_ = f.Close()
	}
}

// DropTemp removes what a writer of p has left that was killed: an undo calls it
// where there is nothing else to be undone. [Node.Remove] does so too.
func (n *Node) DropTemp(p string) error { return dropTemp(n.entry(p)) }

// dropTemp removes what a writer of dst has left that was killed.
func dropTemp(dst string) error {
	name := tempFor(dst)
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case errors.Is(err, unix.ELOOP):
	case err != nil:
		return err
	default:
		defer f.Close()
		if !lock(f, unix.LOCK_EX|unix.LOCK_NB) {
			return nil // its writer is at work
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// lock says that nobody else holds the file's lock. Where a file system has no
// locks, nobody does.
func lock(f *os.File, how int) bool {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.EWOULDBLOCK)
		}
	}
}
