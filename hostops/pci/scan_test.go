package pci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/nodes"
)

// An independent reading: each function by its single files, with the standard
// library alone.
func readIndependently(t *testing.T, root string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	dirs, err := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices/*"))
	require.NoError(t, err)
	for _, dir := range dirs {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return ""
			}
			return strings.TrimPrefix(strings.TrimSpace(string(b)), "0x")
		}
		driver := ""
		if target, err := os.Readlink(filepath.Join(dir, "driver")); err == nil {
			driver = filepath.Base(target)
		}
		all[filepath.Base(dir)] = []string{read("vendor"), read("device"), read("class"), driver, read("modalias")}
	}
	return all
}

func TestEachFunctionOfARecordedNodeIsListedOnceWithItsDriver(t *testing.T) {
	sizes := map[string]int{
		"cloudstack-guest-32bit-domain": 9, "sx-aurora-8ve": 28, "xeon-megaraid": 3, "xeon-two-domains": 30,
		"ryzen-no-drivers": 43, "xeon-sriov": 82, "guest-tesla-p100": 29, "guest-accelerator": 26,
	}
	require.Len(t, nodes.Names(), len(sizes))
	for _, name := range nodes.Names() {
		t.Run(name, func(t *testing.T) {
			root := nodes.Unpack(t, name)
			devices, err := Scan(hostops.At(root, nil))
			require.NoError(t, err)
			want := readIndependently(t, root)
			require.Len(t, devices, sizes[name])
			got := map[string][]string{}
			for _, d := range devices {
				require.Empty(t, d.Unreadable, d.Address)
				got[d.Address] = []string{d.VendorID, d.DeviceID, d.ClassCode, d.Driver, d.Modalias}
			}
			require.Equal(t, want, got)
			for i := 1; i < len(devices); i++ {
				require.Negative(t, CompareAddress(devices[i-1].Address, devices[i].Address))
			}
		})
	}
}

func TestWhatDriversMadeIsFoundThroughVirtioAndSCSI(t *testing.T) {
	type made struct{ net, block []string }
	for node, want := range map[string]map[string]made{
		"cloudstack-guest-32bit-domain": {
			"10000:00:04.0": {block: []string{"vda"}},
			"0000:00:03.0":  {net: []string{"ens3"}},
			"0000:00:01.1":  {block: []string{"sr0"}},
		},
		"xeon-megaraid":    {"0000:01:00.0": {block: []string{"sda"}}},
		"ryzen-no-drivers": {"0000:06:00.1": {net: []string{"enp6s0f1"}}},
	} {
		devices, err := Scan(hostops.At(nodes.Unpack(t, node), nil))
		require.NoError(t, err)
		for address, m := range want {
			i, err := Find(devices, address)
			require.NoError(t, err)
			require.Equal(t, m, made{devices[i].NetDevs, devices[i].BlockDevs}, address)
		}
	}
}

func TestDiskBehindNVMeMultipathBelongsToItsControllers(t *testing.T) {
	root := nodes.Build(t)
	sys := filepath.Join(root, "sys")
	subsystem := filepath.Join(sys, "devices/virtual/nvme-subsystem/nvme-subsys0")
	require.NoError(t, os.MkdirAll(filepath.Join(subsystem, "nvme0n1"), 0o755))
	require.NoError(t, os.Symlink("../../../pci0000:00/"+nodes.Disk.Address+"/nvme/nvme0", filepath.Join(subsystem, "nvme0")))
	link := filepath.Join(sys, "block/nvme0n1")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", link))

	devices, err := Scan(hostops.At(root, nil))
	require.NoError(t, err)
	i, err := Find(devices, nodes.Disk.Address)
	require.NoError(t, err)
	require.Equal(t, []string{"nvme0n1"}, devices[i].BlockDevs)
}

func TestABuiltCardIsReadInFull(t *testing.T) {
	root := nodes.Build(t)
	devices, err := Scan(hostops.At(root, nil))
	require.NoError(t, err)
	require.Equal(t, []Device{
		{Address: "0000:00:01.0", Modalias: "pci:v00001B36d0000000Csv00001B36sd00000000bc06sc04i00", VendorID: "1b36", DeviceID: "000c",
			SubsystemVendorID: "1b36", SubsystemDeviceID: "0000", ClassCode: "060400", Revision: "00", Driver: "pcieport", NUMANode: -1},
		{Address: "0000:00:03.0", Modalias: "pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", VendorID: "1b36", DeviceID: "0010",
			SubsystemVendorID: "1af4", SubsystemDeviceID: "1100", ClassCode: "010802", Revision: "00", Driver: "nvme", Module: "nvme",
			NUMANode: -1, IOMMUGroup: "3", BlockDevs: []string{"nvme0n1"}},
		{Address: "0000:01:00.0", Modalias: "pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00", VendorID: "8086", DeviceID: "10d3",
			SubsystemVendorID: "8086", SubsystemDeviceID: "a01f", ClassCode: "020000", Revision: "00", NUMANode: -1},
	}, devices)
}

func virtualFunctions(count int) []nodes.Card {
	cards := []nodes.Card{{Address: "0101:00:00.0", ID: "8086:1572", Subsystem: "8086:0007", Class: "020000", Driver: "i40e", Module: "i40e", NetDev: "ens1f0"}}
	for i := range count {
		n := i + 8
		cards = append(cards, nodes.Card{Address: fmt.Sprintf("0101:%02x:%02x.%x", n/256, n/8%32, n%8),
			ID: "8086:154c", Subsystem: "8086:0000", Class: "020000", PhysFn: "0101:00:00.0"})
	}
	return cards
}

func TestVirtualFunctionsAreKnownByTheirParent(t *testing.T) {
	devices, err := Scan(hostops.At(nodes.Build(t, virtualFunctions(7)...), nil))
	require.NoError(t, err)
	require.Len(t, devices, 8)
	require.Equal(t, 7, devices[0].VirtualFns)
	for _, d := range devices[1:] {
		require.Equal(t, "0101:00:00.0", d.PhysFn)
		require.Equal(t, devices[0].Revision, d.Revision)
	}
}

// A scan is a fixed number of system calls a function, so 500 of them take a few
// thousand: 65 seconds for 125 virtual functions were seen where each was
// resolved by itself.
func TestScanCostIsFixedPerFunction(t *testing.T) {
	cost := func(count int) int {
		devices, calls, err := scan(hostops.At(nodes.Build(t, virtualFunctions(count)...), nil))
		require.NoError(t, err)
		require.Len(t, devices, count+1)
		return calls
	}
	none, few, many := cost(0), cost(10), cost(200)
	require.Equal(t, 19*(few-none), many-few, "each further function costs the same")
	require.LessOrEqual(t, many, 201*14)
}

// The kernel holds the lock of a device whose driver is at work on it, and who
// reads its override meanwhile waits for the driver.
func TestDeviceThatAHangingDriverHoldsIsNotAskedWhatTakesItsLock(t *testing.T) {
	held := nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000", Driver: "e100", Module: "e100", Override: "e100"}
	free := nodes.Card{Address: "0000:06:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000", Override: "vfio-pci"}
	root := nodes.Build(t, held, free)
	n := hostops.At(root, nil)
	for state, want := range map[string][]string{"Live": {"e100", "vfio-pci"}, "Loading": {"", ""}, "Unloading": {"", ""}} {
		require.NoError(t, n.WriteFile("/proc/modules", []byte("e100 28672 1 - "+state+" 0x0000000000000000 (OE+)\n"), 0o444))
		devices, err := Scan(n)
		require.NoError(t, err)
		require.Equal(t, want, []string{devices[0].DriverOverride, devices[1].DriverOverride}, state)
		require.Equal(t, "8086:1229", devices[0].ID(), state)
	}
}

func TestNoPCIBusIsNotAnEmptyList(t *testing.T) {
	_, err := Scan(hostops.At(t.TempDir(), nil))
	var none *NoBusError
	require.ErrorAs(t, err, &none)
	require.Equal(t, "this node shows no PCI bus: /sys/bus/pci/devices is missing", err.Error())

	empty := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(empty, "sys/bus/pci/devices"), 0o755))
	devices, err := Scan(hostops.At(empty, nil))
	require.NoError(t, err)
	require.Empty(t, devices)

	notDir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(notDir, "sys/bus/pci"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(notDir, "sys/bus/pci/devices"), nil, 0o644))
	_, err = Scan(hostops.At(notDir, nil))
	require.Error(t, err)
	require.False(t, errors.As(err, &none))
}

func TestAFunctionThatCannotBeReadDoesNotHideTheOthers(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a dangling link": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
		"no identity": func(t *testing.T, dir string) {
			for _, f := range []string{"uevent", "modalias", "vendor"} {
				require.NoError(t, os.Remove(filepath.Join(dir, f)))
			}
		},
		"attributes that are directories": func(t *testing.T, dir string) {
			for _, f := range []string{"uevent", "modalias", "vendor"} {
				require.NoError(t, os.Remove(filepath.Join(dir, f)))
				require.NoError(t, os.Mkdir(filepath.Join(dir, f), 0o755))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := nodes.Build(t)
			dir, err := filepath.EvalSymlinks(filepath.Join(root, "sys/bus/pci/devices", nodes.NIC.Address))
			require.NoError(t, err)
			spoil(t, dir)
			devices, err := Scan(hostops.At(root, nil))
			require.NoError(t, err)
			require.Len(t, devices, 3)
			for _, d := range devices {
				if d.Address == nodes.NIC.Address {
					require.Regexp(t, regexp.MustCompile(`cannot be read: `), d.Unreadable)
				} else {
					require.Empty(t, d.Unreadable)
					require.NotEmpty(t, d.Driver)
				}
			}
		})
	}
}

func TestIdsComeFromSingleFilesWhereTheTreeHasNothingElse(t *testing.T) {
	root := nodes.Build(t)
	dir := filepath.Join(root, "sys/bus/pci/devices", nodes.NIC.Address)
	require.NoError(t, os.Remove(filepath.Join(dir, "uevent")))
	require.NoError(t, os.Remove(filepath.Join(dir, "modalias")))
	devices, err := Scan(hostops.At(root, nil))
	require.NoError(t, err)
	i, err := Find(devices, nodes.NIC.Address)
	require.NoError(t, err)
	d := devices[i]
	require.Empty(t, d.Unreadable)
	require.Equal(t, "8086:10d3 8086:a01f 020000", d.ID()+" "+d.SubsystemID()+" "+d.ClassCode)
	require.Empty(t, d.Modalias)
}

func TestDriverOverrideIsReadAndItsNullIsNone(t *testing.T) {
	card := nodes.NIC
	card.Parent, card.Override, card.Driver, card.Module = "", "vfio-pci", "vfio-pci", "vfio_pci"
	devices, err := Scan(hostops.At(nodes.Build(t, card, nodes.Disk), nil))
	require.NoError(t, err)
	require.Empty(t, devices[0].DriverOverride)
	require.Equal(t, "vfio-pci", devices[1].DriverOverride)
	require.Equal(t, "vfio_pci", devices[1].Module)
}
