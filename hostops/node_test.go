package hostops

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAbsoluteLinksOfARecordedNodeStayInsideIt(t *testing.T) {
	root := t.TempDir()
	n := At(root, nil)
	require.NoError(t, n.WriteFile("/usr/lib/modules/6.1/a.ko", []byte("x"), 0o644))
	require.NoError(t, n.Symlink("usr/lib", "/lib"))
	require.NoError(t, n.Symlink("/lib/modules/6.1", "/tree"))
	require.NoError(t, n.Symlink("../../../../../../etc/passwd", "/up"))

	require.Equal(t, filepath.Join(root, "usr/lib/modules/6.1/a.ko"), n.Path("/tree/a.ko"))
	require.Equal(t, filepath.Join(root, "etc/passwd"), n.Path("/up"))
	require.Equal(t, "/usr/lib/modules/6.1/a.ko", n.NodePath(n.Path("/tree/a.ko")))
	require.Equal(t, filepath.Join(root, "tree"), n.entry("/tree"), "the link itself")
}

func TestALinkLoopEndsSomewhereBelowRoot(t *testing.T) {
	n := At(t.TempDir(), nil)
	require.NoError(t, n.Symlink("b", "/a"))
	require.NoError(t, n.Symlink("a", "/b"))
	require.False(t, n.Exists("/a"))
}

func TestAFailedWriteLeavesTheOldContent(t *testing.T) {
	n := At(t.TempDir(), nil)
	require.NoError(t, n.WriteFile("/etc/x", []byte("old"), 0o600))
	require.NoError(t, n.MkdirAll("/etc/dir", 0o755))
	require.Error(t, n.WriteFile("/etc/dir", []byte("new"), 0o600), "a directory is in the way")
	require.NoError(t, n.WriteFile("/etc/x", []byte("new"), 0o600))
	got, err := n.ReadString("/etc/x")
	require.NoError(t, err)
	require.Equal(t, "new", got)
	left, err := os.ReadDir(n.Path("/etc"))
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file stays")
}

func TestACommandThatFloodsIsReadToItsEnd(t *testing.T) {
	out, err := Live(nil).Exec.Run(context.Background(), "sh", "-c", "head -c 3000000 /dev/zero; echo end >&2; exit 7")
	require.ErrorContains(t, err, "exit status 7")
	require.Len(t, out, maxOutput)
}

func TestSimulatedNodeRunsNoCommand(t *testing.T) {
	n := At(t.TempDir(), nil)
	mark := filepath.Join(n.Root, "mark")
	_, err := n.Exec.Run(context.Background(), "touch", mark)
	require.NoError(t, err)
	require.NoFileExists(t, mark)
}
