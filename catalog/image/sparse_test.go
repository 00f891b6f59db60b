package image

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// A file with holes, in the forms that tar knows for it, has its zeros when it is
// fetched, and what follows it in the layer is found.
func TestSparseFilesHaveTheirZeros(t *testing.T) {
	from := t.TempDir()
	content := append(append([]byte("begin"), make([]byte, 1<<20)...), "end"...)
	name := filepath.Join(from, "firmware/vendor/holes.bin")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("begin"), 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("end"), int64(len(content)-3))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	write(t, from, hostTree+"/dummy.ko", realModule(t, release+"/dummy.ko"))
	for _, form := range []string{"--format=gnu", "--format=pax --sparse-version=0.0", "--format=pax --sparse-version=0.1", "--format=pax --sparse-version=1.0"} {
		plain, err := exec.Command("sh", "-c", "exec tar -C "+from+" -cS "+form+" firmware opt").Output()
		require.NoError(t, err)
		require.Less(t, len(plain), 1<<19, "tar left the hole out")
		inv, dir, err := fetchLayers(t, Want{}, testLayer{gzipped(t, plain), plain, types.OCILayer})
		require.NoError(t, err, form)
		got, err := os.ReadFile(filepath.Join(dir, "firmware/vendor/holes.bin"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), form)
		require.Len(t, inv.Kernels[0].Modules, 1, form)
	}
}
