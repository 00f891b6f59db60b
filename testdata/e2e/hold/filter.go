package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls change something that a test can see, and are asked about. openat is
// only when the file is opened for writing.
var calls = map[uint32]string{
	unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RMDIR: "rmdir",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_LINKAT: "linkat",
	unix.SYS_FINIT_MODULE: "finit_module", unix.SYS_INIT_MODULE: "init_module", unix.SYS_DELETE_MODULE: "delete_module",
	unix.SYS_OPENAT: "openat", unix.SYS_REBOOT: "reboot",
}

// Offsets in struct seccomp_data (linux/seccomp.h), and the architecture's name
// in it (linux/audit.h: EM_X86_64, 64 bit, little endian).
const (
	offNr, offArch, offFlags = 0, 4, 16 + 2*8
	archX8664                = 0xc000003e
	forWriting               = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT
)

// program is the filter: all other calls pass.
func program() []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	const load, equal, set, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	p := []unix.SockFilter{
		stmt(load, offArch), jump(equal, archX8664, 1, 0), stmt(ret, unix.SECCOMP_RET_ALLOW),
		stmt(load, offNr), jump(equal, unix.SYS_OPENAT, 0, 4),
		stmt(load, offFlags), jump(set, forWriting, 1, 0), stmt(ret, unix.SECCOMP_RET_ALLOW), stmt(ret, unix.SECCOMP_RET_USER_NOTIF),
	}
	for nr := range calls {
		if nr != unix.SYS_OPENAT {
			p = append(p, jump(equal, nr, 0, 1), stmt(ret, unix.SECCOMP_RET_USER_NOTIF))
		}
	}
	return append(p, stmt(ret, unix.SECCOMP_RET_ALLOW))
}

// execFiltered puts the filter on this thread, hands its listener to the parent
// over descriptor 3, and becomes the program.
func execFiltered(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	filter := program()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Only a deadly signal ends a call that the parent has taken up: Go's own
	// signals would otherwise make it begin anew, and count twice.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return err
	}
	unix.CloseOnExec(3)
	return unix.Exec(path, argv, os.Environ())
}

// receive takes a descriptor from a socket.
func receive(socket int) (int, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data, control, 0)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) == 0 {
		return -1, errors.Join(errors.New("none came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}
