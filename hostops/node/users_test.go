package node_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops/node"
)

// gpu is a card with DRM nodes, two virtual functions and a vfio group.
func gpu(t *testing.T) (*tree, string) {
	b := newTree(t)
	dir := b.pci("pci0000:00/0000:00:06.0/0000:17:00.0")
	b.write(dir+"/drm/card0/dev", "226:0\n")
	b.write(dir+"/drm/card0/uevent", "MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\n")
	b.link("/sys/kernel/iommu_groups/31", dir+"/iommu_group")
	b.write("/sys/kernel/iommu_groups/31/type", "DMA\n")
	return b, dir
}

func users(t *testing.T, b *tree, addr string, modules ...string) map[string][]string {
	uses, err := node.Users(b.n, addr, modules)
	require.NoError(t, err)
	out := map[string][]string{}
	for _, u := range uses {
		out[u.Kind] = append(out[u.Kind], u.Text)
	}
	return out
}

func TestProcessesThatHoldTheDeviceAreNamed(t *testing.T) {
	b, dir := gpu(t)
	b.process("812", "Xorg", nil, "/dev/dri/card0", "/dev/null", "socket:[1]")
	b.process("900", "dpdk-testpmd", []string{
		"55d0-55d1 r--p 00000000 08:01 12 /usr/bin/dpdk-testpmd",
		"7f00-7f10 rw-s 00000000 00:15 77 " + dir + "/resource0"})
	b.process("901", "qemu-system-x86", nil, "/dev/vfio/31", "/dev/vfio/vfio")
	b.write("/proc/901/cgroup", "0::/kubepods.slice/cri-containerd-"+strings.Repeat("ab", 32)+".scope\n")
	b.process("902", "cat", nil, "/dev/dri/card1")
	got := users(t, b, "0000:17:00.0")
	require.Equal(t, []string{"pid 812 Xorg has /dev/dri/card0 open", "pid 900 dpdk-testpmd has " + dir + "/resource0 open"}, got["process"])
	require.Equal(t, []string{"pid 901 qemu-system-x86 (container abababababab) has /dev/vfio/31 open"}, got["vfio"])
}

// Without an IOMMU the group's node has another name.
func TestGuestWithoutAnIOMMUIsNamedToo(t *testing.T) {
	b, _ := gpu(t)
	b.process("901", "qemu-system-x86", nil, "/dev/vfio/noiommu-31")
	require.Equal(t, []string{"pid 901 qemu-system-x86 has /dev/vfio/noiommu-31 open"}, users(t, b, "0000:17:00.0")["vfio"])
}

// A vendor driver whose nodes sysfs does not know.
func TestVendorNodesAreFoundByTheMajorOfTheirModule(t *testing.T) {
	b, _ := gpu(t)
	b.write("/proc/devices", "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n235 nvidia-uvm\n\nBlock devices:\n  8 sd\n")
	require.NoError(t, b.n.MkdirAll("/dev", 0o755))
	require.NoError(t, unix.Mknod(b.n.Path("/dev/nvidia0"), unix.S_IFCHR|0o666, int(unix.Mkdev(195, 0))))
	require.NoError(t, unix.Mknod(b.n.Path("/dev/nvidia-uvm"), unix.S_IFCHR|0o666, int(unix.Mkdev(235, 0))))
	require.NoError(t, unix.Mknod(b.n.Path("/dev/zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	b.process("812", "python", nil, "/dev/nvidia0", "/dev/nvidia0", "/dev/zero")
	b.process("813", "nvidia-persiste", nil, "/dev/nvidia-uvm")
	got := users(t, b, "0000:17:00.0", "nvidia-uvm", "nvidia")
	require.Equal(t, []string{"pid 812 python has /dev/nvidia0 open", "pid 813 nvidia-persiste has /dev/nvidia-uvm open"}, got["process"])
}

// The count of 350 with four holders and a few processes: what explains it is
// named, the rest is said to be unexplained.
func TestReferenceCountIsShownWithWhatExplainsIt(t *testing.T) {
	b, _ := gpu(t)
	b.write("/sys/module/nvidia/refcnt", "350\n")
	for _, h := range []string{"nvidia_uvm", "nvidia_modeset", "gdrdrv"} {
		b.write("/sys/module/nvidia/holders/"+h+"/x", "")
	}
	b.write("/sys/module/nvidia_modeset/refcnt", "4\n")
	b.process("812", "Xorg", nil, "/dev/dri/card0")
	got := users(t, b, "0000:17:00.0", "nvidia", "nvidia_uvm")
	require.Equal(t, []string{"module gdrdrv needs nvidia", "module nvidia_modeset (itself in use 4 times) needs nvidia"}, got["module"], "nvidia_uvm goes too")
	require.Equal(t, []string{"module nvidia has a reference count of 350; gdrdrv, nvidia_modeset (itself in use 4 times), nvidia_uvm account for 3 of it, 1 come from what is named above, 346 are unexplained"}, got["unexplained"])

	b.write("/sys/module/nvidia/refcnt", "4\n")
	require.Empty(t, users(t, b, "0000:17:00.0", "nvidia")["unexplained"])
}

func TestManyProcessesOfOneNameAreOneUserWithAllTheirPIDs(t *testing.T) {
	b, _ := gpu(t)
	b.write("/sys/module/nvidia/refcnt", "38\n")
	var pids []int
	for pid := 800; pid < 837; pid++ {
		b.process(strconv.Itoa(pid), "python", nil, "/dev/dri/card0")
		pids = append(pids, pid)
	}
	b.process("900", "Xorg", nil, "/dev/dri/card0")
	uses, err := node.Users(b.n, "0000:17:00.0", []string{"nvidia"})
	require.NoError(t, err)
	require.Equal(t, []node.Use{
		{Kind: "process", Text: "python x 37 have /dev/dri/card0 open", PIDs: pids},
		{Kind: "process", Text: "pid 900 Xorg has /dev/dri/card0 open", PIDs: []int{900}},
	}, uses, "and they explain the whole count")
}

func TestNetworkDeviceThatIsUpAndItsBond(t *testing.T) {
	b := newTree(t)
	dir := b.pci("pci0000:00/0000:01:00.0")
	b.netdev(dir, "eno1", "0x1803")
	b.link("/sys/devices/virtual/net/bond0", "/sys/devices/"+"pci0000:00/0000:01:00.0/net/eno1/master")
	b.netdev(dir, "eno1d1", "0x1002")
	other := b.pci("pci0000:00/0000:01:00.1")
	b.netdev(other, "eno2", "0x1003")
	require.Equal(t, map[string][]string{"netdev-up": {"network device eno1 is up and belongs to bond0"}}, users(t, b, "0000:01:00.0"))
}

func TestEnabledVirtualFunctionsAreUsers(t *testing.T) {
	b := newTree(t)
	pf := b.pci("pci0000:00/0000:01:00.0")
	b.write(pf+"/sriov_numvfs", "3\n")
	for i, driver := range []string{"vfio-pci", "vfio-pci", "iavf"} {
		vf := b.pci("pci0000:00/0000:01:10." + string(rune('0'+i)))
		b.link(vf, pf+"/virtfn"+string(rune('0'+i)))
		b.link("/sys/bus/pci/drivers/"+driver, vf+"/driver")
	}
	require.Equal(t, []string{"3 virtual functions are enabled, 1 bound to iavf, 2 bound to vfio-pci"}, users(t, b, "0000:01:00.0")["virtual-functions"])
	b.write(pf+"/sriov_numvfs", "0\n")
	require.Empty(t, users(t, b, "0000:01:00.0"))
}

func TestSwapOnTheDiskIsAUser(t *testing.T) {
	b := newTree(t)
	d := b.disk(b.pci("pci0000:00/0000:00:11.0")+"/host/block", "sdb", "8:16")
	b.partition(d, "sdb2", "8:18")
	b.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/sdb2 partition 1 0 -2\n")
	require.Equal(t, []string{"/dev/sdb2 is swapped to (sdb2 on sdb on 0000:00:11.0)"}, users(t, b, "0000:00:11.0")["mount"])
}

func TestDeviceThatIsNotThereIsAnError(t *testing.T) {
	_, err := node.Users(newTree(t).n, "0000:99:00.0", nil)
	require.ErrorContains(t, err, "no such PCI function")
}
