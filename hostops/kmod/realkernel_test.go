package kmod_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/vm/debian"
)

// stock is Debian's current 6.1 kernel, whole, fetched once into the cache.
var stock = sync.OnceValues(func() (debian.Kernel, error) { return debian.Newest(debian.Stock) })

func stockKernel(t testing.TB) (debian.Kernel, *hostops.Node) {
	t.Helper()
	k, err := stock()
	require.NoError(t, err)
	return k, hostops.At(k.Dir, nil)
}

// symversOf takes Module.symvers out of a kernel's headers package.
func symversOf(t testing.TB, release string) map[string]kmod.Symbol {
	t.Helper()
	deb, err := debian.Download("linux-headers-" + release)
	require.NoError(t, err)
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var content []byte
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if path.Base(h.Name) == "Module.symvers" {
			content, err = io.ReadAll(r)
			require.NoError(t, err)
		}
	}
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	symbols, err := kmod.ReadSymvers(bytes.NewReader(content))
	require.NoError(t, err)
	return symbols
}

// agree compares every symbol that is known with what the kernel's build wrote
// down, and counts those that are not known, by exporter.
func agree(t testing.TB, symbols *kmod.Symbols, want map[string]kmod.Symbol) map[string]int {
	t.Helper()
	unseen := map[string]int{}
	total := symbols.Len()
	for name, w := range want {
		got, ok := symbols.Lookup(name)
		if !ok {
			unseen[w.Module]++
			continue
		}
		require.Equal(t, w.CRC, got.CRC, name)
		require.Equal(t, w.Module, got.Module, name)
		if got.TermsKnown {
			require.Equal(t, w.GPLOnly, got.GPLOnly, name)
			require.Equal(t, w.Namespace, got.Namespace, name)
		}
	}
	require.Equal(t, len(want), total+unseen["vmlinux"], "and nothing that is not there")
	t.Logf("%d of %d exports, none different; unseen: %v", total, len(want), unseen)
	return unseen
}

// What a kernel's own modules say of its symbols is what its build wrote down.
func TestHarvestAgreesWithModuleSymvers(t *testing.T) {
	rel, n := stockKernel(t)
	want := symversOf(t, rel.Release)
	// Under another release its image is not found.
	k, err := kmod.OpenKernel(n, "without-image", "/lib/modules/"+rel.Release)
	require.NoError(t, err)
	unseen := agree(t, k.Symbols, want)
	require.Equal(t, kmod.FromModules, k.Symbols.Origin())
	require.False(t, k.Symbols.Complete())
	require.NotZero(t, unseen["vmlinux"])
	require.Len(t, unseen, 1, "every export of a module is seen")
}

// With the image that boots, nothing is unseen.
func TestHarvestWithTheKernelsImageIsComplete(t *testing.T) {
	rel, n := stockKernel(t)
	k, err := kmod.OpenKernel(n, rel.Release, "")
	require.NoError(t, err)
	require.Empty(t, agree(t, k.Symbols, symversOf(t, rel.Release)))
	require.True(t, k.Symbols.Complete())
	require.Equal(t, kmod.FromImage, k.Symbols.Origin())
}

// A kernel whose modules are packed: the answer comes without unpacking all of
// them, and the next process has it from the cache.
func TestPackedKernelAnswersFromItsImage(t *testing.T) {
	rel, err := debian.Newest(debian.Plus)
	require.NoError(t, err)
	n, cache := hostops.At(rel.Dir, nil), t.TempDir()
	want := symversOf(t, rel.Release)
	for range 2 {
		k, err := kmod.OpenKernel(n, rel.Release, "", kmod.WithCache(cache))
		require.NoError(t, err)
		k.Symbols.Prefer("dummy")
		for _, name := range []string{"module_layout", "mii_link_ok", "register_netdev", "pcie_aspm_enabled", "alloc_free_mem_region"} {
			got, ok := k.Symbols.Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, want[name].CRC, got.CRC, name)
			require.Equal(t, want[name].Module, got.Module, name)
		}
		_, ok := k.Symbols.Lookup("no_such_symbol")
		require.False(t, ok)
		require.True(t, k.Symbols.Complete())
	}
}

// Every import of every module of the kernel is answered by its own harvest.
func TestEveryImportOfTheKernelsModulesIsAnswered(t *testing.T) {
	rel, n := stockKernel(t)
	k, err := kmod.OpenKernel(n, rel.Release, "")
	require.NoError(t, err)
	checked := 0
	for _, name := range []string{"e1000e", "nvme", "megaraid_sas", "vmxnet3", "ice", "nouveau", "qla2xxx", "mlx5_core"} {
		p, ok := k.Tables.Path(name)
		require.True(t, ok, name)
		m, err := module.ReadFile(n.Path(p))
		require.NoError(t, err)
		for _, imp := range m.Imports {
			sym, ok := k.Symbols.Lookup(imp.Name)
			require.True(t, ok, imp.Name)
			if imp.HasCRC && !imp.VersionOnly {
				require.Equal(t, imp.CRC, sym.CRC, imp.Name)
			}
			checked++
		}
	}
	require.Greater(t, checked, 1000)
}

// modaliases makes one modalias of every n-th alias line of a kernel's table.
func modaliases(t testing.TB, n *hostops.Node, dir string, every int) []string {
	t.Helper()
	b, err := n.ReadFile(dir + "/modules.alias")
	require.NoError(t, err)
	var found []string
	i := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || strings.ContainsAny(f[1], "[]?-") || !strings.Contains(f[1], ":") {
			continue
		}
		if i++; i%every == 0 {
			found = append(found, strings.ReplaceAll(f[1], "*", "0"))
		}
	}
	return found
}

// modprobe -R, one process for one modalias, names the same modules.
func TestMatchAnswersAsModprobeDoes(t *testing.T) {
	rel, n := stockKernel(t)
	tables := kmod.OpenTables(n, "/lib/modules/"+rel.Release)
	aliases := modaliases(t, n, "/lib/modules/"+rel.Release, 120)
	aliases = append(aliases, "pci:v00001234d000011E8sv00001AF4sd00001100bc00scFFi00",
		"pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", "acpi:PNP0C0C:", e825Card)
	require.Greater(t, len(aliases), 150)
	for _, alias := range aliases {
		out, err := exec.Command("modprobe", "-d", rel.Dir, "-S", rel.Release, "-C", t.TempDir(), "-R", alias).Output()
		var exit *exec.ExitError
		if err != nil {
			require.ErrorAs(t, err, &exit, "modprobe must be there: apt-get install kmod")
		}
		want := strings.Fields(string(out))
		var got []string
		for _, c := range tables.Match(alias) {
			if !c.Builtin {
				got = append(got, c.Module)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, strings.Join(slices.Compact(want), " "), strings.Join(got, " "), alias)
	}
}

// processorTime is what this process has used, user and system.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// One question after opening: what `devices` pays on a node with one card.
func BenchmarkFirstMatch(b *testing.B) {
	rel, n := stockKernel(b)
	for b.Loop() {
		tables := kmod.OpenTables(n, "/lib/modules/"+rel.Release)
		if len(tables.Match("pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00")) != 1 {
			b.Fatal("e1000e not found")
		}
	}
}

// 500 modaliases after the tables were read.
func BenchmarkMatch500(b *testing.B) {
	rel, n := stockKernel(b)
	tables := kmod.OpenTables(n, "/lib/modules/"+rel.Release)
	aliases := modaliases(b, n, "/lib/modules/"+rel.Release, 40)[:500]
	for _, a := range aliases {
		tables.Match(a)
	}
	for b.Loop() {
		for _, a := range aliases {
			tables.Match(a)
		}
	}
}

func BenchmarkNearMisses(b *testing.B) {
	rel, n := stockKernel(b)
	for b.Loop() {
		tables := kmod.OpenTables(n, "/lib/modules/"+rel.Release)
		if !slices.Contains(tables.NearMisses(e825Card), "ice") {
			b.Fatal("ice is not near")
		}
	}
}

// All symbol versions out of the kernel's 4,000 module files, without its image.
func BenchmarkHarvest(b *testing.B) {
	rel, n := stockKernel(b)
	before := processorTime(b)
	for b.Loop() {
		k, err := kmod.OpenKernel(n, "without-image", "/lib/modules/"+rel.Release)
		require.NoError(b, err)
		if k.Symbols.Len() < 10000 {
			b.Fatal("too few symbols")
		}
	}
	b.ReportMetric(float64((processorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	b.ReportMetric(float64(u.Maxrss)/1024, "peak-MiB")
}

// The same out of the cache.
func BenchmarkHarvestCached(b *testing.B) {
	rel, n := stockKernel(b)
	dir := b.TempDir()
	k, err := kmod.OpenKernel(n, rel.Release, "", kmod.WithCache(dir))
	require.NoError(b, err)
	k.Symbols.Len()
	for b.Loop() {
		k, err := kmod.OpenKernel(n, rel.Release, "", kmod.WithCache(dir))
		require.NoError(b, err)
		if k.Symbols.Len() < 10000 {
			b.Fatal("too few symbols")
		}
	}
}

// What vmlinux exports, out of the image that boots.
func BenchmarkKernelImage(b *testing.B) {
	rel, _ := stockKernel(b)
	image, err := os.ReadFile(rel.Vmlinuz())
	require.NoError(b, err)
	for b.Loop() {
		_, err := kmod.ReadKernelImage(bytes.NewReader(image), "")
		require.NoError(b, err)
	}
}

func BenchmarkOpenKernel(b *testing.B) {
	rel, n := stockKernel(b)
	for b.Loop() {
		_, err := kmod.OpenKernel(n, rel.Release, "")
		require.NoError(b, err)
	}
}
