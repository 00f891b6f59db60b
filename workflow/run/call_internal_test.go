package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// stat is a line of proc(5), up to stime, in hundredths of a second.
func stat(pid int, comm, state string, stime int) string {
	return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194304 100 0 0 0 5 %d 0 0 20 0 1 0", pid, comm, state, stime)
}

// The thread that a kernel call keeps is seldom the first of its process, and does
// not have to wait there: it may go round in a loop.
func TestStuckThreadOfAChildIsFoundWhicheverItIs(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"self/task/10/stat":     stat(10, "fitout", "S", 900),
		"self/task/10/syscall":  "202 0x1 0x80 0x0",
		"self/task/10/children": "20 ",
		"self/task/11/stat":     stat(11, "fitout", "R", 90),
		"20/task/20/stat":       stat(20, "exe", "S", 0),
		"20/task/21/stat":       stat(21, "exe (x) y", "D", 0),
		"20/task/21/wchan":      "trouble_probe",
		"20/task/21/stack":      "[<0>] trouble_probe+0x1c/0x30 [trouble]\n[<0>] local_pci_probe+0x41/0x90\n",
		"20/task/22/stat":       stat(22, "exe", "R", 11900),
		"20/task/22/syscall":    "running",
		"20/task/22/stack":      "",
		"20/task/23/stat":       stat(23, "exe", "S", 0),
		"20/task/23/syscall":    fmt.Sprintf("%d 0x3 0xc000 0x0", unix.SYS_FINIT_MODULE),
		"20/task/23/wchan":      "trouble_wait",
		"30/task/30/stat":       stat(30, "someone else's", "D", 0),
	} {
		file := filepath.Join(root, "proc", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.Equal(t, []string{
		"thread 21 (exe (x) y) waits in the kernel: trouble_probe",
		"[<0>] trouble_probe+0x1c/0x30 [trouble]", "[<0>] local_pci_probe+0x41/0x90",
		"thread 22 (exe) runs, and was in the kernel for 119 s so far",
		"thread 23 (exe) waits in the kernel: trouble_wait",
	}, stuck(&hostops.Node{Root: root}))
}
