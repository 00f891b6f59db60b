package host

import (
	"path"
	"strings"
)

// prices says, for each way of keeping a driver, what it costs on this node.
func prices(f Facts, l Layout, p profile) map[string][]string {
	out := map[string][]string{}
	if f.AtBoot {
		out["at-boot"] = []string{
			"no reboot needed; loaded at every boot from " + l.State,
			"no OS upgrade is stopped; after one, the new kernel has the driver only if a build for it is in the tree",
		}
	}
	if f.SideTree {
		out["side-tree"] = append([]string{
			"no reboot needed; /usr and the OS image stay as they are",
			"survives reboots, and OS upgrades to every kernel that has a build in " + l.State,
			"not in the initramfs: a driver for the boot disk cannot be kept this way",
		}, gatePrice(f, p)...)
		if l.UnitDir == "" {
			out["side-tree"] = append(out["side-tree"], "no systemd here: the driver is loaded by udev or mdev coldplug through modprobe.d alone, and a missing build is not reported at boot")
		}
	}
	switch {
	case f.OSImage && l.OEM == "":
		out["os-image"] = layerPrice(f, l)
	case f.OSImage:
		out["os-image"] = append([]string{
			"goes into the OS image with the next upgrade, reinstall or reset; until then it is loaded at boot from " + l.State,
			"the fallback entry has the driver from the tree only, if a build for its kernel is there",
			"a reset that formats the persistent partition loses it: persist again afterwards",
			"an image that has it keeps it until the next upgrade, also after `fitout remove`",
		}, gatePrice(f, p)...)
	}
	return out
}

// layerPrice is that of a layered package.
func layerPrice(f Facts, l Layout) []string {
	out := []string{
		"a package for each kernel in " + path.Join(l.State, "repo") + ", put into the image by `rpm-ostree install`: in the image from the next boot on, until then loaded from " + l.State,
		"every later OS upgrade is built on this node (some minutes more each), and needs all RPM repositories of the node to answer",
		"an OS upgrade to a kernel without a package is refused by rpm-ostree before it is staged",
		"in the initramfs only where one is made here: rpm-ostree initramfs --enable --arg=--add-drivers --arg=MODULE",
		"the fallback deployment has the driver from the tree only, if a build for its kernel is there",
	}
	if strings.Contains(f.Title, "bootc") {
		out = append(out, "`bootc upgrade` and `bootc switch` refuse a node with layered packages: from then on it is upgraded with `rpm-ostree upgrade`")
	}
	return out
}

// gatePrice says how firmly an upgrade without the driver is stopped.
func gatePrice(f Facts, p profile) []string {
	switch {
	case f.Family == "harvester":
		return []string{"an upgrade that would lose it is held before it begins (up to two hours, released by /run/fitout/release or by the build's arrival), then fails its hook; the host goes on after a failed hook unless it runs with strict"}
	case (f.Family == "elemental-v2" || f.Family == "elemental-v1") && f.Gate == BlocksFinalize:
		return []string{"an upgrade on this node that would lose it is stopped, because hook failures count here (strict); one run from a container of the new image is not"}
	case f.Family == "elemental-v2" || f.Family == "elemental-v1":
		return []string{"this host ignores hook failures unless strict is set: fitout records and reports the loss before the reboot, it cannot stop the upgrade by itself",
			"to block: set upgradeContainer.envs ELEMENTAL_STRICT=true in the ManagedOSImage, or label the node plan.upgrade.cattle.io/os-upgrader=disabled"}
	case f.Gate == BlocksInstall:
		return []string{"a kernel package without a build is refused before it is unpacked; other packages go on"}
	case f.Gate == BlocksFinalize:
		return []string{"a staged deployment without a build is not finalised: the node comes up on the present one",
			"/etc is each deployment's own: a rollback to one that was made before has neither driver nor gate"}
	case f.Gate == Advisory:
		return []string{"an upgrade that would lose it is reported, not stopped"}
	case p.laterGate != "":
		return []string{"no upgrade is stopped on this family yet (its own point would be " + p.laterGate + "); run `fitout check --kernel K` before upgrading"}
	}
	return []string{"no upgrade can be stopped on this family; run `fitout check --kernel K` before upgrading"}
}
