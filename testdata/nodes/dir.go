package nodes

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// memory is where a tree of thousands of small files takes a twentieth of the
// time it takes on disk; room is what must be free there (some containers have
// next to nothing).
const (
	memory = "/dev/shm"
	room   = 512 << 20
)

// dir is a directory of the test that goes with it.
func dir(t testing.TB) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(memory, &st); err != nil || st.Bavail*uint64(st.Bsize) < room {
		return t.TempDir()
	}
	d, err := os.MkdirTemp(memory, "fitout-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(d); err != nil {
			t.Errorf("removing the test's node: %v", err)
		}
	})
	return d
}
