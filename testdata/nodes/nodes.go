// Package nodes gives tests a node to look at: recorded machines, unpacked
// from the archives beside this file, and small ones built to order. Nothing
// outside tests may import it.
package nodes

import (
	"archive/tar"
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed *.tar.gz
var archives embed.FS

// Names lists the recorded nodes; README.md says what each of them is.
func Names() []string {
	entries, err := archives.ReadDir(".")
	if err != nil {
		panic(err) // the embedded directory is part of the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".tar.gz"))
	}
	return names
}

// Unpack unpacks a recorded node into a directory of the test and returns it,
// ready for hostops.At. The recordings hold sysfs only.
func Unpack(t testing.TB, name string) string {
	t.Helper()
	f, err := archives.Open(name + ".tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	root := dir(t)
	in := tar.NewReader(z)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		require.NoError(t, err)
		require.NoError(t, unpackEntry(root, h, in), h.Name)
	}
}

// Furnish unpacks a recorded node and puts under its hardware what Build puts
// under built ones: an OS, a kernel with its module tables, a root disk.
func Furnish(t testing.TB, name string) string {
	t.Helper()
	b := builder{t: t, root: Unpack(t, name)}
	b.system()
	b.mkdir("sys/class/net", "sys/block", "sys/module")
	b.file("sys/bus/pci/drivers_probe", "")
	b.file("proc/modules", "")
	return b.root
}

func unpackEntry(root string, h *tar.Header, content io.Reader) error {
	p := filepath.Join(root, h.Name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(p, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, p)
	}
	b, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o644)
}
