package nodes

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Card is one PCI function of a built node.
type Card struct {
	// Address is full ("0000:01:00.0"). A function whose bus is not 00 hangs
	// below Parent when that is set, else below its domain's root.
	Address, Parent string
	// ID "8086:10d3", Subsystem "8086:a01f", Class "020000".
	ID, Subsystem, Class string
	// Driver is bound, "" for none; Module is its module, "" when built in.
	Driver, Module string
	// NetDev and Disk are what the driver made ("eth0", "nvme0n1").
	NetDev, Disk string
	// PhysFn makes it a virtual function of that address.
	PhysFn     string
	IOMMUGroup string
	Override   string
}

// Release is the kernel release of built nodes.
const Release = "6.1.0-57-amd64"

// Bridge, NIC and Disk are the cards of Build's default node: a PCI bridge
// with its built-in driver, an Intel 82574L network card that no driver has,
// and the NVMe disk the node lives on.
var (
	Bridge = Card{Address: "0000:00:01.0", ID: "1b36:000c", Subsystem: "1b36:0000", Class: "060400", Driver: "pcieport"}
	NIC    = Card{Address: "0000:01:00.0", Parent: "0000:00:01.0", ID: "8086:10d3", Subsystem: "8086:a01f", Class: "020000"}
	Disk   = Card{Address: "0000:00:03.0", ID: "1b36:0010", Subsystem: "1af4:1100", Class: "010802", Driver: "nvme", Module: "nvme", Disk: "nvme0n1", IOMMUGroup: "3"}
)

// Modalias is the kernel's name for a card.
func (c Card) Modalias() string {
	v, d, _ := strings.Cut(strings.ToUpper(c.ID), ":")
	sv, sd, _ := strings.Cut(strings.ToUpper(c.Subsystem), ":")
	class := strings.ToUpper(c.Class)
	return fmt.Sprintf("pci:v0000%sd0000%ssv0000%ssd0000%sbc%ssc%si%s", v, d, sv, sd, class[:2], class[2:4], class[4:])
}

// Build makes a node of those cards (none: Bridge, NIC, Disk) in a directory
// of the test and returns it, ready for hostops.At. It is a Debian 12 with
// the kernel Release, whose module tables have nvme and virtio_net but
// nothing for the NIC; the modules of bound drivers are loaded.
func Build(t testing.TB, cards ...Card) string {
	t.Helper()
	if len(cards) == 0 {
		cards = []Card{Bridge, NIC, Disk}
	}
	b := builder{t: t, root: dir(t)}
	b.system()
	b.mkdir("sys/bus/pci/devices", "sys/bus/pci/drivers", "sys/class/net", "sys/block", "sys/module")
	b.file("sys/bus/pci/drivers_probe", "")
	b.link("sys/class/net/lo", "sys/devices/virtual/net/lo")
	b.mkdir("sys/devices/virtual/net/lo")
	for _, c := range cards {
		b.card(c)
	}
	b.file("proc/modules", b.modules.String())
	return b.root
}

type builder struct {
	t       testing.TB
	root    string
	modules strings.Builder
	loaded  map[string]bool
}

func (b *builder) mkdir(dirs ...string) {
	for _, d := range dirs {
		require.NoError(b.t, os.MkdirAll(filepath.Join(b.root, d), 0o755))
	}
}

func (b *builder) file(name, content string) {
	b.mkdir(path.Dir(name))
	require.NoError(b.t, os.WriteFile(filepath.Join(b.root, name), []byte(content), 0o644))
}

// link makes a relative link, as sysfs has them, and its target if missing.
func (b *builder) link(name, target string) {
	b.mkdir(path.Dir(name), target)
	rel, err := filepath.Rel(path.Dir(name), target)
	require.NoError(b.t, err)
	require.NoError(b.t, os.Symlink(rel, filepath.Join(b.root, name)))
}

func (b *builder) card(c Card) {
	domain, _, _ := strings.Cut(c.Address, ":")
	dir := "sys/devices/pci" + domain + ":00/" + c.Address
	if c.Parent != "" {
		dir = "sys/devices/pci" + domain + ":00/" + c.Parent + "/" + c.Address
	}
	v, d, _ := strings.Cut(c.ID, ":")
	sv, sd, _ := strings.Cut(c.Subsystem, ":")
	override := c.Override
	if override == "" {
		override = "(null)"
	}
	for name, content := range map[string]string{
		"vendor": "0x" + v, "device": "0x" + d, "class": "0x" + c.Class, "revision": "0x00",
		"subsystem_vendor": "0x" + sv, "subsystem_device": "0x" + sd,
		"modalias": c.Modalias(), "driver_override": override, "numa_node": "-1",
		"uevent": fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s\nPCI_SUBSYS_ID=%s\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
			strings.ToUpper(strings.TrimLeft(c.Class, "0")), strings.ToUpper(c.ID), strings.ToUpper(c.Subsystem), c.Address, c.Modalias()),
	} {
		b.file(dir+"/"+name, content+"\n")
	}
	b.link("sys/bus/pci/devices/"+c.Address, dir)
	b.bind(dir, c)
	if c.PhysFn != "" {
		require.NoError(b.t, os.Symlink("../"+c.PhysFn, filepath.Join(b.root, dir, "physfn")))
	}
	if c.IOMMUGroup != "" {
		b.link(dir+"/iommu_group", "sys/kernel/iommu_groups/"+c.IOMMUGroup)
		b.link("sys/kernel/iommu_groups/"+c.IOMMUGroup+"/devices/"+c.Address, dir)
	}
	if c.NetDev != "" {
		b.file(dir+"/net/"+c.NetDev+"/operstate", "up\n")
		b.link(dir+"/net/"+c.NetDev+"/device", dir)
		b.link("sys/class/net/"+c.NetDev, dir+"/net/"+c.NetDev)
	}
	if c.Disk != "" {
		b.link("sys/block/"+c.Disk, dir+"/block/"+c.Disk)
		b.link(dir+"/block/"+c.Disk+"/device", dir)
		b.file(dir+"/block/"+c.Disk+"/dev", "259:0\n")
	}
}

func (b *builder) bind(dir string, c Card) {
	if c.Driver == "" {
		return
	}
	drv := "sys/bus/pci/drivers/" + c.Driver
	b.link(dir+"/driver", drv)
	b.link(drv+"/"+c.Address, dir)
	if c.Module == "" || b.loaded[c.Module] {
		return
	}
	if b.loaded == nil {
		b.loaded = map[string]bool{}
	}
	b.loaded[c.Module] = true
	b.link(drv+"/module", "sys/module/"+c.Module)
	b.file("sys/module/"+c.Module+"/initstate", "live\n")
	b.file("sys/module/"+c.Module+"/refcnt", "1\n")
	fmt.Fprintf(&b.modules, "%s 57344 1 - Live 0x0000000000000000\n", c.Module)
}
