package host

import (
	"strings"

	"fitout/hostops"
)

// clue is what was read off the node once, for all rules.
type clue struct {
	n        *hostops.Node
	os       map[string]string
	cmdline  string
	mounts   []mount
	evidence []string
}

// has notes a path as evidence when it exists.
func (c *clue) has(paths ...string) bool {
	found := false
	for _, p := range paths {
		if c.n.Exists(p) {
			c.evidence = append(c.evidence, p+" exists")
			found = true
		}
	}
	return found
}

// arg notes a word of the kernel command line that begins with prefix.
func (c *clue) arg(prefix string) (string, bool) {
	for _, w := range strings.Fields(c.cmdline) {
		if strings.HasPrefix(w, prefix) {
			c.evidence = append(c.evidence, "/proc/cmdline has "+w)
			return w, true
		}
	}
	return "", false
}

// id notes os-release's ID when it is one of ids.
func (c *clue) id(ids ...string) bool {
	for _, id := range ids {
		if c.os["ID"] == id {
			c.evidence = append(c.evidence, "/etc/os-release has ID="+id)
			return true
		}
	}
	return false
}

// rule recognises one family. The first that answers wins, so the order is
// part of the table: toolkit v2 also creates v1's /run/cos/active_mode, and an
// ostree system of the Fedora family also has rpm.
type rule struct {
	family string
	test   func(c *clue) bool
}

var rules = []rule{
	{"talos", func(c *clue) bool { return c.id("talos") }},
	{"ubuntu-core", func(c *clue) bool { return c.id("ubuntu-core") }},
	{"elemental-v2", isElemental2},
	{"elemental-v1", isElemental1},
	{"ostree", func(c *clue) bool { return c.has("/run/ostree-booted") }},
	{"flatcar", func(c *clue) bool { return c.id("flatcar") }},
	{"transactional", isTransactional},
	{"debian", isDebian},
	{"rpm", isRPM},
	{"sysext", isSysext},
}

// Detect says which family of operating systems the node belongs to. It reads
// files only; the evidence is in [Facts]. A node that fits none is "generic".
func Detect(n *hostops.Node) Family {
	c := &clue{n: n, os: osRelease(n), mounts: readMounts(n)}
	c.cmdline, _ = n.ReadString("/proc/cmdline")
	for _, r := range rules {
		c.evidence = nil
		if r.test(c) {
			return describe(c, r.family)
		}
	}
	c.evidence = []string{"none of the known families' marks was found"}
	return describe(c, "generic")
}

// isElemental2: /run/elemental is the mark of v2; v1 never makes it.
func isElemental2(c *clue) bool {
	found := c.has("/run/elemental/active_mode", "/run/elemental/passive_mode",
		"/run/elemental/recovery_mode", "/run/elemental/live_mode",
		"/run/initramfs/elemental-state/state.yaml")
	_, mode := c.arg("elemental.mode=")
	_, off := c.arg("elemental.disable")
	return found || mode || off
}

func isElemental1(c *clue) bool {
	found := c.has("/run/cos/active_mode", "/run/cos/passive_mode", "/run/cos/recovery_mode",
		"/run/cos/live_mode", "/run/cos/cos-layout.env")
	_, img := c.arg("cos-img/filename=")
	_, off := c.arg("rd.cos.disable")
	return found || img || off
}

// isTransactional: tukit also exists on ordinary SUSE systems; what counts is
// that the root is a snapshot.
func isTransactional(c *clue) bool {
	if !c.has("/usr/sbin/transactional-update", "/usr/sbin/tukit") {
		return false
	}
	if m := mountOf(c.mounts, "/"); m != nil && strings.Contains(m.root, ".snapshots/") {
		c.evidence = append(c.evidence, "/ is the btrfs snapshot "+m.root)
		return true
	}
	return c.id("opensuse-microos", "sl-micro", "sle-micro", "opensuse-leap-micro")
}

func isDebian(c *clue) bool {
	return c.has("/var/lib/dpkg/status") && c.has("/usr/bin/dpkg", "/bin/dpkg")
}

func isRPM(c *clue) bool {
	return c.has("/var/lib/rpm", "/usr/lib/sysimage/rpm") && c.has("/usr/bin/rpm", "/bin/rpm")
}

func isSysext(c *clue) bool {
	m := mountOf(c.mounts, "/usr")
	if m == nil || !(hasOption(m.options, "ro") || notKept[m.fstype] != "") {
		return false
	}
	return c.has("/usr/bin/systemd-sysext")
}

// isHarvester: not by ID, which has been sle-micro-rancher, sl-micro and more.
func isHarvester(c *clue) bool {
	found := c.has("/etc/harvester-release.yaml", "/oem/harvester.config")
	if c.os["VARIANT"] == "Harvester" || strings.HasPrefix(c.os["PRETTY_NAME"], "Harvester") {
		c.evidence = append(c.evidence, "/etc/os-release says Harvester")
		found = true
	}
	return found
}
