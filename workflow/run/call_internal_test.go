package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// The thread that a kernel call keeps is seldom the first of its process.
func TestStuckThreadOfAChildIsFoundWhicheverItIs(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"self/task/10/stat":     "10 (fitout) S 1",
		"self/task/10/children": "20 ",
		"20/task/20/stat":       "20 (exe) S 10",
		"20/task/21/stat":       "21 (exe) D 10",
		"20/task/21/wchan":      "trouble_probe",
		"20/task/21/stack":      "[<0>] trouble_probe+0x1c/0x30 [trouble]\n[<0>] local_pci_probe+0x41/0x90\n",
		"30/task/30/stat":       "30 (someone else's) D 1",
	} {
		file := filepath.Join(root, "proc", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.Equal(t, []string{
		"thread 21 (exe) waits in the kernel: trouble_probe",
		"[<0>] trouble_probe+0x1c/0x30 [trouble]", "[<0>] local_pci_probe+0x41/0x90",
	}, stuck(&hostops.Node{Root: root}))
}
