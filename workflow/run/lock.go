package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// lockFile is the lock of the one run that a node can have at a time.
const lockFile = "/run/fitout/lock"

// Owner says who holds the lock. It is for people and screens: the lock itself
// is the kernel's (an open-file-description lock), held for the life of the
// runner, so a dead runner never holds it and a reused pid never seems to.
type Owner struct {
	Run    string    `json:"run"`
	PID    int       `json:"pid"`
	BootID string    `json:"bootId"`
	TTY    string    `json:"tty,omitempty"` // where it was started ("ttyS0")
	Since  time.Time `json:"since"`
	// Hung is the step that did not come back from the kernel; such a runner
	// may hold the lock until the node is rebooted.
	Hung string `json:"hung,omitempty"`
}

// LockedError says that another run is in progress. The exit code is 10.
type LockedError struct{ Owner Owner }

func (e *LockedError) Error() string {
	o := e.Owner
	if o.Run == "" {
		return "another run is in progress on this node"
	}
	s := "run " + o.Run + " is in progress on this node (pid " + fmt.Sprint(o.PID)
	if o.TTY != "" {
		s += ", started on " + o.TTY
	}
	s += " at " + o.Since.Format("15:04") + ")"
	if o.Hung != "" {
		return s + "; its step " + o.Hung + " hangs in the kernel and only a reboot ends it"
	}
	return s + "; watch it with: fitout attach"
}

// lock is the held lock.
type lock struct {
	n     *hostops.Node
	file  *os.File
	owner Owner
}

// acquire takes the node's lock for a run, or returns a *LockedError.
func acquire(n *hostops.Node, owner Owner) (*lock, error) {
	for range 100 {
		f, err := openLock(n, os.O_RDWR|os.O_CREATE)
		if errors.Is(err, os.ErrNotExist) {
			continue // the directory went away between making it and opening
		}
		if err != nil {
			return nil, fmt.Errorf("taking the run lock: %w", err)
		}
		fl := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &fl)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			o := readOwner(f)
			f.Close()
			return nil, &LockedError{o}
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("taking the run lock %s: %w", lockFile, err)
		}
		if !current(n, f) { // its last holder removed it: take the new one
			f.Close()
			continue
		}
		l := &lock{n: n, file: f, owner: owner}
		l.write()
		return l, nil
	}
	return nil, fmt.Errorf("taking the run lock %s: it is made and removed all the time", lockFile)
}

func openLock(n *hostops.Node, flags int) (*os.File, error) {
	if flags&os.O_CREATE != 0 {
		if err := n.MkdirAll(path.Dir(lockFile), 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(n.Path(lockFile), flags|unix.O_CLOEXEC, 0o600)
}

// current says that f is still the file at the lock's path.
func current(n *hostops.Node, f *os.File) bool {
	mine, err1 := f.Stat()
	there, err2 := n.Lstat(lockFile)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// recordSize is the length of the lock file, in bytes.
const recordSize = 1024

// write puts the owner into the lock file, in one write of always the same
// length: who reads meanwhile finds the old owner or the new one. That it fails
// (a full /run) costs the name of the holder, not the lock.
func (l *lock) write() {
	data, err := json.Marshal(l.owner)
	if err == nil {
		_, _ = l.file.WriteAt(fmt.Appendf(nil, "%-*s\n", recordSize-1, data), 0)
	}
}

// hung records that a step did not come back. The file stays after release.
func (l *lock) hung(step string) {
	l.owner.Hung = step
	l.write()
}

// release gives the lock up and leaves nothing below /run/fitout behind.
func (l *lock) release() {
	if l.owner.Hung == "" {
		_ = l.n.Remove(lockFile)
	}
	l.file.Close()
	_ = l.n.Remove(path.Dir(lockFile)) // only when it is empty
}

// SweepLock removes the lock's file where nobody holds it and no call hangs: a
// runner leaves it that was killed after its run had ended.
func SweepLock(n *hostops.Node) {
	if _, hangs := Hanging(n); hangs || !n.Exists(lockFile) {
		return
	}
	if l, err := acquire(n, Owner{}); err == nil {
		l.release()
	}
}

func readOwner(f *os.File) Owner {
	var o Owner
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || json.Unmarshal(data, &o) != nil {
		return Owner{}
	}
	return o
}

// Holder says who holds the lock now; false when nobody does. It never takes
// the lock, so looking cannot make a starting run fail.
func Holder(n *hostops.Node) (Owner, bool) {
	f, err := openLock(n, os.O_RDWR)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		f, err = openLock(n, os.O_RDONLY)
	}
	if err != nil {
		return Owner{}, false
	}
	defer f.Close()
	fl := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &fl); err != nil || fl.Type == unix.F_UNLCK {
		return Owner{}, false
	}
	return readOwner(f), true
}

// Hanging says which run left a call behind in the kernel since this boot; false
// for none.
func Hanging(n *hostops.Node) (Owner, bool) {
	f, err := openLock(n, os.O_RDONLY)
	if err != nil {
		return Owner{}, false
	}
	defer f.Close()
	o := readOwner(f)
	return o, o.Hung != "" && o.BootID == bootID(n)
}

// Current is the id of the run in progress, "" for none.
func Current(n *hostops.Node) string {
	o, _ := Holder(n)
	return o.Run
}

// bootID names this boot; "" when unknown.
func bootID(n *hostops.Node) string {
	id, _ := n.ReadString("/proc/sys/kernel/random/boot_id")
	return id
}
