package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
)

// memorySource serves one layer from memory, whatever it holds.
type memorySource struct{ layer []byte }

func (memorySource) top(context.Context) ([]byte, v1.Hash, error)            { return nil, v1.Hash{}, io.EOF }
func (memorySource) manifest(context.Context, v1.Descriptor) ([]byte, error) { return nil, io.EOF }
func (m memorySource) blob(context.Context, int, v1.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m.layer)), nil
}
func (memorySource) origin() string { return "memory" }
func (memorySource) Close() error   { return nil }

// FuzzLayer extracts arbitrary bytes as a layer: it never panics, never leaves
// its directory, and leaves nothing when it fails.
func FuzzLayer(f *testing.F) {
	dummy := realModule(f, release+"/dummy.ko")
	f.Add(tarOf(f, ent{name: hostTree + "/dummy.ko", data: dummy}, ent{name: hostTree + "/x.ko", hard: hostTree + "/dummy.ko"}))
	f.Add(gzipped(f, tarOf(f, ent{name: hostTree, link: "/data"}, ent{name: hostTree + "/x.ko", data: "x"}, ent{name: "data/../../y", data: "y"})))
	f.Add(tarOf(f, ent{name: "lib", link: "usr/lib"}, ent{name: "lib/modules/x/y.ko", data: "z"}, ent{name: "usr/lib/.wh.modules"}))
	f.Add(tarOf(f, ent{name: "rpms/kmod-x.rpm", data: rpmOf(f, "zstd", cpioFileOf{"./lib/modules/" + release + "/dummy.ko", dummy, cpioFile})}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, n, err := v1.SHA256(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		layer := v1.Descriptor{Digest: h, Size: n}
		img := &Image{src: memorySource{raw}, digest: "sha256:x", manifest: v1.Manifest{Layers: []v1.Descriptor{layer, layer}},
			opts: Options{Limits: Limits{Bytes: 8 << 20, Entries: 10_000, Files: 1000}}.withDefaults()}
		around := t.TempDir()
		dir := filepath.Join(around, "store")
		_, err = img.Fetch(t.Context(), dir, Want{Licences: true})
		if err != nil {
			if _, serr := os.Lstat(dir); serr == nil {
				t.Fatal("a failed fetch leaves its directory")
			}
		}
		onlyBelow(t, around, dir)
	})
}

// onlyBelow fails when around holds anything that is not below dir.
func onlyBelow(t *testing.T, around, dir string) {
	err := filepath.WalkDir(around, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != around && p != dir && !strings.HasPrefix(p, dir+"/") {
			t.Fatalf("%s is outside", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzManifest reads arbitrary manifests and indexes.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","size":1},"layers":[{"size":-1}]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"schemaVersion":1,"fsLayers":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := parseManifest(raw, v1.Hash{})
		if err != nil {
			return
		}
		if doc.isIndex() {
			if d, err := choose(doc.Manifests, "amd64", func(string) {}); err == nil && d.Digest.Hex == "" {
				t.Fatal("an entry without a digest was chosen")
			}
			return
		}
		for _, l := range doc.Layers {
			if l.Size < 0 || l.Digest.Hex == "" {
				t.Fatal("a layer without size or digest passed")
			}
		}
	})
}

// FuzzRPM reads arbitrary package headers.
func FuzzRPM(f *testing.F) {
	f.Add([]byte(rpmOf(f, "xz", cpioFileOf{"./x", "y", cpioFile})))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		p, err := readRPM(r)
		if err != nil {
			return
		}
		z, stop, err := payload(r, p.compression, Limits{}.withDefaults())
		if err != nil {
			return
		}
		defer stop()
		c := newCpioReader(io.LimitReader(z, 1<<20), Limits{}.withDefaults())
		for {
			if _, err := c.next(); err != nil {
				return
			}
		}
	})
}

// FuzzReference: what is read is written so that it is read alike.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"a.b/c:d", "oci:x:y", "docker-archive:x:a/b:c", "[::1]:5/x", "localhost/x@sha256:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseReference(s)
		if err != nil {
			return
		}
		if back, err := ParseReference(ref.String()); err != nil || back != ref {
			t.Fatalf("%q: %+v, then %+v (%v)", s, ref, back, err)
		}
	})
}

// FuzzResumption takes up a fetch from arbitrary remains: it never panics and
// never leaves its directory.
func FuzzResumption(f *testing.F) {
	dummy := realModule(f, release+"/dummy.ko")
	layer := gzipped(f, tarOf(f, ent{name: "usr/x", data: dummy}, ent{name: hostTree + "/dummy.ko", data: dummy}))
	h, n, err := v1.SHA256(bytes.NewReader(layer))
	require.NoError(f, err)
	desc := v1.Descriptor{Digest: h, Size: n}
	newImage := func() *Image {
		return &Image{src: memorySource{layer}, digest: "sha256:x", manifest: v1.Manifest{Layers: []v1.Descriptor{desc, desc}}, opts: Options{}.withDefaults()}
	}
	root, err := os.OpenRoot(f.TempDir())
	require.NoError(f, err)
	x := newExtraction(newImage(), root, newSelector(Want{}))
	x.passes[1] = &pass{x: x, n: 1, own: newMarks(), border: 1536, spot: &place{Plain: []byte("x")}}
	require.NoError(f, x.keep(Want{}, x.from(0)))
	seed, err := root.ReadFile(resumptionName)
	require.NoError(f, err)
	f.Add(seed[sha256.Size:])
	f.Fuzz(func(t *testing.T, raw []byte) {
		around := t.TempDir()
		dir := filepath.Join(around, "store")
		require.NoError(t, prepareDir(dir+".part"))
		require.NoError(t, os.WriteFile(filepath.Join(dir+".part", resumptionName), []byte(summed(raw)), 0o600))
		if _, err := newImage().Fetch(t.Context(), dir, Want{}); err != nil {
			t.Fatal(err)
		}
		onlyBelow(t, around, dir)
	})
}
