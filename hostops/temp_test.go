package hostops_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
)

const leftBehind = "/etc/.fitout-file.tmp"

func killedWriter(t *testing.T, make func(n *hostops.Node)) *hostops.Node {
	t.Helper()
	n := hostops.At(t.TempDir(), nil)
	require.NoError(t, n.MkdirAll("/etc", 0o755))
	make(n)
	return n
}

// What a writer left that was killed is taken over by the next, and goes with
// the file.
func TestWhatAKilledWriterLeftGoes(t *testing.T) {
	kinds := map[string]func(n *hostops.Node){
		"half a file": func(n *hostops.Node) {
			require.NoError(t, os.WriteFile(n.Path(leftBehind), bytes.Repeat([]byte("x"), 9000), 0o600))
		},
		"a link": func(n *hostops.Node) {
			require.NoError(t, os.Symlink("/etc/passwd", n.Path("/etc")+"/.fitout-file.tmp"))
		},
		"another's file": func(n *hostops.Node) {
			require.NoError(t, os.WriteFile(n.Path("/etc/precious"), []byte("precious"), 0o600))
			require.NoError(t, os.Link(n.Path("/etc/precious"), n.Path(leftBehind)))
		},
	}
	ends := map[string]func(n *hostops.Node) error{
		"write":      func(n *hostops.Node) error { return n.WriteFile("/etc/file", []byte("new"), 0o644) },
		"link":       func(n *hostops.Node) error { return n.Symlink("precious", "/etc/file") },
		"remove":     func(n *hostops.Node) error { return n.Remove("/etc/file") },
		"remove all": func(n *hostops.Node) error { return n.RemoveAll("/etc/file") },
		"drop":       func(n *hostops.Node) error { return n.DropTemp("/etc/file") },
	}
	for kind, left := range kinds {
		for end, do := range ends {
			t.Run(kind+", "+end, func(t *testing.T) {
				n := killedWriter(t, left)
				require.NoError(t, do(n))
				_, err := os.Lstat(filepath.Join(n.Root, leftBehind))
				require.ErrorIs(t, err, os.ErrNotExist)
				if end == "write" {
					text, err := n.ReadFile("/etc/file")
					require.NoError(t, err)
					require.Equal(t, "new", string(text))
				}
				if kind == "another's file" {
					text, err := n.ReadFile("/etc/precious")
					require.NoError(t, err)
					require.Equal(t, "precious", string(text))
				}
			})
		}
	}
}

func TestFileOfAnotherOwnerIsMadeAnew(t *testing.T) {
	n := killedWriter(t, func(n *hostops.Node) {
		require.NoError(t, os.WriteFile(n.Path(leftBehind), []byte("left"), 0o600))
		require.NoError(t, os.Chown(n.Path(leftBehind), 12345, 12345), "tests run as root")
	})
	require.NoError(t, n.WriteFile("/etc/file", []byte("new"), 0o644))
	st, err := n.Stat("/etc/file")
	require.NoError(t, err)
	require.EqualValues(t, os.Geteuid(), st.Sys().(*syscall.Stat_t).Uid)
	require.False(t, n.Exists(leftBehind))
}

func TestWriterAtWorkKeepsItsFile(t *testing.T) {
	n := killedWriter(t, func(n *hostops.Node) {})
	f, err := os.Create(n.Path(leftBehind))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	require.NoError(t, n.Remove("/etc/file"))
	require.True(t, n.Exists(leftBehind))
}

// Writers of one file take turns: each finds its own content whole or another's.
func TestWritersOfOneFileTakeTurns(t *testing.T) {
	n := killedWriter(t, func(n *hostops.Node) {})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 25 {
				if err := n.WriteFile("/etc/file", bytes.Repeat([]byte{'a' + byte(i)}, 5000), 0o644); err != nil {
					t.Error(err)
				}
				text, err := n.ReadString("/etc/file")
				if err != nil || text != strings.Repeat(text[:1], 5000) {
					t.Error(fmt.Sprint(err, len(text)))
				}
			}
		})
	}
	all.Wait()
	entries, err := n.ReadDir("/etc")
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
