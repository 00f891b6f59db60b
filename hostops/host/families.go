package host

import (
	"strings"

	"fitout/hostops"
)

// profile is what is known of a family before the node is looked at.
type profile struct {
	title      string
	state      string
	modprobeD  string // "" = the boot stage writes /run/modprobe.d
	oem        string
	chroot     []string
	sideTree   bool
	osImage    bool
	gate       string // Layout.Gate
	strength   Strength
	refusal    string
	laterGate  string // the native point a later version will use; "" = built, or none exists
	laterProof string // how that point is known
}

const (
	ordinaryState  = "/var/lib/fitout"
	elemental2     = "/run/elemental/persistent/fitout"
	harvesterState = "/var/lib/third-party/fitout"
	elemental1     = "/usr/local/lib/fitout"
	etcModprobe    = "/etc/modprobe.d"
)

// profiles is the table of families. Families with laterGate are recognised
// and keep drivers through the side tree, but nothing stops an upgrade there
// yet; the interface already fits their gates:
//
//	family        gate's native point                     called with            exit that refuses
//	transactional /etc/tukit/plugins/* (>= 5.1.0)         finalize-pre ROOT ID   any but 0
//	flatcar       /oem/bin/oem-postinst                   SLOT NEW_USR_MOUNT     any but 0 and 3
//	rpm           dnf excludepkgs, kernel-install 10-*    add KVER DIR IMAGE     77 (no boot entry)
//	sysext        none of its own                         –                      –
//
// Each hands the new root's lib/modules to [Gate] as a [Kernel] with Role
// Staged, and turns [GateResult].Allow into its own exit code.
var profiles = map[string]profile{
	"elemental-v2": {title: "SUSE Elemental (toolkit v2)", state: elemental2, oem: "/oem",
		chroot:   []string{elemental2, "/proc/1/root" + elemental2},
		sideTree: true, osImage: true, gate: "elemental", strength: Advisory},
	"elemental-v1": {title: "Elemental (toolkit v1)", state: elemental1, oem: "/oem",
		chroot:   []string{"/proc/1/root" + elemental1},
		sideTree: true, osImage: true, gate: "elemental", strength: Advisory},
	"harvester": {title: "Harvester (toolkit v1.1)", state: harvesterState, oem: "/oem",
		chroot:   []string{"/proc/1/root" + harvesterState},
		sideTree: true, osImage: true, gate: "elemental-hold", strength: BlocksFinalize},
	"ostree": {title: "ostree", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, gate: "ostree-finalize", strength: BlocksFinalize},
	"debian": {title: "Debian family", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, gate: "kernel-hooks", strength: BlocksInstall},
	"transactional": {title: "SUSE with transactional-update", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, strength: NoGate,
		laterGate: "/etc/tukit/plugins, stage finalize-pre (transactional-update 5.1.0 and later)", laterProof: "run with tukit 6.0.7 on btrfs"},
	"flatcar": {title: "Flatcar Container Linux", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, strength: NoGate,
		laterGate: "/oem/bin/oem-postinst", laterProof: "run with the real flatcar-postinst"},
	"rpm": {title: "RPM family", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, strength: NoGate,
		laterGate: "dnf excludepkgs, kernel-install exit 77", laterProof: "run with rpm and dnf in a chroot"},
	"sysext": {title: "read-only /usr with systemd-sysext", state: ordinaryState, modprobeD: etcModprobe,
		sideTree: true, strength: NoGate},
	"generic": {title: "unknown Linux", state: ordinaryState, modprobeD: etcModprobe, strength: NoGate},
	"talos": {title: "Talos Linux", strength: NoGate,
		refusal: "Talos lets no process but machined load modules, privileged pods included: build an image with the driver's system extension at https://factory.talos.dev and run `talosctl upgrade --nodes NODE --image factory.talos.dev/installer/SCHEMATIC:VERSION`; every later upgrade must name that schematic again, the stock image drops the extension"},
	"ubuntu-core": {title: "Ubuntu Core", strength: NoGate,
		refusal: "Ubuntu Core takes kernel modules only as components of the kernel snap: `snap install pc-kernel+COMPONENT` (for example pc-kernel+nvidia-550-ko)"},
}

// Host is a node of one family. It implements [Family].
type Host struct {
	n       *hostops.Node
	facts   Facts
	layout  Layout
	program program
	noImage string // why no driver can be put into the OS image, if that is known
}

// Facts says what the family can do here.
func (h *Host) Facts() Facts { return h.facts }

// Layout says where fitout's things lie here.
func (h *Host) Layout() Layout { return h.layout }

// describe fits a family's profile to the node at hand.
func describe(c *clue, family string) *Host {
	mode := ""
	if family == "elemental-v1" && isHarvester(c) {
		family = "harvester"
	}
	p := profiles[family]
	title := p.title
	switch family {
	case "elemental-v2", "elemental-v1", "harvester":
		mode = elementalMode(c)
		if family == "elemental-v2" && isHarvester(c) {
			title = "Harvester (toolkit v2)"
		}
	case "ostree":
		title = ostreeTitle(c)
		if strings.Contains(title, "RHCOS") || strings.Contains(title, "composefs") {
			p.gate, p.strength = "ostree-advice", Advisory
		}
	default:
		if c.os["PRETTY_NAME"] != "" && family != "talos" {
			title = c.os["PRETTY_NAME"]
		}
	}
	f := Facts{Family: family, Title: title, StateDir: p.state, Evidence: c.evidence,
		LoadNow: p.refusal == "", SideTree: p.sideTree, OSImage: p.osImage,
		AtBoot: p.sideTree, Gate: p.strength, Refusal: p.refusal}
	if mode == "live" || mode == "recovery" {
		f.Refusal = "this is the " + mode + " system of " + title + ": what is put here is gone at the next boot; boot the installed (active) system and run fitout there"
	}
	h := &Host{n: c.n}
	h.layout = Layout{State: p.state, ModprobeD: p.modprobeD, OEM: p.oem, ChrootState: p.chroot, Gate: p.gate}
	if c.n.Exists("/run/systemd/system") || c.n.Exists("/usr/lib/systemd/systemd") || c.n.Exists("/lib/systemd/systemd") {
		h.layout.UnitDir = "/etc/systemd/system"
	}
	if m := mountOf(c.mounts, p.state); m != nil && m.point != "/" {
		h.layout.Apart = true
	}
	if family == "ostree" {
		h.noImage = whyNoLayers(c)
		f.OSImage = h.noImage == ""
		h.layout.HoldInhibitor = rebootsByItself(c.n)
	}
	if p.oem != "" {
		if by := strictBy(c.n, family, c.os); by != "" {
			f.Evidence = append(f.Evidence, "hook failures stop an upgrade here: "+by)
			f.Gate = BlocksFinalize
		}
	}
	if family == "generic" {
		keepGeneric(c, &f, &h.layout)
	}
	if f.Refusal != "" {
		f.LoadNow, f.SideTree, f.OSImage, f.AtBoot, f.Gate = false, false, false, false, NoGate
		h.layout.Gate = ""
	}
	f.Price = prices(f, h.layout, p)
	h.facts = f
	return h
}

// keepGeneric looks whether an unknown system keeps /etc and /var.
func keepGeneric(c *clue, f *Facts, l *Layout) {
	etc, whyEtc := kept(c.mounts, "/etc/modprobe.d")
	state, whyState := kept(c.mounts, l.State)
	f.Evidence = append(f.Evidence, "/etc: "+whyEtc, l.State+": "+whyState)
	f.SideTree, f.AtBoot = etc && state, etc && state
	if !f.SideTree {
		f.StateDir, l.State = "/run/fitout/state", "/run/fitout/state"
	}
}

// elementalMode tells the booted system: active, passive, recovery, live.
func elementalMode(c *clue) string {
	for _, dir := range []string{"/run/elemental/", "/run/cos/"} {
		for _, m := range []string{"live", "recovery", "passive", "active"} {
			if c.n.Exists(dir + m + "_mode") {
				return m
			}
		}
	}
	for _, w := range strings.Fields(c.cmdline) {
		switch {
		case w == "elemental.disable", w == "rd.cos.disable", strings.Contains(w, "CDLABEL"):
			return "live"
		case strings.Contains(w, "recovery.img"), w == "elemental.mode=recovery":
			return "recovery"
		}
	}
	return "active"
}

// isRHCOS: the OS of an OpenShift or OKD cluster, whose machine-config operator
// owns upgrades. Its os-release has ID=rhcos (OKD: scos), or that of the
// distribution it is made of in the variant "coreos", and OPENSHIFT_VERSION.
func isRHCOS(c *clue) bool {
	if c.id("rhcos", "scos") || c.has("/etc/machine-config-daemon/currentconfig") {
		return true
	}
	return c.os["VARIANT_ID"] == "coreos" && c.id("rhel", "centos") || c.os["OPENSHIFT_VERSION"] != ""
}

// ostreeTitle tells the relatives apart that share ostree.
func ostreeTitle(c *clue) string {
	name := c.os["PRETTY_NAME"]
	if name == "" {
		name = "ostree system"
	}
	switch {
	case isRHCOS(c):
		return name + " (RHCOS, owned by the machine-config operator)"
	case c.has("/run/composefs/staged-deployment", "/boot/bootc_composefs"):
		return name + " (bootc, composefs backend)"
	case c.has("/usr/bin/rpm-ostree"):
		if c.has("/usr/bin/bootc") {
			return name + " (rpm-ostree and bootc)"
		}
		return name + " (rpm-ostree)"
	case c.has("/usr/bin/bootc"):
		return name + " (bootc)"
	}
	return name + " (plain ostree)"
}
