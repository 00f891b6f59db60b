package debianhost_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/debianhost"
	"fitout/testdata/vm/debian"
)

func TestUpgradePastTheGateOnDebian(t *testing.T) {
	t.Parallel()
	k := someKernels(t)
	h := start(t, k)
	h.ok("rmdir /etc/modprobe.d") // a directory that fitout has to make itself
	before := h.files(k)
	h.apply("1", "load-now+persist")
	h.steps(
		part{"a gate that cannot read its state refuses, and says how to go on", func(h host) { damaged(h, k.first) }},
		part{"somebody puts a kernel in place by hand, and takes the gate away", func(h host) { byHand(h, k.foreign) }})
	require.NoError(t, h.Reboot())
	h.steps(
		part{"that is noticed at the next boot", func(h host) { noticed(h, k.foreign) }},
		part{"the last kernel that has the driver cannot be removed", func(h host) {
			require.Contains(h.t, h.apt(100, "purge "+debianhost.Package(k.first)), "last installed one that has every kept driver")
			h.whole()
			h.ok("test -s /boot/vmlinuz-" + k.first.Release)
		}},
		part{"a build that comes later clears everything", func(h host) {
			h.apply("2", "load-now+persist")
			require.Equal(h.t, "e1000e", h.driver())
			require.Empty(h.t, h.ok("cat /run/motd.d/fitout 2>/dev/null || true"))
			require.NotContains(h.t, h.ok("fitout status --exit-code"), "BLOCKED")
		}},
		part{"remove leaves the file system as it was", func(h host) {
			h.ok("fitout remove e1000e --yes")
			require.Empty(h.t, h.driver())
			require.Equal(h.t, before, h.files(k))
			h.exits(4, "systemctl status fitout-drivers.service")
		}})
}

// files are the host's: where each is, its kind, mode, owner and target, and its
// content in /etc, /boot and the first kernel's modules. What changes by itself
// is left out, and what other kernels brought; so are the history of the runs
// and of the licences, which fitout leaves.
func (h host) files(k kernels) string {
	h.t.Helper()
	var others strings.Builder
	for _, o := range []debian.Kernel{k.covered, k.twin, k.foreign} {
		others.WriteString(" -o -name '*" + o.Release + "*'")
	}
	return h.ok(`cd / && find . -xdev \( -path ./proc -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./var/tmp -o -path ./var/log -o -path ./var/cache -o -path ./root \
	-o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/lib/systemd -o -path ./var/lib/fitout/runs -o -path ./var/lib/fitout/licences.json \
	-o -name 'vmlinuz*' -o -name 'initrd.img*'` + others.String() + ` \) -prune -o ! -path ./var/lib/fitout -printf '%p %M %U %l\n' | sort
find etc boot/config-` + k.first.Release + ` lib/modules/` + k.first.Release + ` -type f -exec sha256sum {} + | sort -k 2`)
}

// byHand puts a kernel's files in place without dpkg, which asks no gate.
func byHand(h host, k debian.Kernel) {
	h.ok("dpkg-deb -x /srv/debian/" + debianhost.Package(k) + "_*.deb /tmp/k && cp -a /tmp/k/boot/. /boot && cp -a /tmp/k/lib/modules/. /lib/modules && rm -r /tmp/k")
	h.ok("depmod " + k.Release + " && mktirfs -o /boot/initrd.img-" + k.Release + " " + k.Release)
	h.ok("ln -sf boot/vmlinuz-" + k.Release + " /vmlinuz && ln -sf boot/initrd.img-" + k.Release + " /initrd.img")
	h.ok("rm /etc/kernel/preinst.d/fitout")
}

// noticed is what a boot into a kernel without a build must say.
func noticed(h host, bare debian.Kernel) {
	require.Equal(h.t, bare.Release, h.ok("uname -r"))
	require.Empty(h.t, h.driver())
	require.Equal(h.t, "failed", strings.TrimSpace(h.exits(3, "systemctl is-active fitout-drivers.service")))
	require.Equal(h.t, "active", h.ok("systemctl is-active multi-user.target"))
	for _, cmd := range []string{"cat /run/motd.d/fitout", "journalctl -b -t fitout -o cat", "cat /var/lib/fitout/boot.json", "fitout status"} {
		require.Contains(h.t, h.ok(cmd), "no build for "+bare.Release, cmd)
	}
	h.exits(20, "fitout status --exit-code")
	h.ok("test -x /etc/kernel/preinst.d/fitout")
}

// ask asks the gate as a kernel's package does.
func ask(k debian.Kernel) string {
	return "DEB_MAINT_PARAMS=upgrade run-parts --report --exit-on-error --arg=" + k.Release + " --arg=/boot/vmlinuz-" + k.Release + " /etc/kernel/preinst.d 2>&1"
}

// damaged breaks the gate's state in several ways and asks it about a kernel
// that has its driver.
func damaged(h host, covered debian.Kernel) {
	build := "/var/lib/fitout/tree/lib/modules/" + covered.Release + "/updates/e1000e/e1000e.ko"
	h.ok(ask(covered))
	h.ok("cp -a " + build + " /root/sound.ko")
	for damage, says := range map[string]string{
		"mv /var/lib/fitout/kept /root/gone": "refused unchecked",
		"mv /var/lib/fitout/bin /root/gone":  "NOT checked",
		"mv /var/lib/fitout /root/gone":      "NOT checked",
		"cp -a /var/lib/fitout/kept /root/gone; for f in /var/lib/fitout/kept/*; do : >$f; done": "refused unchecked",
	} {
		h.ok(damage)
		require.Contains(h.t, h.exits(1, ask(covered)), says, damage)
		from := strings.Fields(strings.TrimPrefix(strings.TrimPrefix(damage, "mv "), "cp -a "))[0]
		h.ok("rm -rf " + from + " && mv /root/gone " + from)
	}
	// What the image store has is put back.
	h.ok("echo x >>" + build + "; rm " + filepath.Dir(build) + "/../../modules.dep; " + ask(covered))
	h.ok("cmp " + build + " /root/sound.ko && grep -q e1000e.ko: " + filepath.Dir(build) + "/../../modules.dep")
}
