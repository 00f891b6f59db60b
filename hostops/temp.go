package hostops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

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
// of dst to end. What is there already is taken over when it is of this user and
// has no second name, else it is removed and made anew: an owner proves nothing
// about a file just made (FAT, NFS).
func openTemp(dst string) (*os.File, error) {
	name := tempFor(dst)
	for range 1000 {
		made := true
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			made = false
			f, err = os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
			switch {
			case errors.Is(err, fs.ErrNotExist): // it was put in place just now
				continue
			case errors.Is(err, unix.ELOOP): // a link that was not put in place
				if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		lock(f, unix.LOCK_EX)
		usable, err := claim(f, name, made)
		if usable && err == nil {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is made and removed all the time", name)
}

// claim empties a locked file that still has its name, and says whether it can be
// written to; somebody else's is removed.
func claim(f *os.File, name string, made bool) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(name)
	if err != nil || !os.SameFile(mine, there) {
		return false, nil // another writer has put it in place, or swept it away
	}
	if st, ok := mine.Sys().(*syscall.Stat_t); !made && ok && (st.Nlink > 1 || int(st.Uid) != os.Geteuid()) {
		return false, os.Remove(name)
	}
	return true, f.Truncate(0)
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
