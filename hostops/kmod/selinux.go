package kmod

import (
	"golang.org/x/sys/unix"

	"fitout/hostops"
)

func selinux(n *hostops.Node) string {
	s, err := n.ReadString("/sys/fs/selinux/enforce")
	switch {
	case err != nil:
		return ""
	case s == "1":
		return "enforcing"
	}
	return "permissive"
}

// labelOf is a file's SELinux label, "" where it has none.
func labelOf(n *hostops.Node, file string) string {
	buf := make([]byte, 256)
	size, err := unix.Getxattr(n.Path(file), "security.selinux", buf)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(buf[:size])
}
