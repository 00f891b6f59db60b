package agreement_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

// material is what the cells are made of.
type material struct {
	t testing.TB
	// stock and plus are the kernels that are asked about; the others give
	// modules that were not built for these.
	stock, plus                              debian.Kernel
	previous, older, oldest, cloud, realTime debian.Kernel
	signer                                   *signer
	built                                    map[string]map[string][]byte // release → file → bytes
}

func newMaterial(t testing.TB) *material {
	m := &material{t: t, built: map[string]map[string][]byte{}}
	for meta, k := range map[debian.Meta]*debian.Kernel{debian.Stock: &m.stock, debian.Plus: &m.plus, debian.Cloud: &m.cloud, debian.RT: &m.realTime} {
		var err error
		*k, err = debian.Newest(meta)
		require.NoError(t, err)
	}
	var err error
	m.previous, err = debian.Older(1)
	require.NoError(t, err)
	m.older, err = debian.Older(2)
	require.NoError(t, err)
	m.oldest, err = debian.Older(3)
	require.NoError(t, err)
	for _, k := range []debian.Kernel{m.stock, m.plus} {
		m.built[k.Release] = build(t, k.Release)
	}
	m.signer = newSigner(t, m.stock.Release)
	return m
}

// kernel finds one of the kernels that are asked about.
func (m *material) kernel(release string) debian.Kernel {
	if release == m.plus.Release {
		return m.plus
	}
	return m.stock
}

// debian is a module as Debian built and signed it, unpacked.
func (m *material) debian(k debian.Kernel, name string) []byte {
	m.t.Helper()
	rel, err := k.Module(name)
	require.NoError(m.t, err)
	f, err := os.Open(filepath.Join(k.Modules(), rel))
	require.NoError(m.t, err)
	defer f.Close()
	r, _, err := module.Decompress(f)
	require.NoError(m.t, err)
	data, err := io.ReadAll(r)
	require.NoError(m.t, err)
	return data
}

// own is one of the modules in the directory modules, built for the release.
func (m *material) own(release, name string) []byte {
	data, ok := m.built[release][name+".ko"]
	require.True(m.t, ok, "%s of %s", name, release)
	return bytes.Clone(data)
}

// build builds the modules of the directory modules for a kernel release,
// against Debian's headers.
func build(t testing.TB, release string) map[string][]byte {
	t.Helper()
	files, err := debian.Build(release, os.DirFS("modules"))
	require.NoError(t, err)
	return files
}

// imageWriter lays images out once, each as a tag of one OCI layout for fitout
// to read, and as plain files for the kernel.
type imageWriter struct {
	dir  string
	tags map[string]bool
}

// write adds an image with the files that content makes, by path.
func (w *imageWriter) write(tag string, content func() map[string][]byte) error {
	if w.tags[tag] {
		return nil
	}
	w.tags[tag] = true
	spec := images.Spec{Extra: map[string]string{}}
	for name, data := range content() {
		spec.Extra[name] = string(data)
		to := filepath.Join(w.dir, "files", tag, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	img, err := images.Build(spec)
	if err != nil {
		return fmt.Errorf("building image %s: %w", tag, err)
	}
	return images.WriteLayout(img, filepath.Join(w.dir, "images"), tag)
}

// tagOf makes an image's tag of a cell's name.
func tagOf(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
}
