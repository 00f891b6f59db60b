package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/testdata/images"
	"fitout/testdata/ostree"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// A libostree host, booted from its deployments, through its updates: a driver
// that is kept is bound at every boot on a kernel that it has a build for; an
// update to a kernel that it has none for is told when it is staged and is not
// finalised at shutdown.
func TestOSTreeHostThroughItsUpdates(t *testing.T) {
	t.Parallel()
	first, fits := sameVersions(t, "e1000e")
	built, lost := kernel(t, debian.Plus), kernel(t, debian.Cloud)
	image, err := ostree.Image(first, built, fits, lost)
	require.NoError(t, err)
	drivers := t.TempDir()
	build(t, images.Spec{Kernels: []debian.Kernel{first}, Modules: []string{"e1000e"}}).layout(filepath.Join(drivers, "first"), "1")
	build(t, images.Spec{Kernels: []debian.Kernel{first, built}, Modules: []string{"e1000e"}}).layout(filepath.Join(drivers, "both"), "1")
	h := ostreeHost{start(t, vm.Config{
		Disk: &vm.Disk{Image: image, Loader: ostree.Loader}, Devices: []string{"e1000e,addr=05.0"}, Media: map[string]string{"drivers": drivers},
	})}
	before := h.kept()

	t.Run("persist keeps it beside a read-only /usr", func(t *testing.T) {
		h := h.on(t)
		h.exits(1, "touch /usr/lib/modules/x")
		require.Equal(t, "", h.driver("05.0"))
		h.persist("first", "")
		require.Equal(t, "e1000e", h.driver("05.0"))
		require.NotContains(t, h.ok("fitout status"), "DRIFT")
	})
	t.Run("a staged kernel without a build is told before the reboot", func(t *testing.T) {
		h := h.on(t)
		h.stage(built)
		said := h.ok("for i in $(seq 60); do [ -s /run/motd.d/fitout ] && break; sleep 1; done; cat /run/motd.d/fitout")
		for _, word := range []string{built.Release, "e1000e", e1000eID, "fitout allow " + built.Release} {
			require.Contains(t, said, word)
		}
		require.Contains(t, h.exits(6, "fitout check"), "Kernel "+built.Release)
		require.Contains(t, h.ok("fitout status"), "UPGRADE BLOCKED for kernel "+built.Release)
		h.exits(20, "fitout needs-reboot") // no: it would not lead there
	})
	t.Run("and is not finalised at shutdown", func(t *testing.T) {
		h := h.on(t)
		h.reboots(first, "e1000e")
		require.Contains(t, h.ok("journalctl -b -1 -u ostree-finalize-staged --no-pager"), "kernel "+built.Release+" refused")
		require.NotContains(t, h.ok("ostree admin status"), ostree.Ref(built))
		require.Contains(t, h.ok("fitout bundle -q -o /run/bundle.tar.gz >/dev/null; tar -xzOf /run/bundle.tar.gz fitout-bundle/journal.txt"), "kernel "+built.Release+" refused")
	})
	t.Run("with its build it boots, bound", func(t *testing.T) {
		h := h.on(t)
		h.persist("both", "")
		h.stage(built)
		require.Contains(t, h.ok("fitout check"), "Kernel "+built.Release)
		h.ok("fitout needs-reboot") // yes
		h.reboots(built, "e1000e")
		h.exits(1, "test -e /run/motd.d/fitout")
		require.NotContains(t, h.ok("fitout status"), "DRIFT")
	})
	t.Run("a kernel whose symbol versions fit is refused before that risk is accepted", func(t *testing.T) {
		h := h.on(t)
		h.stage(fits)
		require.Contains(t, h.exits(6, "fitout check --rehearse"), "refused")
	})
	t.Run("and boots, bound, when it is", func(t *testing.T) {
		h := h.on(t)
		h.persist("both", "kabi-match")
		var checked struct{ Drivers []struct{ Verdict string } }
		h.json(&checked, "fitout check --rehearse --json")
		require.Equal(t, "ok-kabi", checked.Drivers[0].Verdict)
		h.reboots(fits, "e1000e")
		h.exits(1, "test -e /run/motd.d/fitout")
	})
	t.Run("allow lets an uncovered kernel through", func(t *testing.T) {
		h := h.on(t)
		h.stage(lost)
		h.exits(6, "fitout check")
		h.ok("fitout allow " + lost.Release)
		h.reboots(lost, "")
		said := h.ok("cat /run/motd.d/fitout")
		require.Contains(t, said, lost.Release)
		require.Contains(t, said, "e1000e")
	})
	t.Run("once", func(t *testing.T) {
		h := h.on(t)
		h.stage(lost)
		h.ok("systemctl stop ostree-finalize-staged")
		require.Contains(t, h.ok("journalctl -b -u ostree-finalize-staged --no-pager"), "kernel "+lost.Release+" refused")
	})
	t.Run("remove leaves no trace", func(t *testing.T) {
		h := h.on(t)
		h.ok("fitout remove e1000e --yes; rm -f /root/answers.yaml")
		require.Equal(t, before, h.kept())
	})
}

// ostreeHost is a libostree host with driver images on a disk.
type ostreeHost struct{ node }

func (h ostreeHost) on(t *testing.T) ostreeHost { return ostreeHost{h.node.on(t)} }

// persist keeps the driver from one of the images.
func (h ostreeHost) persist(image, risks string) {
	h.t.Helper()
	h.ok("mkdir -p /run/drivers; mountpoint -q /run/drivers || mount /dev/disk/by-id/virtio-drivers /run/drivers")
	h.apply(0, answer{id: e1000eID, image: "oci:/run/drivers/" + image + ":1", when: "load-now+persist", licence: "e1000e", risks: risks})
}

// stage stages the deployment with a kernel.
func (h ostreeHost) stage(k debian.Kernel) {
	h.t.Helper()
	h.ok("ostree admin deploy --stage " + ostree.Ref(k))
}

// reboots restarts the host, which must come up with that kernel and that driver
// bound to the card.
func (h ostreeHost) reboots(k debian.Kernel, driver string) {
	h.t.Helper()
	require.NoError(h.t, h.Reboot())
	require.Equal(h.t, k.Release, h.ok("uname -r"))
	require.Equal(h.t, driver, h.driver("05.0"))
}

// kept is what outlives a reboot: /etc, and the names in /var but for logs and
// fitout's record of what was done and accepted.
func (h ostreeHost) kept() string {
	h.t.Helper()
	return h.ok(`find /etc -type f ! -name .updated -exec sha256sum {} + | sort -k 2
find /etc -type l -printf '%p -> %l\n' | sort
find /var \( -path /var/log -o -path /var/lib/systemd -o -path /var/lib/fitout/runs -o -path /var/lib/fitout/licences.json \) -prune -o -print | grep -vx /var/lib/fitout | sort`)
}

// sameVersions are two kernels, the older first, for which a module was built
// against the same symbol versions.
func sameVersions(t *testing.T, name string) (older, newer debian.Kernel) {
	t.Helper()
	releases, err := debian.Releases()
	require.NoError(t, err)
	var last []module.Import
	for i, release := range releases[:min(4, len(releases))] {
		k, err := debian.Fetch(release)
		require.NoError(t, err)
		rel, err := k.Module(name)
		require.NoError(t, err)
		info, err := module.ReadFile(filepath.Join(k.Modules(), rel))
		require.NoError(t, err)
		if i > 0 && slices.Equal(last, info.Imports) {
			return k, newer
		}
		last, newer = info.Imports, k
	}
	t.Fatalf("of the 6.1 kernels %s no two neighbours have the same symbol versions for %s", strings.Join(releases, ", "), name)
	return older, newer
}
