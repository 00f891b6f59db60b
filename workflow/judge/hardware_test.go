package judge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/workflow/finding"
)

// A module of the right name is not support: its alias list decides.
func TestPresenceByNameIsNotSupport(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Devices = []string{"pci:v00008086d0000FFF1sv00008086sd00000000bc02sc00i00"}
	in.Modules = []string{"e100"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	f := mustFind(t, j, "alias-missing")
	require.Equal(t, "no module of the image lists 8086:fff1", f.Message)
	require.Regexp(t, `^e100 is there and lists \d+ other device\(s\) of this vendor, not 8086:fff1$`, f.Evidence[1])
	require.Equal(t, Fails, checked(t, j, "hardware").Result)
}

// A list can say too much: the catalog excludes what this flavour cannot drive.
func TestOpenFlavourDoesNotServeTheCardAlthoughItsListMatches(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Except = []string{"pci:v00008086d00001229sv*sd*bc*sc*i*"}
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	f := mustFind(t, j, "device-excluded")
	require.Contains(t, f.Message, "8086:1229")
	require.Contains(t, f.Evidence, "excluded by the catalog: pci:v00008086d00001229sv*sd*bc*sc*i*")
}

func TestOneAliasTwoModules(t *testing.T) {
	m := info("vendor_nic")
	m.Aliases = []string{"pci:v000010ECd00008029sv*sd*bc*sc*i*"}
	in := input(t, newImage(t).module(k57, "vendor-nic.ko", m))
	in.Devices = []string{nicNe2k}
	in.Kernel = newKernel(t, k57).has("ne2k-pci.ko", "8390.ko").symvers().open()
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, "10ec:8029 is listed by vendor_nic of the image and by ne2k_pci of the host as well", mustFind(t, j, "alias-shared").Message)
	in.Replaces = []string{"ne2k-pci"}
	require.Nil(t, find(Judge(in), "alias-shared"))
}

// e100 lists its cards with their class: the same ids of another class are not it.
func TestSameVendorAndDeviceOfAnotherClass(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko"))
	in.Devices = []string{strings.Replace(nicE100, "bc02sc00", "bc03sc00", 1)}
	require.NotNil(t, find(Judge(in), "alias-missing"))
}

func TestModulesAreChosenByTheDevices(t *testing.T) {
	in := input(t, newImage(t).with(k57, "e100.ko", "ne2k-pci.ko", "8390.ko", "dummy.ko"))
	in.Devices = []string{nicNe2k}
	j := Judge(in)
	require.Equal(t, finding.OK, j.Verdict, j.Findings)
	require.Equal(t, []string{"image:8390", "image:ne2k_pci"}, order(j))
	require.Equal(t, "10ec:8029 by ne2k_pci", checked(t, j, "hardware").Detail)

	in.Devices = []string{nicNe2k, nicE100}
	require.Equal(t, []string{"host:mii", "image:e100", "image:8390", "image:ne2k_pci"}, order(Judge(in)))

	in.Devices = nil
	require.Len(t, Judge(in).Load, 5, "without devices all of its modules are judged")
}

// The bound of issue "truth before touch": 200 modules in well under a second.
func BenchmarkJudge200Modules(b *testing.B) {
	im := newImage(b)
	for i := range 200 {
		m := info("m" + strings.Repeat("x", i+1))
		base := realModule(b, k57, "e100.ko")
		if i == 0 {
			im.file(k57, "e100.ko", base)
		}
		m.Imports = im.inv.Kernels[0].Modules[0].Info.Imports
		m.Depends = []string{"mii"}
		im.module(k57, m.Name+".ko", m)
	}
	in := input(b, im)
	in.Devices = nil
	b.ReportAllocs()
	for b.Loop() {
		if j := Judge(in); j.Verdict != finding.OK {
			b.Fatal(j.Verdict, j.Findings)
		}
	}
}
