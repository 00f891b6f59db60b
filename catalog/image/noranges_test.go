package image

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A registry, or a cache in front of it, that answers a range with the whole blob
// is found out with the first layer, whose bytes are used; no layer is asked for
// twice.
func TestRegistryWithoutRangesSendsEachLayerOnce(t *testing.T) {
	f := newRegistry(t, true)
	fw := t.TempDir()
	write(t, fw, "e100/d101m_ucode.bin", "firmware")
	p := f.pack(PackOptions{Firmware: fw, Kernels: []PackKernel{
		kernelDir(t, release, "e100.ko", "mii.ko", "8390.ko", "ne2k-pci.ko"), kernelDir(t, "6.1.0-55-amd64", "dummy.ko", "mii.ko")}})
	require.Len(t, p.Layers, 3)
	var size int64
	for _, l := range p.Layers {
		size += l.Size
	}
	said := ""
	img, err := openAt(t, f.host()+"/d:1", Options{Root: f.root(nil), Arch: "amd64", Log: func(s string) { said += s + "\n" }})
	require.NoError(t, err)
	var sent int64
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		f.inner.ServeHTTP(&sizedWriter{w, &sent}, r)
		return true
	})
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{Releases: []string{release, "6.1.0-55-amd64"}, Modules: []string{"mii", "e100", "dummy"}})
	require.NoError(t, err)
	require.Len(t, f.requests, len(p.Layers))
	require.Equal(t, size, sent)
	require.Equal(t, 1, strings.Count(said, "answers no ranges"))
}

type sizedWriter struct {
	http.ResponseWriter
	n *int64
}

func (w *sizedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	*w.n += int64(n)
	return n, err
}
