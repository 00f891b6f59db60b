package pci

import (
	"strings"

	"golang.org/x/sys/unix"
)

// reader reads the small files and links of sysfs relative to an open
// directory, with one buffer and nothing between it and the kernel: os.File
// costs three system calls more for each file. It counts what it does.
type reader struct {
	buf       [4096]byte // sysfs attributes are at most one page
	calls     int
	unsettled map[string]bool // modules at work now
}

func (r *reader) openDir(p string) (int, error) {
	r.calls++
	return r.open(unix.AT_FDCWD, p, unix.O_DIRECTORY)
}

func (r *reader) open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (r *reader) close(fd int) {
	r.calls++
	_ = unix.Close(fd)
}

// file reads one attribute, white space trimmed. Errors are unix.Errno.
func (r *reader) file(dir int, name string) (string, error) {
	r.calls++
	fd, err := r.open(dir, name, unix.O_NONBLOCK)
	if err != nil {
		return "", err
	}
	defer r.close(fd)
	for {
		r.calls++
		n, err := unix.Read(fd, r.buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(r.buf[:n])), nil
	}
}

// link returns the last element of a link's target, "" when there is none.
func (r *reader) link(dir int, name string) string {
	r.calls++
	n, err := unix.Readlinkat(dir, name, r.buf[:])
	if err != nil {
		return ""
	}
	_, last, _ := cutLast("/"+string(r.buf[:n]), '/')
	return last
}
