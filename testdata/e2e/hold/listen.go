package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notif and response are struct seccomp_notif and seccomp_notif_resp.
type notif struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// loop answers the kernel.
type loop struct {
	listener int
	dir      string
	wanted   func(number string) bool
	points   int
}

// serve answers until no process is left behind the filter.
func (l *loop) serve() error {
	for {
		poll := []unix.PollFd{{Fd: int32(l.listener), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil // all gone
		}
		var n notif
		if errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno != 0 {
			continue // the caller died meanwhile
		}
		if runner, id := runnerOf(int(n.pid)); runner != 0 {
			if err := l.point(n, runner, id); err != nil {
				return err
			}
		}
		l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}))
	}
}

func (l *loop) ioctl(request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.listener), uintptr(request), uintptr(arg))
	return errno
}

// point counts one call of a runner, and holds it when that was asked for.
func (l *loop) point(n notif, runner int, run string) error {
	l.points++
	number := strconv.Itoa(l.points)
	step, state := journalEnd(run)
	line := strings.Join([]string{number, step, state, calls[uint32(n.nr)], file(n)}, "\t")
	log, err := os.OpenFile(filepath.Join(l.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := fmt.Fprintln(log, line); err != nil {
		return err
	}
	if !l.wanted(number) {
		return nil
	}
	at, free := filepath.Join(l.dir, "at"), filepath.Join(l.dir, "go")
	if err := os.WriteFile(at+".new", []byte(line+"\t"+strconv.Itoa(runner)+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(at+".new", at); err != nil {
		return err
	}
	for os.Remove(free) != nil {
		time.Sleep(20 * time.Millisecond)
	}
	return os.Remove(at)
}

// runnerOf is the runner that a process is, or belongs to, and its run; 0 when
// there is none.
func runnerOf(pid int) (runner int, run string) {
	for pid > 1 {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return 0, ""
		}
		args := strings.Split(string(cmdline), "\x00")
		if len(args) > 4 && filepath.Base(args[0]) == "fitout" && args[1] == "run" {
			return pid, args[2]
		}
		pid = parent(pid)
	}
	return 0, ""
}

func parent(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line))
	return n
}

// journalEnd is the step and state of the last step event that a run's journal
// has.
func journalEnd(run string) (step, state string) {
	data, _ := os.ReadFile("/var/lib/fitout/runs/" + run + "/journal.jsonl")
	step, state = "-", "-"
	for line := range bytes.Lines(data) {
		var e struct{ Event, Step, State, Outcome string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Event {
		case "start":
			step, state = "-", "started"
		case "step":
			step, state = e.Step, e.State
		case "done":
			step, state = "-", e.Outcome
		}
	}
	return step, state
}

// file is what a call is about.
func file(n notif) string {
	fd := func(arg int) string {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[arg])))
		return name
	}
	switch uint32(n.nr) {
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FINIT_MODULE:
		return fd(0)
	case unix.SYS_RENAME, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_DELETE_MODULE:
		return text(n.pid, n.args[0])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return text(n.pid, n.args[3])
	case unix.SYS_LINKAT:
		return text(n.pid, n.args[3])
	case unix.SYS_SYMLINKAT:
		return text(n.pid, n.args[2])
	case unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_OPENAT:
		return text(n.pid, n.args[1])
	}
	return ""
}

// text reads a string of another process.
func text(pid uint32, at uint64) string {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer mem.Close()
	buf := make([]byte, 512)
	n, _ := mem.ReadAt(buf, int64(at))
	s, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(s)
}
