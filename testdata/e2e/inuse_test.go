package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// The cards of the machine, as answers name them.
const (
	e1000ID     = "8086:100e"
	virtioBlkID = "1af4:1001"
)

// take writes answers that load another build of a driver now, and applies them
// with the risks that are accepted.
func (n node) take(code int, id, module, risks string) string {
	n.t.Helper()
	n.write("/root/answers.yaml", answer{id: id, image: "oci-archive:/media/stick/" + module + ".tar:1", when: "load-now"}.file()+
		"acceptRisks: [unsigned-module"+risks+"]\n")
	// As in a session over the card: the peer is on its network.
	return n.exits(code, "SSH_CONNECTION='10.1.0.2 50022 10.1.0.15 22' fitout apply -a /root/answers.yaml")
}

// What uses a card is named before its driver is taken away, and needs its own
// accepted risk; what the node lives on cannot be accepted away; and an accepted
// risk is not force.
func TestCardInUseIsNotTakenAway(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	stick := t.TempDir()
	for _, module := range []string{"e1000e", "nvme", "virtio_pci", "e1000"} {
		build(t, images.Spec{Kernels: []debian.Kernel{stock}, Modules: []string{module}, Licence: "none",
			Change: func(_, _ string, data []byte) ([]byte, error) { return images.OtherBuild(data) },
		}).archive(filepath.Join(stick, module+".tar"), "1")
	}
	machine := start(t, vm.Config{
		Kernel: stock, OnlyModules: []string{"e1000e", "nvme", "e1000", "vfio_pci", "vfio_iommu_type1", "virtio_pci"}, Memory: 512,
		Cmdline: "intel_iommu=on iommu=pt",
		Devices: []string{"intel-iommu", "e1000e,netdev=lan,addr=05.0", "nvme,serial=one,addr=06.0,drive=data", "e1000,addr=07.0"}, Networks: []string{"lan"},
		Disks: []string{"data"},
		Media: map[string]string{"stick": stick},
	}, "fingerprint")
	// refused says that nothing was changed, and what was said.
	refused := func(n node, code int, id, module, risks string) string {
		before := n.bindings()
		out := n.take(code, id, module, risks)
		require.Equal(n.t, before, n.bindings())
		return out
	}

	t.Run("a process has the disk's node open", func(t *testing.T) {
		n := machine.on(t)
		n.ok("sleep 3000 3</dev/nvme0n1 </dev/null >/dev/null 2>&1 &")
		out := refused(n, 5, nvmeID, "nvme", "")
		require.Contains(t, out, "in-use")
		require.Regexp(t, `pid \d+ sleep has /dev/nvme0n1 open`, out)
		out = refused(n, 7, nvmeID, "nvme", ", in-use")
		require.Contains(t, out, "nvme", "the kernel itself refuses, and it is not forced")
		n.ok("kill $(pidof sleep)")
	})
	t.Run("a file system on the disk is mounted", func(t *testing.T) {
		n := machine.on(t)
		n.ok("mke2fs -F /dev/nvme0n1 >/dev/null 2>&1; mkdir -p /tmp/data && mount -t ext4 /dev/nvme0n1 /tmp/data")
		require.Contains(t, refused(n, 5, nvmeID, "nvme", ""), "/tmp/data is mounted from it")
		n.ok("umount /tmp/data")
		n.take(0, nvmeID, "nvme", "")
		require.NotEqual(t, "", n.driver("06.0"))
	})
	t.Run("the session and the default route go over the card", func(t *testing.T) {
		n := machine.on(t)
		eth := n.ok("ls /sys/bus/pci/devices/0000:00:05.0/net")
		n.ok("ip link set " + eth + " up && ip addr add 10.1.0.15/24 dev " + eth + " && ip route add default via 10.1.0.2")
		n.ok("until ping -c 1 -W 5 10.1.0.2 >/dev/null; do :; done; (ping 10.1.0.2 </dev/null >/dev/null 2>&1 &)")
		out := refused(n, 5, e1000eID, "e1000e", "")
		require.Contains(t, out, "session-network")
		require.Contains(t, out, "network device "+eth+" is up")
		require.Contains(t, refused(n, 5, e1000eID, "e1000e", ", in-use"), "session-network")
		out = n.take(0, e1000eID, "e1000e", ", in-use, session-network")
		require.Contains(t, out, "0000:00:05.0 is bound to e1000e")
	})
	t.Run("a card that a guest has", func(t *testing.T) {
		n := machine.on(t)
		n.ok(`modprobe vfio-pci
echo vfio-pci >/sys/bus/pci/devices/0000:00:07.0/driver_override
echo 0000:00:07.0 >/sys/bus/pci/devices/0000:00:07.0/driver/unbind
echo 0000:00:07.0 >/sys/bus/pci/drivers_probe`)
		require.Equal(t, "vfio-pci", n.driver("07.0"))
		group := "/dev/vfio/" + n.ok("basename $(readlink /sys/bus/pci/devices/0000:00:07.0/iommu_group)")
		n.ok("sleep 3000 3<>" + group + " </dev/null >/dev/null 2>&1 &")
		require.Contains(t, refused(n, 0, e1000ID, "e1000", ""), "on purpose")
		out := refused(n, 6, e1000ID, "e1000", ", passed-through, in-use")
		require.Regexp(t, `pid \d+ sleep has `+group+` open`, out)
		n.ok("kill $(pidof sleep)")
		n.take(0, e1000ID, "e1000", ", passed-through")
		require.Equal(t, "e1000", n.driver("07.0"))
	})
	t.Run("the root disk cannot be accepted away", func(t *testing.T) {
		n := machine.on(t)
		out := refused(n, 6, virtioBlkID, "virtio_pci", ", in-use, session-network, no-way-back, not-in-maintenance, passed-through, unsure-verdict")
		require.Contains(t, out, "lifeline")
	})
}

// bindings are the lines of the fingerprint about modules and devices.
func (n node) bindings() string {
	n.t.Helper()
	return n.ok("/tools/fingerprint | grep -v ^/")
}
