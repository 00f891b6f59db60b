package judge

import (
	"debug/elf"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

func TestDependencyOnlyInTheImageComesFromTheImage(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko", "mii.ko"))
	in.Kernel = newKernel(t, k57).symvers().open() // no mii on the host
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, []string{"image:mii", "image:e100"}, order(j))
	require.Equal(t, "opt/lib/modules/6.1.0-57-amd64/mii.ko", j.Load[0].Path)
}

func TestDependencyOnlyOnTheHostIsNamedWithItsSymbol(t *testing.T) {
	j := Judge(input(t, newImage(t).with(k57, "e100.ko")))
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, []string{"host:mii", "image:e100"}, order(j))
	require.Equal(t, "/lib/modules/6.1.0-57-amd64/kernel/drivers/mii.ko", j.Load[0].Path)
	f := mustFind(t, j, "dependency-host")
	require.Equal(t, "e100 needs mii of the host, which is not loaded", f.Message)
	require.Regexp(t, `^needs symbol mii_\w+, provided by mii \(host, not loaded\)$`, f.Evidence[0])
}

// The load would fail half way with "Unknown symbol"; it is found before.
func TestMissingDependencyIsNamedWithItsSymbol(t *testing.T) {
	for name, k := range map[string]*kmod.Kernel{
		"all exports known": newKernel(t, k57).symvers().open(),
		"harvested":         newKernel(t, k57).open(),
	} {
		in := input(t, newImage(t).with(k57, "e100.ko"))
		in.Kernel = k
		j := Judge(in)
		require.Equal(t, finding.Blocked, j.Verdict, name)
		f := mustFind(t, j, "dependency-missing")
		require.Equal(t, "e100 needs mii, which is neither in the image nor on the host", f.Message, name)
		require.Regexp(t, `^needs symbol (mii|generic_mii)_\w+, provided by mii$`, strings.Join(f.Evidence, "\n"), name)
		require.Equal(t, Fails, checked(t, j, "dependencies").Result)
	}
}

// ne2k-pci does not say that it needs 8390 when its depends= is taken away;
// its symbols do.
func TestProviderIsFoundBySymbolWhereDependsIsSilent(t *testing.T) {
	in := input(t, newImage(t).with(k57, "ne2k-pci.ko", "8390.ko"))
	in.Devices = []string{nicNe2k}
	for i := range in.Inventory.Kernels[0].Modules {
		in.Inventory.Kernels[0].Modules[i].Info.Depends = nil
	}
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, []string{"image:8390", "image:ne2k_pci"}, order(j))
}

func TestSymbolNobodyExportsIsNamed(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Inventory.Kernels[0].Modules[0].Info.Imports = append(in.Inventory.Kernels[0].Modules[0].Info.Imports,
		module.Import{Name: "nf_nat_ipv4_fn"}, module.Import{Name: "may_be_absent", Weak: true})
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	f := mustFind(t, j, "symbol-missing")
	require.Contains(t, f.Message, "e100.ko needs nf_nat_ipv4_fn")
	require.NotContains(t, f.Message, "may_be_absent")
	require.Equal(t, Fails, checked(t, j, "symbols present").Result)

	in.Kernel = newKernel(t, k57).has("mii.ko", "e100.ko").open()
	j = Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict, "a harvest does not prove that a symbol is not there")
	unknown := mustFind(t, j, "symbols-unknown")
	require.Contains(t, unknown.Evidence, "nf_nat_ipv4_fn")
	require.Contains(t, strings.Join(unknown.Evidence, "\n"), "its image was not found (vmlinuz in /lib/modules/"+k57)
}

func TestSymbolThatOnlyTheMissingDriverImports(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	mod := &in.Inventory.Kernels[0].Modules[0]
	mod.Info.Imports = append(mod.Info.Imports, module.Import{Name: "pci_request_selected_regions_exclusive", CRC: 1, HasCRC: true})
	in.Kernel = newKernel(t, k57).has("mii.ko", "e100.ko").open()
	in.Kernel.Exported = func() map[string]bool { return map[string]bool{"pci_request_selected_regions_exclusive": true} }
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	f := mustFind(t, j, "symbols-unversioned")
	require.Equal(t, finding.Note, f.Severity)
	require.Contains(t, f.Evidence, "pci_request_selected_regions_exclusive")

	mod.Info.Vermagic = strings.Replace(mod.Info.Vermagic, k57, k55, 1)
	j = Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict, "another build may have another version of it")
}

func info(name string, depends ...string) *module.Info {
	return &module.Info{Name: name, Depends: depends, Vermagic: "6.1.0-57-amd64 SMP preempt mod_unload modversions ",
		License: "GPL", InTree: true, StructModuleSize: 896, HasCRCs: true, Machine: elf.EM_X86_64}
}

func TestDependencyCycleIsPrintedAsAChain(t *testing.T) {
	for _, c := range []struct {
		mods  []*module.Info
		chain string
	}{
		{[]*module.Info{info("drm", "sti_vtg"), info("sti_vtg", "drm")}, "drm -> sti_vtg -> drm"},
		{[]*module.Info{info("drm", "drm")}, "drm -> drm"},
		{[]*module.Info{info("drm", "a"), info("a", "b"), info("b", "c"), info("c", "a")}, "a -> b -> c -> a"},
	} {
		b := newImage(t)
		for _, m := range c.mods {
			b.module(k57, m.Name+".ko", m)
		}
		in := input(t, b)
		in.Devices, in.Modules = nil, []string{"drm"}
		j := Judge(in)
		require.Equal(t, finding.Blocked, j.Verdict)
		require.Equal(t, "the modules need each other in a ring: "+c.chain, mustFind(t, j, "dependency-cycle").Message)
		require.Contains(t, checked(t, j, "dependencies").Detail, c.chain)
		in.Modules = []string{"other"} // what is not in the ring can be had all the same
		in.Inventory.Kernels[0].Modules = append(in.Inventory.Kernels[0].Modules, image.Module{Path: "other.ko", Info: info("other")})
		require.Nil(t, find(Judge(in), "dependency-cycle"))
		require.Equal(t, []string{"image:other"}, order(Judge(in)))
	}
}

// KMM's modulesLoadingOrder: [A, B, C] means that A needs B needs C.
func TestCatalogOrderIsLoadedFromTheEnd(t *testing.T) {
	b := newImage(t).module(k57, "i915.ko", info("i915")).module(k57, "mei-gsc.ko", info("mei_gsc", "mei_me")).module(k57, "mei-me.ko", info("mei_me"))
	in := input(t, b)
	in.Devices, in.Modules = nil, []string{"i915", "mei-gsc"}
	j := Judge(in)
	require.Equal(t, []string{"image:mei_me", "image:mei_gsc", "image:i915"}, order(j))
	in.Modules = []string{"i915", "not-there"}
	require.Equal(t, "the module not_there is neither in the image nor on the host for kernel 6.1.0-57-amd64",
		mustFind(t, Judge(in), "module-missing").Message)
}

// A name that the image lacks and the host has: that is another driver.
func TestNamedDriverIsNotTakenFromTheHost(t *testing.T) {
	b := newImage(t).module(k57, "i915.ko", info("i915"))
	in := input(t, b)
	in.Devices, in.Modules = nil, []string{"mii"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Contains(t, mustFind(t, j, "driver-from-host").Message, "the image has no module mii for kernel 6.1.0-57-amd64")
	in.Modules = []string{"i915", "mii"}
	require.Equal(t, []string{"host:mii", "image:i915"}, order(Judge(in)), "what comes after the first may be the host's")
}

func TestSeveralSoftdepLinesAllCount(t *testing.T) {
	m := info("top")
	m.SoftPre, m.SoftPost = []string{"a", "mii", "nowhere"}, []string{"d"}
	in := input(t, newImage(t).module(k57, "top.ko", m).module(k57, "a.ko", info("a")).module(k57, "d.ko", info("d")))
	in.Devices, in.Modules = nil, []string{"top"}
	j := Judge(in)
	require.Equal(t, []string{"image:a", "host:mii", "image:top", "image:d"}, order(j))
	require.Contains(t, mustFind(t, j, "softdep").Message, "top asks for nowhere to be loaded before it")
	require.Equal(t, finding.Note, mustFind(t, j, "softdep").Severity, "a wish is no need")
	require.Contains(t, checked(t, j, "soft dependencies").Detail, "top wants d after it")

	// Those of the host's modprobe.d come on top.
	in.Policy = &kmod.Policy{SoftPre: map[string][]string{"top": {"dummy", "a"}}}
	j = Judge(in)
	require.Equal(t, []string{"host:dummy", "image:a", "host:mii", "image:top", "image:d"}, order(j))
	require.Contains(t, checked(t, j, "soft dependencies").Detail, "top (modprobe.d) wants dummy before it")
}

func TestPlainAndOtherCopiesOfOneModule(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko").
		file(k57, "updates/e100.ko", realModule(t, k57, "e100.ko")).
		file(k57, "extra/e100.ko", realModule(t, k57, "e100.ko")))
	j := Judge(in)
	require.Equal(t, "opt/lib/modules/6.1.0-57-amd64/updates/e100.ko", j.Load[1].Path)
	f := mustFind(t, j, "module-shadowed")
	require.Contains(t, f.Message, "updates/e100.ko is used")
	require.Equal(t, finding.Note, f.Severity)
}

func TestInTreeCounterpartIsBuiltIn(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Replaces = []string{"host1x"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Equal(t, "host1x is built into this kernel: it can neither be unloaded nor replaced", mustFind(t, j, "builtin").Message)

	in = input(t, newImage(t).module(k57, "host1x.ko", info("host1x")))
	in.Devices, in.Modules = nil, []string{"host1x"}
	require.NotNil(t, find(Judge(in), "builtin"), "a vendor module of a built-in's name is refused as well")
}

// "Already loaded" is said of the same build only.
func TestOldCopyOfAnotherVersionIsStillLoaded(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	e100 := in.Inventory.Kernels[0].Modules[0].Info
	e100.Version, e100.Srcversion = "367.44", "AAAA"
	in.Loaded = []kmod.LoadedModule{{Name: "e100", Version: "367.35", Srcversion: "BBBB"}, {Name: "mii"}}
	j := Judge(in)
	require.Equal(t, "e100 is loaded in another build: 367.35 (srcversion BBBB); the image has 367.44 (srcversion AAAA)",
		mustFind(t, j, "loaded-other-version").Message)
	require.False(t, j.Load[1].Loaded)
	require.True(t, j.Load[0].Loaded, "mii of the host is loaded already")

	in.Loaded[0].Srcversion = "AAAA"
	j = Judge(in)
	require.NotNil(t, find(j, "loaded"))
	require.True(t, j.Load[1].Loaded)

	// Debian's modules have no srcversion.
	e100.Version, e100.Srcversion, e100.BuildID = "", "", "17f0"
	in.Loaded[0] = kmod.LoadedModule{Name: "e100", BuildID: "17f0"}
	require.Equal(t, []string{"build id 17f0"}, mustFind(t, Judge(in), "loaded").Evidence)
	in.Loaded[0].BuildID = "99aa"
	require.Equal(t, "e100 is loaded in another build: build id 99aa; the image has build id 17f0", mustFind(t, Judge(in), "loaded-other-version").Message)
}

func TestPredecessorUnderAnOlderNameIsSeenWhole(t *testing.T) {
	in := input(t, newImage(t).module(k57, "falco.ko", info("falco")))
	in.Devices, in.Modules, in.Replaces = nil, []string{"falco"}, []string{"falco-probe"}
	in.Loaded = []kmod.LoadedModule{{Name: "falco_probe"}}
	j := Judge(in)
	require.Equal(t, "falco_probe of the kernel itself is loaded and is replaced", mustFind(t, j, "in-tree-loaded").Message)
	require.Nil(t, find(j, "loaded-other-version"), "names are compared whole")
	in.Kernel = newKernel(t, k57).has("ne2k-pci.ko", "8390.ko").symvers().open()
	in.Replaces, in.Loaded = []string{"8390"}, []kmod.LoadedModule{{Name: "8390"}}
	require.Equal(t, []string{"brought in by ne2k_pci (depends)"}, mustFind(t, Judge(in), "in-tree-loaded").Evidence)
	in.Replaces = nil
	require.Nil(t, find(Judge(in), "in-tree-loaded"))
}

func TestParameterTheModuleDoesNotHave(t *testing.T) {
	for _, c := range []struct{ given, code, want string }{
		{"debug=3", "", ""},
		{"use-io=1", "", ""}, // '-' and '_' are equal
		{"debig=3", "parameter-unknown", "e100 has no parameter debig; it has debug"},
		{"csum=1", "parameter-unknown", "it has eeprom_bad_csum_allow"},
		{"zzz=1", "parameter-unknown", "e100 has no parameter zzz"},
		{"debug=abc", "parameter-invalid", "a number is wanted (32 bits, signed: true)"},
		{"debug=0x10", "", ""},
		{"debug=99999999999", "parameter-invalid", "a number is wanted"},
		{"dyndbg=+p", "", ""},
	} {
		in := input(t, newImage(t).with(k57, "e100.ko"))
		in.Parameters = map[string][]string{"e100": {c.given}}
		j := Judge(in)
		if c.code == "" {
			require.Equal(t, finding.OK, j.Verdict, c.given)
			require.Equal(t, Passed, checked(t, j, "parameters").Result)
			continue
		}
		require.Equal(t, finding.Blocked, j.Verdict, c.given)
		require.Contains(t, mustFind(t, j, finding.Code(c.code)).Message, c.want, c.given)
	}
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Parameters = map[string][]string{"e1000": {"x=1"}}
	require.Contains(t, mustFind(t, Judge(in), "parameter-unknown").Message, "the image has no such module")
}

// Blanks, commas and semicolons are the value's own; a double quote cannot be
// given to the kernel at all.
func TestParameterValuesWithSemicolonsAreWhole(t *testing.T) {
	for value, kind := range map[string]string{
		"RMIntrLockingMode=1;RmEnable=0": "charp", "a b c": "charp", "": "charp", "1,2,0x3": "array of int",
		`"a b"`: "charp", "Y": "bool", "off": "bool", "0": "invbool",
	} {
		require.Empty(t, badValue(kind, value, true), value)
	}
	for value, kind := range map[string]string{`say "x"`: "charp", "1,x": "array of uint", "maybe": "bool", "300": "byte", "-1": "ushort", "1_000": "int"} {
		require.NotEmpty(t, badValue(kind, value, true), value)
	}
	require.NotEmpty(t, badValue("charp", "", false))
	require.Empty(t, badValue("bool", "", false))
}

func TestFirmwareTheKernelWillAskForIsLookedUp(t *testing.T) {
	none := func(string) bool { return false }
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.HostFirmware = none
	j := Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict)
	require.Equal(t, []string{"unsure-verdict"}, j.Risks)
	require.ElementsMatch(t, []string{"e100/d101m_ucode.bin", "e100/d101s_ucode.bin", "e100/d102e_ucode.bin"}, mustFind(t, j, "firmware-missing").Evidence)

	in = input(t, newImage(t).with(k57, "e100.ko").firmware("e100/d101m_ucode.bin.zst", "e100/d101s_ucode.bin", "e100/d102e_ucode.bin.xz"))
	in.HostFirmware = none
	j = Judge(in)
	require.Equal(t, finding.OK, j.Verdict, "packed files of the image are stored plain")
	require.Equal(t, "3 file(s), all in the image or on the host", checked(t, j, "firmware").Detail)

	in = input(t, newImage(t).with(k57, "e100.ko").firmware("e100/d101m_ucode.bin"))
	in.HostFirmware = none
	j = Judge(in)
	require.Equal(t, finding.OK, j.Verdict, "a driver lists files for all its cards")
	require.Equal(t, finding.Note, mustFind(t, j, "firmware-missing").Severity)
	require.Equal(t, "2 of 3 file(s) are neither in the image nor on the host", checked(t, j, "firmware").Detail)

	in = input(t, newImage(t).with(k57, "e100.ko").firmware("other/e100/d101m_ucode.bin"))
	in.HostFirmware = none
	require.Equal(t, finding.Unsure, Judge(in).Verdict, "a file one directory too deep is not found")
}

// A build of another release that fits is not lost because firmware is missing.
func TestMissingFirmwareDoesNotHideABuildThatFits(t *testing.T) {
	b := newImage(t).with(k55, "dummy.ko")
	b.inv.Kernels[0].Modules[0].Info.Firmware = []string{"x.bin"}
	in := input(t, b)
	in.Devices, in.Modules, in.HostFirmware = nil, []string{"dummy"}, func(string) bool { return false }
	j := Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict)
	require.Equal(t, []string{"kabi-match", "unsure-verdict"}, j.Risks)
	require.Equal(t, k55, j.Build)
}

func TestFirmwareOfAnotherDriverVersion(t *testing.T) {
	m := info("nvidia")
	m.Firmware = []string{"nvidia/565.57.01/gsp_ga10x.bin", "nvidia/565.57.01/gsp_tu10x.bin"}
	in := input(t, newImage(t).module(k57, "nvidia.ko", m).firmware("nvidia/555.58.02/gsp_ga10x.bin", "nvidia/555.58.02/gsp_tu10x.bin"))
	in.Devices, in.Modules = nil, []string{"nvidia"}
	in.HostFirmware = func(string) bool { return false }
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Equal(t, "nvidia wants nvidia/565.57.01/gsp_ga10x.bin; the image has nvidia/555.58.02/gsp_ga10x.bin", mustFind(t, j, "firmware-version").Message)

	// Every name counts, not the first alone.
	in.Inventory.Firmware[0].Name = "nvidia/565.57.01/gsp_ga10x.bin"
	j = Judge(in)
	require.Contains(t, mustFind(t, j, "firmware-version").Message, "nvidia wants nvidia/565.57.01/gsp_tu10x.bin")
}

func TestXZWithTheDefaultCheckIsStoredPlain(t *testing.T) {
	m := info("mt76")
	m.Packed, m.XZCheck = module.XZ, 4
	in := input(t, newImage(t).module(k57, "mt76.ko.xz", m))
	in.Devices, in.Modules = nil, []string{"mt76"}
	in.Kernel.Reads = []module.Compression{module.XZ}
	require.Equal(t, "mt76.ko.xz is packed with xz with the check CRC64; the kernel cannot unpack that itself, so it is stored plain",
		mustFind(t, Judge(in), "compression").Message)
	m.XZCheck = 1
	require.Nil(t, find(Judge(in), "compression"))
}

func TestInTreeCopyInTheInitramfsComesFirstAtBoot(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Replaces = []string{"old-e100"}
	in.InInitramfs = func(names []string) ([]string, string, error) {
		require.Equal(t, []string{"e100", "old_e100"}, names)
		return []string{"old_e100"}, "/boot/initrd.img-" + k57, nil
	}
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict)
	f := mustFind(t, j, "in-initramfs")
	require.Equal(t, "the initramfs of kernel 6.1.0-57-amd64 holds its own copy of old_e100, which is loaded first at boot", f.Message)
	require.Equal(t, []string{"/boot/initrd.img-6.1.0-57-amd64"}, f.Evidence)

	in.InInitramfs = func([]string) ([]string, string, error) { return nil, "/boot/x", errors.New("packed with lz4") }
	require.Equal(t, Check{"initramfs", NotChecked, "packed with lz4"}, checked(t, Judge(in), "initramfs"))
}
