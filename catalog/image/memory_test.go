package image

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// bigImage writes a layout of one gzip layer: size bytes of userland in files
// of 1 MiB, half of them compressible, with one module in the middle. Nothing
// of it is held in memory.
func bigImage(t testing.TB, size int64, module string) string {
	dir := t.TempDir()
	s, err := newStore(dir)
	require.NoError(t, err)
	b, err := s.create()
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(b, gzip.HuffmanOnly)
	require.NoError(t, err)
	diff := sha256.New()
	w := tar.NewWriter(io.MultiWriter(z, diff))
	noise := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 1<<20)
	for i := int64(0); i < size>>20; i++ {
		noise.Read(block[:len(block)/2])
		require.NoError(t, w.WriteHeader(fileHeader(fmt.Sprintf("usr/lib/app/file-%d", i), int64(len(block)))))
		_, err := w.Write(block)
		require.NoError(t, err)
		if i == size>>21 {
			require.NoError(t, w.WriteHeader(fileHeader(hostTree+"/dummy.ko", int64(len(module)))))
			_, err := io.WriteString(w, module)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	l, err := b.commit(types.OCILayer)
	require.NoError(t, err)
	finishImage(t, s, packedLayer{l, v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", diff.Sum(nil))}})
	return dir
}

// finishImage writes configuration, manifest and index for layers in a store.
func finishImage(t testing.TB, s *ociStore, layers ...packedLayer) {
	c := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.desc)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.diff)
	}
	var err error
	m.Config, err = s.putJSON(c, types.OCIConfigJSON)
	require.NoError(t, err)
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	d, err := s.put(raw, types.OCIManifestSchema1)
	require.NoError(t, err)
	require.NoError(t, s.name(d, ""))
}

// manyEntries writes a layer of n empty files.
func manyEntries(t testing.TB, s *ociStore, n int) packedLayer {
	b, err := s.create()
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(b, gzip.HuffmanOnly)
	require.NoError(t, err)
	diff := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(z, diff))
	w := tar.NewWriter(out)
	for i := range n {
		require.NoError(t, w.WriteHeader(fileHeader(fmt.Sprintf("usr/share/many/d%d/f%d", i/1000, i), 0)))
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Flush())
	require.NoError(t, z.Close())
	l, err := b.commit(types.OCILayer)
	require.NoError(t, err)
	return packedLayer{l, v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", diff.Sum(nil))}}
}

// peakHeap runs f and gives the largest live heap seen meanwhile, less what
// there was before.
func peakHeap(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	live := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before, peak := live(), int64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				peak = max(peak, live()-before)
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak
}

// Memory does not grow with the image: not with its bytes, and with its entries
// only by some bytes each.
func TestMemoryStaysFlat(t *testing.T) {
	module := realModule(t, release+"/dummy.ko")
	fetchOnce := func(dir string) int64 {
		img, err := openAt(t, "oci:"+dir, Options{})
		require.NoError(t, err)
		store := filepath.Join(t.TempDir(), "s")
		peak := peakHeap(func() {
			_, err = img.Fetch(t.Context(), store, Want{})
			require.NoError(t, err)
		})
		st, err := os.Stat(filepath.Join(store, hostTree, "dummy.ko"))
		require.NoError(t, err)
		require.EqualValues(t, len(module), st.Size())
		return peak
	}
	small, large := fetchOnce(bigImage(t, 8<<20, module)), fetchOnce(bigImage(t, 48<<20, module))
	t.Logf("peak heap: 8 MiB image %d KiB, 48 MiB image %d KiB", small>>10, large>>10)
	require.Less(t, large, int64(16<<20))

	dir := t.TempDir()
	s, err := newStore(dir)
	require.NoError(t, err)
	top, err := s.writeLayer([]packFile{{name: hostTree + "/dummy.ko", data: []byte(module)}}, nil)
	require.NoError(t, err)
	finishImage(t, s, top, manyEntries(t, s, 100_000))
	entries := fetchOnce(dir)
	t.Logf("peak heap: 100,000 entries %d KiB", entries>>10)
	require.Less(t, entries, int64(16<<20))
}

// BenchmarkFetch reads one module out of an image of 256 MiB.
func BenchmarkFetch(b *testing.B) {
	dir := bigImage(b, 256<<20, realModule(b, release+"/dummy.ko"))
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	for b.Loop() {
		img, err := openAt(b, "oci:"+dir, Options{})
		require.NoError(b, err)
		peak := peakHeap(func() {
			_, err = img.Fetch(b.Context(), filepath.Join(b.TempDir(), "s"), Want{})
			require.NoError(b, err)
		})
		b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	}
}
