package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/elemental"
	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// upgradeLimit: an image is dumped and made anew under emulation.
const upgradeLimit = 8 * time.Minute

func (n node) activeImage() string {
	n.t.Helper()
	return n.ok("readlink /run/initramfs/elemental-state/.snapshots/active")
}

// An Elemental node, its root the read-only image that the toolkit makes: a
// driver kept there survives reboots and upgrades to other kernels, beside a
// broken file in /oem; an upgrade that would lose the driver is stopped where
// strict is on, and told before the reboot where it is not; the fallback entry has
// the driver; what is removed is gone.
func TestElementalNodeThroughItsUpgrades(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	older, err := debian.Older(1)
	require.NoError(t, err)
	oldest, err := debian.Older(2)
	require.NoError(t, err)
	osImages, drivers := t.TempDir(), t.TempDir()
	for name, k := range map[string]debian.Kernel{"first": older, "second": stock, "uncovered": oldest} {
		require.NoError(t, vm.ElementalImage(filepath.Join(osImages, name+".img"), k, elemental.Toolkit(t), "e1000e"))
	}
	build(t, images.Spec{Kernels: []debian.Kernel{older, stock}, Modules: []string{"e1000e"}, PerKernel: true}).layout(drivers, "1")

	n := start(t, vm.Config{
		Kernel: older, Elemental: filepath.Join(osImages, "first.img"), Memory: 2048,
		Devices: []string{"e1000e,addr=05.0"},
		Media:   map[string]string{"os": osImages, "drivers": drivers},
	})
	before := n.keptFiles()
	// With this toolkit it costs the other hooks nothing, unless they are strict.
	n.ok(`printf 'name: broken\nstages:\n  boot:\n  - commands:\n    - echo a: b: c\n' >/oem/50_broken.yaml`)
	require.Equal(t, "", n.driver("05.0"))
	keep := answer{id: e1000eID, image: "oci:/media/drivers:1", when: "load-now+persist", licence: "e1000e"}
	n.apply(0, keep)
	require.Equal(t, "e1000e", n.driver("05.0"))
	hook := n.ok("cat /oem/95_fitout_e1000e.yaml")

	require.NoError(t, n.Reboot())
	require.Equal(t, "e1000e", n.driver("05.0"), "after a reboot, from the tree")
	require.NotContains(t, n.ok("fitout status"), "DRIFT")

	upgrade := func(n node, code int, args string) {
		n.t.Helper()
		out, got := n.RunFor(upgradeLimit, "elemental upgrade --logfile /run/upgrade.log "+args+"; r=$?; sync; cat /run/upgrade.log; exit $r")
		require.Equal(n.t, code, got, "%s", out)
		require.Equal(n.t, hook, n.ok("cat /oem/95_fitout_e1000e.yaml"), "/oem is whole")
		require.NotContains(n.t, n.ok("cat /proc/mounts"), "workingtree")
	}
	inImage := func(n node, k debian.Kernel) {
		n.t.Helper()
		require.Equal(n.t, "e1000e", n.driver("05.0"), "in the new image, on its kernel")
		require.Contains(n.t, n.ok("modinfo -n e1000e"), "/updates/fitout/e1000e/e1000e.ko")
		n.ok("test -s /usr/lib/modules/" + k.Release + "/updates/fitout/e1000e/e1000e.ko")
	}
	upgrade(n, 0, "--system file:///media/os/second.img")
	require.Equal(t, "2/snapshot.img", n.activeImage())
	n.ok("fitout needs-reboot") // 0: yes
	n.ok("rm /oem/50_broken.yaml; sync")
	require.NoError(t, n.Boot(stock))
	inImage(n, stock)
	require.NotContains(t, n.ok("fitout status"), "DRIFT")

	t.Run("an upgrade without a build is stopped where strict is on", func(t *testing.T) {
		n := n.on(t)
		upgrade(n, 1, "--strict --system file:///media/os/uncovered.img")
		require.Equal(t, "2/snapshot.img", n.activeImage())
		said := n.ok("fitout status; cat /run/motd.d/fitout")
		require.Contains(t, said, oldest.Release)
		require.Contains(t, said, "e1000e")
	})
	t.Run("a second upgrade", func(t *testing.T) {
		n := n.on(t)
		upgrade(n, 0, "--system file:///media/os/first.img")
		require.Equal(t, "3/snapshot.img", n.activeImage())
		require.NoError(t, n.Boot(older))
		inImage(n, older)
		require.NotContains(t, n.ok("fitout status"), "DRIFT")
	})
	t.Run("an upgrade without a build is told before the reboot where strict is not on", func(t *testing.T) {
		n := n.on(t)
		upgrade(n, 0, "--system file:///media/os/uncovered.img")
		require.Contains(t, n.ok("fitout status"), "THE NEW OS IMAGE LACKS e1000e")
		require.Contains(t, n.ok("fitout needs-reboot"), "LACKS e1000e for kernel "+oldest.Release)
		require.Contains(t, n.ok("cat /run/motd.d/fitout"), oldest.Release)
		said := n.exits(6, "fitout check")
		require.Contains(t, said, "Kernel "+oldest.Release, "the image that boots next is looked into")
		require.Contains(t, said, "THE NEW OS IMAGE LACKS e1000e")
	})
	t.Run("the fallback entry has the driver", func(t *testing.T) {
		n := n.on(t)
		n.ok("echo 3 >/run/initramfs/elemental-state/fallback; sync")
		require.NoError(t, n.Boot(older))
		n.ok("test -e /run/elemental/passive_mode")
		inImage(n, older)
		said := n.ok("fitout status; cat /run/motd.d/fitout")
		require.Contains(t, said, "the next boot starts another OS image")
		require.Contains(t, said, "THE NEW OS IMAGE LACKS e1000e for kernel "+oldest.Release, "it still is the default")

		n.ok("ln -sfn 3/snapshot.img /run/initramfs/elemental-state/.snapshots/active; sync")
		n.ok("/run/elemental/persistent/fitout/bin/fitout hook boot")
		said = n.ok("fitout status; ls /run/motd.d 2>/dev/null || true")
		for _, word := range []string{"LACKS", "BLOCKED", "next boot starts another", "motd.d/fitout"} {
			require.NotContains(t, said, word, "it clears itself")
		}
		n.exits(20, "fitout needs-reboot")
	})
	t.Run("what is removed is gone", func(t *testing.T) {
		n := n.on(t)
		n.ok("fitout remove e1000e --yes")
		require.Equal(t, before, n.keptFiles())
		require.Equal(t, "", n.ok("find /run/modprobe.d /run/motd.d -name 'fitout*' 2>/dev/null || true"))
	})
	t.Run("no room in /oem", func(t *testing.T) {
		n := n.on(t)
		n.ok("dd if=/dev/zero of=/run/oem.img bs=1M count=4 2>/dev/null && mke2fs -q -F /run/oem.img && mount -o loop /run/oem.img /oem && ! dd if=/dev/zero of=/oem/full bs=4k 2>/dev/null")
		n.write("/root/answers.yaml", keep.file())
		said, code := n.RunFor(5*time.Minute, "fitout --answers-file /root/answers.yaml")
		require.Equal(t, 6, code, "refused beforehand: %s", said)
		require.Contains(t, said, "no-space")
		require.Equal(t, "", n.driver("05.0"))
		n.ok("umount /oem")
		require.Equal(t, before, n.keptFiles("/fitout/store", "/fitout/cache"), "but for what was read")
		require.NotContains(t, n.ok("fitout status"), "DRIFT")
	})
}

// The image of before boots, its driver is in use, and what the upgrade has left
// is named with its cure.
func TestPowerCutInTheHookOfAnElementalNode(t *testing.T) {
	t.Parallel()
	k := kernel(t, debian.Stock)
	osImages, drivers := t.TempDir(), t.TempDir()
	file := filepath.Join(osImages, "os.img")
	require.NoError(t, vm.ElementalImage(file, k, elemental.Toolkit(t), "e1000e"))
	build(t, images.Spec{Kernels: []debian.Kernel{k}, Modules: []string{"e1000e"}}).layout(drivers, "1")
	n := start(t, vm.Config{
		Kernel: k, Elemental: file, Memory: 2048, Devices: []string{"e1000e,addr=05.0"},
		Media: map[string]string{"os": osImages, "drivers": drivers},
	})
	n.apply(0, answer{id: e1000eID, image: "oci:/media/drivers:1", when: "load-now+persist", licence: "e1000e"})
	hook := n.ok("cat /oem/95_fitout_e1000e.yaml")

	n.ok(`elemental upgrade --system file:///media/os/os.img >/dev/null 2>&1 </dev/null &
hook=
while [ -z "$hook" ]; do
	for p in /proc/[0-9]*; do
		line=
		read -r line <$p/cmdline || true
		case $line in */fitouthookafter-upgrade*) hook=${p#/proc/} ;; esac
	done 2>/dev/null
done
until [ -e /run/elemental/workingtree/usr/lib/modules/*/updates/fitout/e1000e ]; do sleep 0.01; done
kill -STOP $hook && sync`)
	require.NoError(t, n.Reset())
	require.Equal(t, "e1000e", n.driver("05.0"))
	require.Equal(t, "1/snapshot.img", n.activeImage(), "the image of before boots")
	require.Equal(t, hook, n.ok("cat /oem/95_fitout_e1000e.yaml"))
	said := n.ok("fitout status")
	require.NotContains(t, said, "DRIFT")
	require.NotContains(t, said, "BLOCKED")
	require.Contains(t, said, "rm -r /run/initramfs/elemental-state/.snapshots/2")
	n.ok("rm -r /run/initramfs/elemental-state/.snapshots/2")
	require.NotContains(t, n.ok("fitout status"), "LEFT OVER")
}

// keptFiles are the files of the node that outlive a reboot, but for the records
// of runs and of accepted terms, and what else is named.
func (n node) keptFiles(but ...string) string {
	n.t.Helper()
	left := ""
	for _, part := range append(but, "/fitout$", "/fitout/runs", "/fitout/licences.json") {
		left += " -e " + part
	}
	return n.ok("find /oem /run/elemental/persistent | grep -v" + left + " | sort")
}
