package pci

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/nodes"
)

func named(t testing.TB, root string) []Device {
	t.Helper()
	n := hostops.At(root, nil)
	devices, err := Scan(n)
	require.NoError(t, err)
	require.NoError(t, AddNames(n, devices))
	return devices
}

func TestNamesComeFromTheEmbeddedDatabase(t *testing.T) {
	devices := named(t, nodes.Build(t))
	nic := devices[2]
	require.Equal(t, "Intel Corporation", nic.VendorName)
	require.Equal(t, "82574L Gigabit Network Connection", nic.Name)
	require.Equal(t, "Gigabit CT Desktop Adapter", nic.SubsystemName)
	require.Equal(t, "Ethernet controller", nic.ClassName)
	require.Equal(t, "Intel Corporation 82574L Gigabit Network Connection", nic.Label())
	require.Equal(t, "PCI bridge", devices[0].ClassName)

	last := nodes.NIC // the last class of the database
	last.Parent, last.Class = "", "ffff00"
	require.Equal(t, "Unassigned class", named(t, nodes.Build(t, last))[0].ClassName)
}

// Most machines of the field are known to the database by at least their
// vendor, and none of their classes is strange to it.
func TestEveryRecordedFunctionHasAVendorAndAClass(t *testing.T) {
	for _, name := range []string{"guest-tesla-p100", "ryzen-no-drivers"} {
		for _, d := range named(t, nodes.Unpack(t, name)) {
			require.NotEmpty(t, d.VendorName, d.ID())
			require.NotEmpty(t, d.ClassName, d.ClassCode)
		}
	}
}

func writeDatabase(t *testing.T, root, date string) {
	t.Helper()
	dir := filepath.Join(root, "usr/share/misc")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	text := "#\n#\tDate:    " + date + "\n#\n8086  Intel, newer\n\t10d3  A newer name\n\nC 02  Network\n\t00  Ethernet\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pci.ids"), []byte(text), 0o644))
}

func TestANewerDatabaseOfTheHostIsPreferredAndAnOlderIsNot(t *testing.T) {
	for date, want := range map[string]string{
		"2031-01-01 00:00:00": "A newer name",
		"2011-01-01 00:00:00": "82574L Gigabit Network Connection",
		"":                    "82574L Gigabit Network Connection",
	} {
		root := nodes.Build(t)
		writeDatabase(t, root, date)
		require.Equal(t, want, named(t, root)[2].Name, date)
	}
}

func TestADeviceWithoutANameIsCalledByItsIds(t *testing.T) {
	for _, c := range []struct {
		d    Device
		want string
	}{
		{Device{VendorID: "10de", DeviceID: "1eb8", ClassCode: "030200"}, "10de:1eb8 (class 0302, display)"},
		{Device{VendorID: "10de", DeviceID: "1eb8", ClassCode: "030200", VendorName: "NVIDIA"}, "NVIDIA 10de:1eb8 (class 0302, display)"},
		{Device{VendorID: "10de", DeviceID: "1eb8", ClassCode: "fe0000"}, "10de:1eb8 (class fe00)"},
		{Device{VendorID: "10de", DeviceID: "1eb8"}, "10de:1eb8"},
		{Device{Address: "0000:00:01.0", Unreadable: "its directory cannot be read"}, "unknown device"},
	} {
		require.Equal(t, c.want, c.d.Label())
	}
	unknown := nodes.NIC
	unknown.ID, unknown.Parent = "fff1:fff2", ""
	devices := named(t, nodes.Build(t, unknown))
	require.Empty(t, devices[0].Name+devices[0].VendorName)
	require.Equal(t, "fff1:fff2 (class 0200, network)", devices[0].Label())
}

// The network is not asked for names, whatever the environment says.
func TestNamesDoNotHeedTheEnvironmentOfPcidb(t *testing.T) {
	t.Setenv("PCIDB_ENABLE_NETWORK_FETCH", "1")
	t.Setenv("PCIDB_PATH", "/nowhere")
	t.Setenv("HOME", t.TempDir())
	require.Equal(t, "82574L Gigabit Network Connection", named(t, nodes.Build(t))[2].Name)
}

func BenchmarkNamesOfSix(b *testing.B) { benchmarkNames(b, "xeon-megaraid", 6) }
func BenchmarkNamesOf82(b *testing.B)  { benchmarkNames(b, "xeon-sriov", 82) }

func benchmarkNames(b *testing.B, node string, count int) {
	n := hostops.At(nodes.Unpack(b, node), nil)
	devices, err := Scan(n)
	require.NoError(b, err)
	for len(devices) < count {
		devices = append(devices, devices...)
	}
	devices = devices[:count]
	for b.Loop() {
		require.NoError(b, AddNames(n, devices))
	}
}

func BenchmarkScan82(b *testing.B) {
	n := hostops.At(nodes.Unpack(b, "xeon-sriov"), nil)
	for b.Loop() {
		_, err := Scan(n)
		require.NoError(b, err)
	}
}

// BenchmarkLiveNode is what `devices` needs on the machine it runs on.
func BenchmarkLiveNode(b *testing.B) {
	n := hostops.Live(nil)
	for b.Loop() {
		devices, err := Scan(n)
		require.NoError(b, err)
		require.NoError(b, AddNames(n, devices))
	}
}
