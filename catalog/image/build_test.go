package image

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// release is the kernel of most test modules.
const release = "6.1.0-57-amd64"

// ent is one tar entry of a test layer. A name ending in / is a directory, link
// makes a symbolic one, hard a hard one; head may change anything else.
type ent struct {
	name, data, link, hard string
	head                   func(*tar.Header)
}

// realModule reads a module of Debian's from testdata/modules.
func realModule(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../testdata/modules", path))
	require.NoError(t, err)
	return string(raw)
}

// tarOf writes the entries as they are, whatever they say.
func tarOf(t testing.TB, ents ...ent) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range ents {
		h := &tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case e.hard != "":
			h.Typeflag, h.Linkname = tar.TypeLink, e.hard
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if e.head != nil {
			e.head(h)
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write([]byte(e.data))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func gzipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// testLayer is a layer given by its bytes.
type testLayer struct {
	packed, plain []byte
	media         types.MediaType
}

// blobLayer satisfies v1.Layer with a media type and compression of the test's
// choice.
type blobLayer struct {
	v1.Layer
	plain []byte
}

func (l blobLayer) DiffID() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(l.plain))
	return h, err
}

func layerOf(t testing.TB, ents ...ent) testLayer {
	plain := tarOf(t, ents...)
	return testLayer{packed: gzipped(t, plain), plain: plain, media: types.OCILayer}
}

// imageOf stacks layers, the first at the bottom.
func imageOf(t testing.TB, layers ...testLayer) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var adds []mutate.Addendum
	for _, l := range layers {
		adds = append(adds, mutate.Addendum{Layer: blobLayer{static.NewLayer(l.packed, l.media), l.plain}, MediaType: l.media})
	}
	img, err := mutate.Append(img, adds...)
	require.NoError(t, err)
	cf, err := img.ConfigFile()
	require.NoError(t, err)
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", runtime.GOARCH
	cf.Config.Labels = map[string]string{"org.opencontainers.image.title": "test"}
	img, err = mutate.ConfigFile(img, cf)
	require.NoError(t, err)
	return img
}

// asLayout writes an image as an OCI layout and gives its directory.
func asLayout(t testing.TB, img v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	p, err := ocilayout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(img))
	return dir
}

// archived packs a directory into one tar file.
func archived(t testing.TB, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	require.NoError(t, w.AddFS(os.DirFS(dir)))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return file
}

func openAt(t testing.TB, reference string, opts Options) (*Image, error) {
	t.Helper()
	ref, err := ParseReference(reference)
	require.NoError(t, err)
	if opts.Root == "" {
		opts.Root = t.TempDir()
	}
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	if opts.Sleep == nil {
		opts.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	img, err := Open(t.Context(), ref, opts)
	if err == nil {
		t.Cleanup(func() { img.Close() })
	}
	return img, err
}

// fetched opens and fetches everything of an image that must be good.
func fetched(t testing.TB, reference string, want Want) (*Inventory, string) {
	t.Helper()
	img, err := openAt(t, reference, Options{})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	inv, err := img.Fetch(t.Context(), dir, want)
	require.NoError(t, err)
	return inv, dir
}

// fetchLayers fetches an image of the given layers.
func fetchLayers(t testing.TB, want Want, layers ...testLayer) (*Inventory, string, error) {
	t.Helper()
	img, err := openAt(t, "oci:"+asLayout(t, imageOf(t, layers...)), Options{})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	inv, err := img.Fetch(t.Context(), dir, want)
	return inv, dir, err
}

// paths lists the module paths of a kernel.
func paths(k Kernel) []string {
	var out []string
	for _, m := range k.Modules {
		out = append(out, m.Path)
	}
	return out
}
