package hostops

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A policy lets the kernel load files of one type only. The kernel keeps the
// label also where no policy reads it; tests run as root.
func TestModuleHasTheLabelThatAPolicyAsksFor(t *testing.T) {
	file := t.TempDir() + "/x.ko"
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, relabel(file, LabelModule))
	buf := make([]byte, 128)
	got, err := unix.Lgetxattr(file, "security.selinux", buf)
	require.NoError(t, err)
	require.Equal(t, "system_u:object_r:modules_object_t:s0\x00", string(buf[:got]))
	require.Equal(t, LabelModule, labelAt(file))
	require.ErrorContains(t, relabel(file+".gone", LabelModule), "labelling it "+LabelModule)
}
