package hostops

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The SELinux labels of what is loaded and what is run: files_type(modules_object_t)
// and bin_t of the reference policy.
const (
	LabelModule  = "system_u:object_r:modules_object_t:s0"
	LabelProgram = "system_u:object_r:bin_t:s0"
)

// SetLabel gives a file an SELinux label and reads it back. On a node without
// SELinux it does nothing.
func (n *Node) SetLabel(p, label string) error {
	if err := n.labelReal(n.Path(p), label); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// labelReal is SetLabel with a path of the machine; no label is none to set.
func (n *Node) labelReal(real, label string) error {
	if label == "" || n.Simulated() || !n.Exists("/sys/fs/selinux/enforce") {
		return nil
	}
	return relabel(real, label)
}

func relabel(real, label string) error {
	if err := unix.Lsetxattr(real, "security.selinux", []byte(label+"\x00"), 0); err != nil {
		return fmt.Errorf("labelling it %s: %w", label, err)
	}
	if have := labelAt(real); have != label {
		return fmt.Errorf("its SELinux label is %q, needed is %s", have, label)
	}
	return nil
}

// Label is a file's SELinux label, "" where it has none.
func (n *Node) Label(p string) string { return labelAt(n.Path(p)) }

func labelAt(real string) string {
	buf := make([]byte, 256)
	size, err := unix.Lgetxattr(real, "security.selinux", buf)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(buf[:size])
}
