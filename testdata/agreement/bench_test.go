package agreement_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
)

// fleet is an image with 200 modules of the kernel before this one, spread over
// its whole tree, in the directory of this one.
func fleet(t testing.TB, from debian.Kernel, release string) *image.Inventory {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(from.Modules(), "modules.dep"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	require.Greater(t, len(lines), 3500)
	inv := &image.Inventory{Reference: "registry.local:5000/drivers/fleet:1", Kernels: []image.Kernel{{Release: release}}}
	for i := range 200 {
		rel, _, _ := strings.Cut(lines[i*len(lines)/200], ":")
		info, err := module.ReadFile(filepath.Join(from.Modules(), rel))
		require.NoError(t, err)
		inv.Kernels[0].Modules = append(inv.Kernels[0].Modules, image.Module{Path: "opt/lib/modules/" + release + "/updates/" + filepath.Base(rel), Info: info})
	}
	return inv
}

// judgeFleet opens the kernel anew and judges all modules of the image.
func judgeFleet(b *testing.B, opts ...kmod.Option) {
	stock, err := debian.Newest(debian.Stock)
	require.NoError(b, err)
	previous, err := debian.Older(1)
	require.NoError(b, err)
	inv, node := fleet(b, previous, stock.Release), hostops.At(stock.Dir, nil)
	hostops.BoundMemory() // as the program does
	b.ReportAllocs()
	before := used(b)
	b.ResetTimer()
	for b.Loop() {
		k, err := kmod.OpenKernel(node, stock.Release, "", opts...)
		require.NoError(b, err)
		j := judge.Judge(judge.Input{Inventory: inv, Release: stock.Release, Kernel: k, Machine: "x86_64",
			Expected: &kmod.Policy{HasCapability: true, KeysKnown: true}, HostFirmware: func(string) bool { return true }})
		if j.Verdict == finding.NoModule || len(j.Load) < 200 {
			b.Fatal(j.Verdict, len(j.Load))
		}
	}
	after := used(b)
	b.ReportMetric((after.cpu-before.cpu).Seconds()*1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(after.peak, "peak-MiB")
}

// Nothing is known yet: the kernel's versions are harvested.
func Benchmark200ModulesAgainst4000(b *testing.B) { judgeFleet(b) }

// Every further verdict has the harvest from the cache.
func Benchmark200ModulesAgainst4000Cached(b *testing.B) { judgeFleet(b, kmod.WithCache(b.TempDir())) }

type usage struct {
	cpu  time.Duration
	peak float64 // MiB
}

// used is what this process has taken so far.
func used(t testing.TB) usage {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return usage{time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Maxrss) / 1024}
}

// A harvest is kept under the build of the kernel: a second process asks no
// module any more, and another build of the same release is harvested anew.
func TestHarvestOfARealKernelIsCachedByItsBuild(t *testing.T) {
	stock, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	root := linked(t, stock)
	node, cache := hostops.At(root, nil), t.TempDir()
	open := func() *kmod.Kernel {
		k, err := kmod.OpenKernel(node, stock.Release, "", kmod.WithCache(cache))
		require.NoError(t, err)
		return k
	}
	first := open()
	all := first.Symbols.Len()
	require.Greater(t, all, 10000)

	// Without its modules and image only the cache can know.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "boot")))
	sample := node.Path(first.Sample)
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "lib/modules", stock.Release, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == sample {
			return err
		}
		return os.Remove(p)
	}))
	second := open()
	require.Equal(t, all, second.Symbols.Len())
	require.True(t, second.Symbols.Complete())

	info, err := module.ReadFile(sample)
	require.NoError(t, err)
	require.NotEmpty(t, info.BuildID)
	data, err := os.ReadFile(sample)
	require.NoError(t, err)
	data, err = images.OtherBuild(data)
	require.NoError(t, err)
	require.NoError(t, os.Remove(sample)) // it is a link into the cache
	require.NoError(t, os.WriteFile(sample, data, 0o644))
	require.Less(t, open().Symbols.Len(), 1000)
}

// linked is a kernel's tree of hard links, which may be taken apart.
func linked(t testing.TB, k debian.Kernel) string {
	t.Helper()
	beside, err := debian.CacheDir("linked") // the same file system
	require.NoError(t, err)
	root, err := os.MkdirTemp(beside, "kernel-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, filepath.WalkDir(k.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(k.Dir, p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(root, rel), 0o755)
		case d.Type().IsRegular():
			return os.Link(p, filepath.Join(root, rel))
		}
		return nil
	}))
	return root
}
