package fetching

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/testdata/vm/debian"
)

// Six kernels and 41 network and storage modules of each: what a vendor's
// driver image for one distribution is like.
const (
	kernelCount = 6
	moduleCount = 41
)

// kernels are six real kernels of Debian.
func kernels(t testing.TB) []debian.Kernel {
	var out []debian.Kernel
	add := func(k debian.Kernel, err error) {
		require.NoError(t, err)
		out = append(out, k)
	}
	releases, err := debian.Releases()
	require.NoError(t, err)
	for _, r := range releases[:min(len(releases), 4)] {
		add(debian.Fetch(r))
	}
	for _, meta := range []debian.Meta{debian.RT, debian.Cloud, debian.Plus} {
		if len(out) < kernelCount {
			add(debian.Newest(meta))
		}
	}
	require.Len(t, out, kernelCount)
	return out
}

// modules are the names of the largest network and storage modules that all
// kernels have.
func modules(t testing.TB, kernels []debian.Kernel) []string {
	size, in := map[string]int64{}, map[string]int{}
	for _, k := range kernels {
		for _, dir := range []string{"net", "scsi", "nvme", "block"} {
			err := filepath.WalkDir(filepath.Join(k.Modules(), "kernel/drivers", dir), func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				st, err := d.Info()
				name, _, _ := strings.Cut(strings.ReplaceAll(d.Name(), "-", "_"), ".ko")
				size[name] = max(size[name], st.Size())
				in[name]++
				return err
			})
			if err != nil && !os.IsNotExist(err) {
				require.NoError(t, err)
			}
		}
	}
	var names []string
	for n, c := range in {
		if c == len(kernels) {
			names = append(names, n)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		if size[names[i]] != size[names[j]] {
			return size[names[i]] > size[names[j]]
		}
		return names[i] < names[j]
	})
	require.Greater(t, len(names), moduleCount)
	return names[:moduleCount]
}

// trees copies the modules of each kernel into a directory of its own.
func trees(t testing.TB, kernels []debian.Kernel, names []string) (out []image.PackKernel) {
	for _, k := range kernels {
		dir := t.TempDir()
		for _, n := range names {
			rel, err := k.Module(n)
			require.NoError(t, err)
			raw, err := os.ReadFile(filepath.Join(k.Modules(), rel))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, rel)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, rel), raw, 0o644))
		}
		out = append(out, image.PackKernel{Release: k.Release, Dir: dir})
	}
	return out
}
