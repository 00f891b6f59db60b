package node_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/node"
)

func lifelines(t *testing.T, b *tree, peers ...node.Peer) map[string][]string {
	lines, err := node.Lifelines(b.n, peers...)
	require.NoError(t, err)
	out := map[string][]string{}
	for _, l := range lines {
		out[l.Kind] = append(out[l.Kind], l.Address)
		require.Contains(t, l.Path, l.Address)
	}
	return out
}

const nvmeDir = "pci0000:00/0000:00:06.0/0000:03:00.0"

// Whatever is between the root file system and the disk: the driver of the
// disk's controller is found, with the bridge above it.
func TestRootDiskIsFoundThroughEveryKindOfStack(t *testing.T) {
	tests := map[string]struct {
		build func(*tree)
		want  []string
		path  string
	}{
		"partition of an NVMe disk": {func(b *tree) {
			d := b.disk(b.pci(nvmeDir)+"/nvme/nvme0", "nvme0n1", "259:0")
			b.partition(d, "nvme0n1p2", "259:2")
			b.mount("259:2", "/", "ext4", "/dev/nvme0n1p2", "rw")
		}, []string{"0000:03:00.0", "0000:00:06.0"}, "/ on nvme0n1p2 on nvme0n1 on 0000:03:00.0"},
		"LVM on LUKS on a partition": {func(b *tree) {
			d := b.disk(b.pci("pci0000:00/0000:00:17.0")+"/ata1/host0/target0:0:0/0:0:0:0/block", "sda", "8:0")
			crypt := b.virtual("dm-0", "254:0", b.partition(d, "sda3", "8:3"))
			b.virtual("dm-1", "254:1", crypt)
			b.mount("254:1", "/", "xfs", "/dev/mapper/vg-root", "rw")
		}, []string{"0000:00:17.0"}, "/ on dm-1 on dm-0 on sda3 on sda on 0000:00:17.0"},
		"md mirror over two controllers": {func(b *tree) {
			one := b.disk(b.pci("pci0000:00/0000:00:17.0")+"/ata1/host0/block", "sda", "8:0")
			two := b.disk(b.pci("pci0000:40/0000:40:01.0")+"/host1/block", "sdb", "8:16")
			b.virtual("md0", "9:0", b.partition(one, "sda1", "8:1"), b.partition(two, "sdb1", "8:17"))
			b.mount("9:0", "/", "ext4", "/dev/md0", "rw")
		}, []string{"0000:00:17.0", "0000:40:01.0"}, ""},
		"loop file of an Elemental system": {func(b *tree) {
			d := b.disk(b.pci(nvmeDir)+"/nvme/nvme0", "nvme0n1", "259:0")
			b.partition(d, "nvme0n1p3", "259:3")
			loop := b.virtual("loop0", "7:0")
			b.write(loop+"/loop/backing_file", "/run/initramfs/cos-state/cOS/active.img\n")
			b.mount("7:0", "/", "ext2", "/dev/loop0", "ro")
			b.mount("259:3", "/run/initramfs/cos-state", "ext4", "/dev/nvme0n1p3", "rw")
		}, []string{"0000:03:00.0", "0000:00:06.0"}, "/ on loop0 in /run/initramfs/cos-state/cOS/active.img on nvme0n1p3"},
		"overlay over a squashfs on a disk": {func(b *tree) {
			b.disk(b.pci("pci0000:00/0000:00:04.0")+"/virtio1/block", "vda", "252:0")
			b.mount("252:0", "/media/root", "squashfs", "/dev/vda", "ro")
			b.mount("0:24", "/media/upper", "tmpfs", "tmpfs", "rw")
			b.mount("0:30", "/", "overlay", "overlay", "rw,lowerdir=/media/root,upperdir=/media/upper/u,workdir=/media/upper/w")
		}, []string{"0000:00:04.0"}, "/ on overlay on vda on 0000:00:04.0"},
		"NVMe native multipath": {func(b *tree) {
			for i, p := range []string{"pci0000:00/0000:01:00.0", "pci0000:40/0000:41:00.0"} {
				c := b.pci(p) + "/nvme/nvme" + string(rune('0'+i))
				b.write(c+"/address", p[len("pci0000:00/"):]+"\n")
				b.link(c, "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme"+string(rune('0'+i)))
			}
			b.disk("/sys/devices/virtual/nvme-subsystem/nvme-subsys0", "nvme0n1", "259:0")
			b.mount("259:0", "/", "xfs", "/dev/nvme0n1", "rw")
		}, []string{"0000:01:00.0", "0000:41:00.0"}, ""},
		"NVMe behind a VMD controller": {func(b *tree) {
			b.pci("pci0000:00/0000:00:0e.0")
			d := b.disk(b.pci("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0")+"/nvme/nvme0", "nvme0n1", "259:0")
			_ = d
			b.mount("259:0", "/", "xfs", "/dev/nvme0n1", "rw")
		}, []string{"10000:e1:00.0", "10000:e0:06.0", "0000:00:0e.0"}, ""},
		"btrfs over two disks": {func(b *tree) {
			one := b.disk(b.pci("pci0000:00/0000:00:17.0")+"/host0/block", "sda", "8:0")
			two := b.disk(b.pci("pci0000:40/0000:40:01.0")+"/host1/block", "sdb", "8:16")
			b.link(one, "/sys/fs/btrfs/6a1c/devices/sda")
			b.link(two, "/sys/fs/btrfs/6a1c/devices/sdb")
			b.mount("0:29", "/", "btrfs", "/dev/sda", "rw,subvol=/@")
		}, []string{"0000:00:17.0", "0000:40:01.0"}, ""},
		"device-mapper name without its link": {func(b *tree) {
			d := b.disk(b.pci("pci0000:00/0000:00:17.0")+"/host0/block", "sda", "8:0")
			dm := b.virtual("dm-0", "254:0", d)
			b.write(dm+"/dm/name", "vg-root\n")
			b.mount("0:29", "/", "btrfs", "/dev/mapper/vg-root", "rw")
		}, []string{"0000:00:17.0"}, ""},
		"ZFS, whose members cannot be told": {func(b *tree) {
			b.disk(b.pci("pci0000:00/0000:00:17.0")+"/host0/block", "sda", "8:0")
			b.disk(b.pci("pci0000:40/0000:40:01.0")+"/host1/block", "sdb", "8:16")
			b.mount("0:29", "/", "zfs", "rpool/ROOT/debian", "rw")
		}, []string{"0000:00:17.0", "0000:40:01.0"}, "a ZFS pool that may lie on it"},
		"NFS over the only network card": {func(b *tree) {
			b.netdev(b.pci(nvmeDir), "eno1", "0x1003")
			b.write("/proc/net/route", routeHead+"eno1\t000AA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
			b.mount("0:40", "/", "nfs4", "192.168.10.5:/export/root", "rw,addr=192.168.10.5")
		}, []string{"0000:03:00.0", "0000:00:06.0"}, "/ on 192.168.10.5:/export/root on eno1"},
		"NVMe over TCP": {func(b *tree) {
			b.netdev(b.pci(nvmeDir), "eno1", "0x1003")
			b.write("/proc/net/route", routeHead+"eno1\t000AA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
			b.write("/sys/devices/virtual/nvme-fabrics/ctl/nvme0/address", "traddr=192.168.10.9,trsvcid=4420\n")
			b.disk("/sys/devices/virtual/nvme-fabrics/ctl/nvme0", "nvme0n1", "259:0")
			b.mount("259:0", "/", "xfs", "/dev/nvme0n1", "rw")
		}, []string{"0000:03:00.0", "0000:00:06.0"}, ""},
		"iSCSI": {func(b *tree) {
			b.netdev(b.pci(nvmeDir), "eno1", "0x1003")
			b.write("/proc/net/route", routeHead+"eno1\t000AA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
			b.write("/sys/class/iscsi_connection/connection1:0/address", "192.168.10.9\n")
			b.disk("/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block", "sdc", "8:32")
			b.mount("8:32", "/", "xfs", "/dev/sdc", "rw")
		}, []string{"0000:03:00.0", "0000:00:06.0"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newTree(t)
			test.build(b)
			got := lifelines(t, b)
			require.ElementsMatch(t, test.want, got["root-disk"])
			lines, err := node.Lifelines(b.n)
			require.NoError(t, err)
			require.Contains(t, lines[0].Path, test.path)
		})
	}
}

// Overlays whose layers lie on one another end, and the disk is found.
func TestOverlaysOnOneAnotherEnd(t *testing.T) {
	b := newTree(t)
	b.disk(b.pci("pci0000:00/0000:00:04.0")+"/virtio1/block", "vda", "252:0")
	b.mount("0:30", "/", "overlay", "overlay", "rw,lowerdir=/a/1:/b/1:/c/1:/d/1,upperdir=/disk/u,workdir=/disk/w")
	for _, p := range []string{"/a", "/b", "/c", "/d"} {
		b.mount("0:31", p, "overlay", "overlay", "rw,lowerdir=/x:/a/2:/b/2:/c/2:/d/2,upperdir=/disk/u2,workdir=/disk/w2")
	}
	b.mount("252:0", "/disk", "ext4", "/dev/vda", "rw")
	require.Equal(t, []string{"0000:00:04.0"}, lifelines(t, b)["root-disk"])
}

func TestBootStateAndSwapAreLifelinesToo(t *testing.T) {
	b := newTree(t)
	for i, mount := range []string{"/", "/boot/efi", "/oem", "/var/lib/fitout", "/srv"} {
		dev := "8:" + string(rune('1'+i))
		d := b.pci("pci0000:00/0000:00:1" + string(rune('0'+i)) + ".0")
		b.disk(d+"/host/block", "sd"+string(rune('a'+i)), dev)
		b.mount(dev, mount, "ext4", "/dev/sd"+string(rune('a'+i)), "rw")
	}
	b.disk(b.pci("pci0000:00/0000:00:1f.0")+"/host/block", "sdz", "8:99")
	b.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/sdz partition 1 0 -2\n/srv/swapfile file 1 0 -3\n")
	got := lifelines(t, b)
	require.Equal(t, []string{"0000:00:10.0"}, got["root-disk"])
	require.Equal(t, []string{"0000:00:11.0"}, got["boot-disk"])
	require.Equal(t, []string{"0000:00:12.0", "0000:00:13.0"}, got["state-disk"])
	require.Equal(t, []string{"0000:00:1f.0", "0000:00:14.0"}, got["swap"], "a swap partition, and a swap file's disk")
}

// A disk that carries only data is no lifeline; it is found as in use.
func TestDataDiskIsNoLifelineButInUse(t *testing.T) {
	b := newTree(t)
	b.disk(b.pci("pci0000:00/0000:00:10.0")+"/host/block", "sda", "8:0")
	d := b.disk(b.pci("pci0000:00/0000:00:11.0")+"/host/block", "sdb", "8:16")
	b.virtual("dm-0", "254:0", d)
	b.mount("8:0", "/", "ext4", "/dev/sda", "rw")
	b.mount("254:0", "/srv/my data", "xfs", "/dev/mapper/data", "rw")
	require.NotContains(t, lifelines(t, b)["root-disk"], "0000:00:11.0")
	uses, err := node.Users(b.n, "0000:00:11.0", nil)
	require.NoError(t, err)
	require.Len(t, uses, 1)
	require.Equal(t, "mount", uses[0].Kind)
	require.Equal(t, "/srv/my data is mounted from it (dm-0 on sdb on 0000:00:11.0)", uses[0].Text)
}

func TestNetworkOfSessionRegistryAndDefaultRoute(t *testing.T) {
	b := newTree(t)
	mgmt, storage, wan := b.pci("pci0000:00/0000:01:00.0"), b.pci("pci0000:00/0000:02:00.0"), b.pci("pci0000:00/0000:03:00.0")
	second := b.pci("pci0000:00/0000:01:00.1")
	b.netdev(mgmt, "eno1", "0x1003")
	b.netdev(second, "eno2", "0x1003")
	b.netdev(storage+"/virtio3", "ens4", "0x1003")
	b.netdev(wan, "ens5", "0x1003")
	b.stacked("bond0", "eno1", "eno2")
	b.stacked("bond0.17", "bond0")
	b.stacked("br0", "bond0.17")
	b.write("/proc/net/route", routeHead+
		"ens5\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"+ // default
		"br0\t0011A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"+ // 192.168.17.0/24
		"ens5\t0011A8C0\t00000000\t0001\t0\t0\t900\t00FFFFFF\t0\t0\t0\n"+ // the same, worse
		"ens4\t0000A8C0\t00000000\t0000\t0\t0\t0\t0000FFFF\t0\t0\t0\n") // down
	b.write("/proc/net/ipv6_route", "fd000000000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 ens4\n")

	got := lifelines(t, b, append(node.SessionOf("192.168.17.20 51022 192.168.17.5 22"),
		node.Peer{Kind: "registry", IP: netip.MustParseAddr("fd00::5000")})...)
	require.ElementsMatch(t, []string{"0000:01:00.0", "0000:01:00.1"}, got["session-network"], "both legs of the bond under the VLAN in the bridge")
	require.Equal(t, []string{"0000:02:00.0"}, got["registry"])
	require.Equal(t, []string{"0000:03:00.0"}, got["default-route"])
}

func TestSessionOverAVirtualFunctionNeedsItsPhysicalOne(t *testing.T) {
	b := newTree(t)
	pf, vf := b.pci("pci0000:00/0000:01:00.0"), b.pci("pci0000:00/0000:01:10.0")
	b.link(pf, vf+"/physfn")
	b.netdev(vf, "ens1v0", "0x1003")
	b.write("/proc/net/route", routeHead+"ens1v0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
	require.Equal(t, []string{"0000:01:10.0", "0000:01:00.0"}, lifelines(t, b)["default-route"])
}

func TestSessionOfReadsWhatSSHSets(t *testing.T) {
	require.Empty(t, node.SessionOf(""))
	require.Empty(t, node.SessionOf("127.0.0.1 1 127.0.0.1 22"), "a session from the node itself needs no card")
	require.Empty(t, node.SessionOf("UNKNOWN 65535 UNKNOWN 65535"))
	require.Equal(t, "fe80::1%eno1", node.SessionOf("fe80::1%eno1 51022 fe80::2%eno1 22")[0].IP.String())
}

func TestNodeWhoseMountsCannotBeReadIsAnError(t *testing.T) {
	_, err := node.Lifelines(hostops.At(t.TempDir(), nil))
	require.ErrorContains(t, err, "what the node lives on")
}
