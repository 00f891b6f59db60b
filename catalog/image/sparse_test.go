package image

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
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

// Sizes that eight octal digits cannot hold are written as numbers to the base
// of 256. A file is read by them; a layer that ends before them is cut short.
func TestSizesToTheBaseOf256(t *testing.T) {
	of := func(size uint64) testLayer {
		var plain bytes.Buffer
		w := tar.NewWriter(&plain)
		for _, name := range []string{"firmware/first.bin", hostTree + "/dummy.ko"} {
			data := realModule(t, release+"/dummy.ko")
			require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatGNU}))
			_, err := w.Write([]byte(data))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		header := plain.Bytes()[:512]
		if size == 0 {
			size = uint64(len(realModule(t, release+"/dummy.ko")))
		}
		copy(header[124:136], []byte{0x80, 0, 0, 0})
		binary.BigEndian.PutUint64(header[128:136], size)
		copy(header[148:156], "        ")
		sum := 0
		for _, b := range header {
			sum += int(b)
		}
		copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
		return testLayer{gzipped(t, plain.Bytes()), plain.Bytes(), types.OCILayer}
	}
	inv, dir, err := fetchLayers(t, Want{}, of(0))
	require.NoError(t, err)
	require.Len(t, inv.Kernels[0].Modules, 1)
	got, err := os.ReadFile(filepath.Join(dir, "firmware/first.bin"))
	require.NoError(t, err)
	require.Equal(t, realModule(t, release+"/dummy.ko"), string(got))

	for _, size := range []uint64{8 << 30, 1 << 62, 1<<64 - 1} {
		_, _, err = fetchLayers(t, Want{}, of(size))
		require.Contains(t, []Code{Corrupt, Truncated, Limit}, CodeOf(err), "%d: %v", size, err)
	}
}
