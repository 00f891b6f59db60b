package image

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a packed image's firmware only that of the wanted modules is fetched, with
// what lies beside it; when a module names none of it, all is.
func TestOnlyTheFirmwareOfTheWantedModulesIsFetched(t *testing.T) {
	f := newRegistry(t, true)
	fw := t.TempDir()
	write(t, fw, "e100/d101m_ucode.bin", "named by the module")
	write(t, fw, "e100/other.bin", "beside it")
	write(t, fw, "other/large.bin", noise(1<<20))
	f.pack(PackOptions{Kernels: []PackKernel{kernelDir(t, release, "e100.ko", "mii.ko", "dummy.ko")}, Firmware: fw})
	root := f.root(nil)
	for module, want := range map[string][]string{
		"e100":  {"e100/d101m_ucode.bin", "e100/other.bin"},
		"dummy": {"e100/d101m_ucode.bin", "e100/other.bin", "other/large.bin"},
	} {
		img, err := openAt(t, f.host()+"/d:1", Options{Root: root, Arch: "amd64"})
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "s")
		inv, err := img.Fetch(t.Context(), dir, Want{Releases: []string{release}, Modules: []string{module}})
		require.NoError(t, err)
		var names []string
		for _, f := range inv.Firmware {
			names = append(names, f.Name)
		}
		require.Equal(t, want, names)
		require.Equal(t, len(want) == 2, inv.Fetched < 200_000, "%d bytes", inv.Fetched)
	}
}
