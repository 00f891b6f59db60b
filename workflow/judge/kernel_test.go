package judge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

func TestModuleOfThisVeryKernelIsOK(t *testing.T) {
	j := Judge(input(t, newImage(t).with(k57, "e100.ko", "mii.ko")))
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, []string{"host:mii", "image:e100"}, order(j), "a copy of the kernel's own mii is not taken while the host has it")
	require.Equal(t, k57, j.Build)
	require.Empty(t, j.Risks)
	for _, c := range j.Checks {
		require.Equal(t, Passed, c.Result, "%s: %s", c.Name, c.Detail)
		require.NotEmpty(t, c.Detail, c.Name)
	}
	require.Equal(t, strings.TrimSpace("6.1.0-57-amd64 SMP preempt mod_unload modversions "), checked(t, j, "vermagic").Detail)
}

// -55's modules have all the symbol versions of -57: the kernel takes them, and
// so do we, with a risk that is named.
func TestOtherReleaseWithEqualChecksumsIsLoadable(t *testing.T) {
	for name, b := range map[string]*built{
		"in its own directory":    newImage(t).with(k55, "dummy.ko"),
		"in this one's directory": newImage(t).file(k57, "dummy.ko", realModule(t, k55, "dummy.ko")),
	} {
		in := input(t, b)
		in.Devices, in.Modules = nil, []string{"dummy"}
		j := Judge(in)
		require.Equal(t, finding.OKKABI, j.Verdict, "%s: %v", name, j.Findings)
		require.Equal(t, []string{"kabi-match"}, j.Risks, name)
		f := mustFind(t, j, "kabi-match")
		require.Equal(t, "built for 6.1.0-55-amd64; all 36 symbol versions match kernel 6.1.0-57-amd64: it would load", f.Message)
		require.Equal(t, []string{"another build: the kernel is 6.1.0-57, the module is for 6.1.0-55"}, f.Evidence)
		require.Equal(t, Passed, checked(t, j, "symbol versions").Result)
	}
}

func TestOtherReleaseWithoutModversionsIsRefused(t *testing.T) {
	in := input(t, newImage(t).with(k55, "dummy.ko"))
	in.Devices, in.Modules, in.Build = nil, []string{"dummy"}, k55
	in.Kernel.Vermagic = "6.1.0-57-amd64 SMP preempt mod_unload "
	in.Inventory.Kernels[0].Modules[0].Info.Vermagic = "6.1.0-55-amd64 SMP preempt mod_unload "
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Contains(t, mustFind(t, j, "vermagic-release").Evidence, "another build: the kernel is 6.1.0-57, the module is for 6.1.0-55")
	require.Equal(t, NotChecked, checked(t, j, "symbol versions").Result)
}

// The nearest build of the same stream is shown and not used: its versions differ.
func TestBuildForAnotherKernelOfTheStreamIsOnlyInformation(t *testing.T) {
	in := input(t, newImage(t).with(k54, "dummy.ko").with(rt, "dummy.ko"))
	in.Devices, in.Modules = nil, []string{"dummy"}
	j := Judge(in)
	require.Equal(t, finding.NoModule, j.Verdict)
	require.Equal(t, k54, j.Nearest)
	require.Empty(t, j.Load)
	f := mustFind(t, j, "no-module")
	require.Equal(t, "registry.local:5000/drivers/test:1 has no module for kernel 6.1.0-57-amd64", f.Message)
	require.Contains(t, f.Evidence, "the image has: 6.1.0-54-amd64, 6.1.0-57-rt-amd64")
	require.Contains(t, strings.Join(f.Evidence, "\n"), "symbol versions of 6.1.0-54-amd64: 19 of 36 differ")
}

func TestImageWithoutModulesSaysSo(t *testing.T) {
	j := Judge(Input{Release: k57})
	require.Equal(t, finding.NoModule, j.Verdict)
	require.Contains(t, mustFind(t, j, "no-module").Evidence, "the image holds no kernel modules at all")
}

// Debian's cloud kernel has the same vermagic flags: only checksums tell.
func TestVermagicEqualAndKernelStillRefuses(t *testing.T) {
	b := newImage(t).file(k57, "dummy.ko", realModule(t, cloud, "dummy.ko"))
	b.inv.Kernels[0].Modules[0].Info.Vermagic = "6.1.0-57-amd64 SMP preempt mod_unload modversions "
	in := input(t, b)
	in.Devices, in.Modules = nil, []string{"dummy"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	f := mustFind(t, j, "symbol-crc")
	require.Contains(t, f.Message, "(first: module_layout)")
	require.Equal(t, "vermagic ok, symbol checksums differ (module_layout)", f.Evidence[0])
	require.Regexp(t, `^module_layout: module 0x[0-9a-f]{8}, kernel 0x[0-9a-f]{8}$`, f.Evidence[1])

	in.Kernel = newKernel(t, k57).open()
	in.Kernel.Symbols, in.Kernel.ModuleLayout = nil, 0
	j = Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict, "no source of checksums is never compatible")
	require.Contains(t, mustFind(t, j, "symbols-unknown").Message, "symvers.gz or the Module.symvers of this kernel's headers would settle it")
	require.Equal(t, NotChecked, checked(t, j, "symbol versions").Result)
}

func TestOneFlippedChecksumIsFound(t *testing.T) {
	e100 := realModule(t, k57, "e100.ko")
	for _, symbol := range []string{"module_layout", "register_netdev", "mii_link_ok"} {
		j := Judge(input(t, newImage(t).file(k57, "e100.ko", otherCRC(t, e100, symbol))))
		require.Equal(t, finding.Blocked, j.Verdict, symbol)
		require.Contains(t, mustFind(t, j, "symbol-crc").Message, "1 of 113", symbol)
		require.Contains(t, mustFind(t, j, "symbol-crc").Message, "first: "+symbol)
	}
}

func TestRealTimeModulesAreRefusedByTheirFlags(t *testing.T) {
	in := input(t, newImage(t).file(k57, "dummy.ko", realModule(t, rt, "dummy.ko")))
	in.Devices, in.Modules = nil, []string{"dummy"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	f := mustFind(t, j, "vermagic-flags")
	require.Contains(t, f.Message, "module has 'preempt_rt', the kernel has not")
	require.Contains(t, f.Message, "kernel has 'preempt', the module has not")
	require.Equal(t, Differs, checked(t, j, "vermagic").Result)
	require.Contains(t, mustFind(t, j, "image-mislabelled").Message, "the file says 6.1.0-57-rt-amd64")
}

func TestOneFlagTooManyInVermagicIsNamed(t *testing.T) {
	for _, c := range []struct{ module, kernel, want string }{
		{"4.4.59+ SMP preempt mod_unload ", "4.4.59+ SMP mod_unload ", "module has 'preempt', the kernel has not"},
		{"4.4.59+ SMP mod_unload", "4.4.59+ SMP mod_unload ", ""}, // a trailing blank does not matter
		{"4.4.59+ SMP ", "4.4.59+ SMP mod_unload ", "kernel has 'mod_unload', the module has not"},
		{"4.4.59+ mod_unload SMP ", "4.4.59+ SMP mod_unload ", "another order"},
		{"", "4.4.59+ SMP ", "it has none"},
	} {
		in := input(t, newImage(t).with(k57, "dummy.ko"))
		in.Devices, in.Modules = nil, []string{"dummy"}
		in.Kernel.Vermagic = c.kernel
		in.Inventory.Kernels[0].Modules[0].Info.Vermagic = c.module
		j := Judge(in)
		if c.want == "" {
			require.Nil(t, find(j, "vermagic-flags"))
			continue
		}
		require.Equal(t, finding.Blocked, j.Verdict)
		require.Contains(t, mustFind(t, j, "vermagic-flags").Message, c.want)
	}
}

func TestStructModuleSizeDiffers(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Kernel.StructModuleSize = 1280
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Equal(t, "e100.ko was built with a struct module of 896 bytes, the kernel's has 1280", mustFind(t, j, "struct-module-size").Message)
}

func TestKernelOfAnotherSeriesIsRefused(t *testing.T) {
	in := input(t, newImage(t).with(k612, "dummy.ko.xz"))
	in.Devices, in.Modules, in.Build = nil, []string{"dummy"}, k612
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.NotNil(t, find(j, "symbol-crc"))
	require.NotNil(t, find(j, "struct-module-size"))
}

func TestReleaseWithAPlusInItIsFound(t *testing.T) {
	in := input(t, newImage(t).with(k612, "dummy.ko.xz").with(k57, "dummy.ko"))
	in.Devices, in.Modules, in.Release = nil, []string{"dummy"}, k612
	in.Kernel = newKernel(t, k612).symvers().open()
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, "opt/lib/modules/6.12.117+deb12-amd64/dummy.ko.xz", j.Load[0].Path)
	require.Nil(t, find(j, "release-plus"), "a plus inside is no trailing plus")
}

func TestSelfBuiltKernelWithATrailingPlus(t *testing.T) {
	b := newImage(t).with(k57, "dummy.ko")
	b.inv.Kernels[0].Release = "5.10.60-v7l_charlie1"
	b.inv.Kernels[0].Modules[0].Info.Vermagic = "5.10.60-v7l_charlie1 SMP mod_unload "
	in := input(t, b)
	in.Devices, in.Modules, in.Release, in.Build = nil, []string{"dummy"}, "5.10.60-v7l_charlie1+", "5.10.60-v7l_charlie1"
	in.Kernel.Vermagic = "5.10.60-v7l_charlie1+ SMP mod_unload "
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Contains(t, mustFind(t, j, "vermagic-release").Evidence,
		"kernel 5.10.60-v7l_charlie1+, module 5.10.60-v7l_charlie1: differs by the trailing '+'")
	require.Contains(t, mustFind(t, j, "release-plus").Message, "does not identify one build")

	// A directory that only lost its plus holds files that are for this kernel.
	b.inv.Kernels[0].Modules[0].Info.Vermagic = in.Kernel.Vermagic
	in.Build = ""
	require.Equal(t, finding.OK, Judge(in).Verdict)
}

// Suffixes that people drop: each is named.
func TestFlavoursAreNotDropped(t *testing.T) {
	for _, c := range []struct{ kernel, other, want string }{
		{"5.14.0-284.41.1.el9_2.aarch64+64k", "5.14.0-284.41.1.el9_2.aarch64", "flavour differs: +64k"},
		{"5.14.0-427.18.1.el9_4.x86_64+rt", "5.14.0-427.18.1.el9_4.x86_64", "flavour differs: +rt"},
		{"5.14.0-427.18.1.el9_4.x86_64", "5.14.0-427.18.1.el9_4.x86_64+rt", "flavour differs: +rt"},
		{"6.1.0-57-amd64", "6.1.0-57-rt-amd64", "flavour differs: the kernel is amd64, the module is for rt-amd64"},
		{"5.15.0-1042-gke", "5.15.0-1042-aws", "flavour differs: the kernel is gke, the module is for aws"},
		{"6.12.117+deb12-amd64", "6.12.117+deb12-cloud-amd64", "flavour differs: the kernel is amd64, the module is for cloud-amd64"},
		{"5.14.0-531.el9.x86_64", "5.14.0-460.el9.x86_64", "another build: the kernel is 5.14.0-531.el9, the module is for 5.14.0-460.el9"},
		{"5.10.133+", "5.10.133", "kernel 5.10.133+, module 5.10.133: differs by the trailing '+'"},
		{k57, k57, ""},
	} {
		require.Equal(t, c.want, Difference(c.kernel, c.other), c.kernel)
		if c.want == "" {
			continue
		}
		in := input(t, newImage(t).module(c.other, "dummy.ko", &module.Info{Name: "dummy", Vermagic: c.other + " SMP "}))
		in.Release, in.Kernel, in.Devices = c.kernel, nil, nil
		j := Judge(in)
		require.Equal(t, finding.NoModule, j.Verdict)
		require.Contains(t, mustFind(t, j, "no-module").Evidence[0], c.want)
	}
}

func TestReleasesAreSortedByTheirNumbers(t *testing.T) {
	in := input(t, newImage(t))
	for _, r := range []string{"5.15.0-1042-gke", "5.15.0-118-gke", "5.15.0-1041-generic", "5.4.0-9-gke"} {
		in.Inventory.Kernels = append(in.Inventory.Kernels, image.Kernel{Release: r})
	}
	in.Release, in.Kernel = "5.15.0-1043-gke", nil
	j := Judge(in)
	require.Equal(t, "5.15.0-1042-gke", j.Nearest)
	require.Contains(t, mustFind(t, j, "no-module").Evidence, "the image has: 5.4.0-9-gke, 5.15.0-118-gke, 5.15.0-1041-generic, 5.15.0-1042-gke")
}

func TestLabelSaysOtherThanTheFiles(t *testing.T) {
	in := input(t, newImage(t).file("4.18.0-305.el8", "e100.ko", realModule(t, k57, "e100.ko")))
	in.Build = "4.18.0-305.el8"
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, "the files decide")
	require.Equal(t, "the directory 4.18.0-305.el8 says 4.18.0-305.el8, the file says 6.1.0-57-amd64", mustFind(t, j, "image-mislabelled").Message)
}

func TestWeakUpdatesLinkIsNotMadeForThisKernel(t *testing.T) {
	in := input(t, newImage(t).file(k57, "weak-updates/dummy.ko", realModule(t, k54, "dummy.ko")))
	in.Devices, in.Modules = nil, []string{"dummy"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict, "its checksums differ")
	require.Contains(t, mustFind(t, j, "image-mislabelled").Message, "the file says 6.1.0-54-amd64")
}

func TestKernelWhoseFilesAreMissingIsUnsure(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Kernel, in.Policy, in.Loaded = nil, nil, nil
	j := Judge(in)
	require.Equal(t, finding.Unsure, j.Verdict)
	require.Equal(t, []string{"unsure-verdict"}, j.Risks)
	require.Contains(t, mustFind(t, j, "kernel-files-missing").Message, "lib/modules/6.1.0-57-amd64 would settle it")
	require.Equal(t, NotChecked, checked(t, j, "dependencies").Result)

	in.Kernel = &kmod.Kernel{Release: k57, Dir: "/lib/modules/" + k57}
	j = Judge(in)
	require.NotNil(t, find(j, "vermagic-unknown"))
	require.NotNil(t, find(j, "dependency-missing"), "a host that is known to lack mii is not unsure about it")
}

func TestOtherProcessorIsRefused(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Machine = "aarch64"
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Equal(t, "e100.ko is for x86_64, the kernel is for aarch64", mustFind(t, j, "wrong-machine").Message)
}
