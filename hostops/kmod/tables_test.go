package kmod_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/hostops/kmod"
)

func modulesOf(c []kmod.Candidate) []string {
	var names []string
	for _, m := range c {
		names = append(names, m.Module)
	}
	return names
}

func TestMatchByAliasOfEveryBus(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	for _, c := range []struct {
		name, modalias string
		want           []string
	}{
		{"pci by vendor and device", e100Card, []string{"e100"}},
		{"pci, two modules for one card", "pci:v000010ECd00008139sv000010ECsd00008139bc02sc00i00", []string{"8139cp", "8139too"}},
		{"pci, the vendor is a wild card", "pci:v0000FFFFd00008139sv000013D1sd0000AB06bc02sc00i00", []string{"8139too"}},
		{"pci by class alone", "pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", []string{"nvme"}},
		{"pci, subsystem must fit", "pci:v0000FFFFd00008139sv000013D1sd0000AB07bc02sc00i00", nil},
		{"acpi, a wild card before the colon", "acpi:PNP0C0C:", []string{"button"}},
		{"usb", "usb:v0BDAp8152d2000dc00dsc00dp00icFFiscFFip00in00", []string{"r8152"}},
		{"built in", "xen:vfb", []string{"xen_fbfront"}},
		{"built in, dash and underscore equal", "crypto-sha256_generic", []string{"sha256_generic"}},
		{"nothing", "pci:v00001234d000011E8sv00001AF4sd00001100bc00scFFi00", nil},
		{"empty", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, modulesOf(tables.Match(c.modalias)))
		})
	}
	got := tables.Match("xen:vfb")
	require.True(t, got[0].Builtin)
	require.Empty(t, got[0].Path)
	require.Equal(t, modulesDir+"/kernel/drivers/net/ethernet/intel/e100.ko", tables.Match(e100Card)[0].Path)
}

// The index must give what trying every line gives.
func TestMatchEqualsTryingEveryLine(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	b, err := os.ReadFile("testdata/" + release + "/modules.alias")
	require.NoError(t, err)
	type line struct{ pattern, module string }
	var lines []line
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "alias" {
			lines = append(lines, line{f[1], f[2]})
		}
	}
	require.Greater(t, len(lines), 600)
	for _, l := range lines {
		modalias := strings.NewReplacer("*", "0", "?", "1").Replace(l.pattern)
		var want []string
		seen := map[string]bool{}
		for _, o := range lines {
			if module.MatchAlias(o.pattern, modalias) && !seen[o.module] {
				seen[o.module] = true
				want = append(want, o.module)
			}
		}
		require.Equal(t, want, modulesOf(tables.Match(modalias)), modalias)
	}
}

func TestPresenceByNameIsNotSupport(t *testing.T) {
	n := newNode(t)
	tables := kmod.OpenTables(n, modulesDir)
	_, there := tables.Path("ice")
	require.True(t, there)
	require.Empty(t, tables.Match(e825Card))
	near := tables.NearMisses(e825Card)
	require.Contains(t, near, "ice")
	require.NotContains(t, near, "8139cp", "another vendor")
	require.NotContains(t, near, "ahci", "another kind of device")
	require.Empty(t, tables.NearMisses(e100Card), "it is driven")

	// A device id just beside those of ice: ice comes first.
	require.Equal(t, "ice", tables.NearMisses("pci:v00008086d0000189Fsv00008086sd00000000bc02sc00i00")[0])
	require.Empty(t, tables.NearMisses("acpi:PNP0C0C:"))
}

func TestNamesWithDashAndUnderscoreAreEqual(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	for _, name := range []string{"ne2k-pci", "ne2k_pci"} {
		p, ok := tables.Path(name)
		require.True(t, ok, name)
		require.Equal(t, modulesDir+"/kernel/drivers/net/ethernet/8390/ne2k-pci.ko", p)
		require.Equal(t, []string{"8390"}, tables.Depends(name))
	}
	// Whole names only.
	_, ok := tables.Path("ne2k")
	require.False(t, ok)
}

func TestDependsKeepsModulesDepOrder(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	require.Equal(t, []string{"mii"}, tables.Depends("e100"))
	require.Equal(t, []string{"i40e", "ice", "ib_uverbs", "ib_core"}, tables.Depends("irdma"))
	require.Empty(t, tables.Depends("mii"))
	require.Empty(t, tables.Depends("nosuch"))
}

func TestAllSoftdepLinesAreMerged(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	pre, post := tables.Softdeps("btrfs")
	require.Equal(t, []string{"blake2b-256", "sha256", "xxhash64", "crypto-crc32c"}, pre)
	require.Empty(t, post)
	pre, post = tables.Softdeps("vfio")
	require.Empty(t, pre)
	require.Equal(t, []string{"vfio_iommu_type1", "vfio_iommu_spapr_tce"}, post)
	// Lines without "pre:" or "post:" say nothing, as modprobe reads them.
	pre, post = tables.Softdeps("cifs")
	require.Empty(t, pre)
	require.Empty(t, post)
}

func TestBlacklistedModuleIsPulledInByOthers(t *testing.T) {
	n := newNode(t)
	put(t, n, modulesDir+"/modules.weakdep", "weakdep e100 mii\n")
	tables := kmod.OpenTables(n, modulesDir)
	by := tables.PulledInBy("mii")
	require.Contains(t, by, kmod.Puller{Module: "e100", How: "depends"})
	require.Contains(t, by, kmod.Puller{Module: "e100", How: "weakdep"})
	require.Contains(t, tables.PulledInBy("ipmi-devintf"), kmod.Puller{Module: "ipmi_msghandler", How: "softdep post"})
	require.Empty(t, tables.PulledInBy("e100"))
}

func TestBuiltinIsKnownAsSuch(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	require.True(t, tables.Builtin("amd-uncore"))
	require.False(t, tables.Builtin("e100"))
	require.NotContains(t, tables.Names(), "amd_uncore")
	require.Contains(t, tables.Names(), "e100")
}

func TestSymbolProviderNamesTheModule(t *testing.T) {
	tables := kmod.OpenTables(newNode(t), modulesDir)
	mod, ok := tables.SymbolProvider("mii_link_ok")
	require.True(t, ok)
	require.Equal(t, "mii", mod)
	_, ok = tables.SymbolProvider("printk")
	require.False(t, ok)
}

func TestTreeWithoutDepmodIsRead(t *testing.T) {
	n := newNode(t)
	for _, f := range []string{"alias", "dep", "softdep", "symbols"} {
		require.NoError(t, n.Remove(modulesDir+"/modules."+f))
	}
	putFile(t, n, modulesDir+"/updates/mii.ko", realFiles+"/6.1.0-55-amd64/mii.ko")
	tables := kmod.OpenTables(n, modulesDir)
	require.Equal(t, []string{"e100"}, modulesOf(tables.Match(e100Card)))
	require.Equal(t, []string{"mii"}, tables.Depends("e100"))
	require.Equal(t, []string{"rm3100_core"}, tables.Depends("rm3100_spi"), "modules that are not there are left out")
	pre, _ := tables.Softdeps("libcrc32c")
	require.Equal(t, []string{"crc32c"}, pre)
	p, _ := tables.Path("mii")
	require.Equal(t, modulesDir+"/updates/mii.ko", p, "updates/ wins")
	require.Len(t, tables.Names(), 10)
	require.NotEmpty(t, tables.Notes())
	require.Contains(t, tables.Notes()[0], "depmod did not run")
}

func TestDamagedFileInATreeHidesNothingElse(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.Remove(modulesDir+"/modules.alias"))
	put(t, n, modulesDir+"/extra/broken.ko", "not a module")
	tables := kmod.OpenTables(n, modulesDir)
	require.Equal(t, []string{"e100"}, modulesOf(tables.Match(e100Card)))
	require.Contains(t, strings.Join(tables.Notes(), "\n"), "extra/broken.ko")
}

func TestNoTablesKnowNothing(t *testing.T) {
	var tables *kmod.Tables
	require.Nil(t, tables.Match(e100Card))
	require.Nil(t, tables.NearMisses(e100Card))
	require.Nil(t, tables.Depends("e100"))
	require.False(t, tables.Builtin("e100"))
	_, ok := tables.Path("e100")
	require.False(t, ok)
	require.Nil(t, tables.Notes())
}

func TestModulePathsOfAnotherOSRootStayBelowIt(t *testing.T) {
	n := newNode(t)
	require.NoError(t, os.MkdirAll(filepath.Join(n.Root, "mnt/next/usr/lib"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(n.Root, "lib/modules"), filepath.Join(n.Root, "mnt/next/usr/lib/modules")))
	dir := "/mnt/next/usr/lib/modules/" + release
	put(t, n, dir+"/modules.dep", "/opt/vendor/e100.ko: kernel/drivers/net/mii.ko\n")
	tables := kmod.OpenTables(n, dir)
	p, _ := tables.Path("e100")
	require.Equal(t, "/mnt/next/opt/vendor/e100.ko", p)
}
