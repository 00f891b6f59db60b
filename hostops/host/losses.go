package host

import (
	"path"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// Losses are the devices, bound now by the OS's own drivers, that no module and
// no built-in driver of kernel k has in its alias list, and no kept driver has
// for it. k.Dir must be readable; a kernel that is not unpacked yet gives none.
// It is not limited to devices that fitout knows: an OS upgrade that drops a
// driver the node lives on is stopped by the same gate.
func Losses(n *hostops.Node, k Kernel, kept []Kept) []Miss {
	theirs := readAliases(n, k.Dir)
	if k.Dir == "" || len(theirs) == 0 {
		return nil
	}
	ours := readAliases(n, moduleDir(n, "/", n.Kernel.Release()))
	var out []Miss
	for _, dev := range n.Glob("/sys/bus/pci/devices/*") {
		alias, err := n.ReadString(dev + "/modalias")
		link, lerr := n.Readlink(dev + "/driver")
		if err != nil || lerr != nil || strings.Contains(alias, "bc06") {
			continue
		}
		// What the running kernel's lists lack was bound by hand (vfio-pci, an
		// override) or by a kept driver, which is judged by its own build.
		if theirs.have(alias) || !ours.have(alias) || keptHas(kept, alias, k.Release) {
			continue
		}
		driver := path.Base(link)
		out = append(out, Miss{Driver: driver, Devices: []string{path.Base(dev)},
			Reason: "the device is bound to it now, and no module of " + k.Release + " drives it" + carries(n, dev)})
	}
	return out
}

// carries says what would go with a device.
func carries(n *hostops.Node, dev string) string {
	if nets := n.Glob(dev + "/net/*"); len(nets) > 0 {
		return "; it carries " + path.Base(nets[0])
	}
	return ""
}

func keptHas(kept []Kept, alias, release string) bool {
	for _, k := range kept {
		if _, ok := k.Driver.Builds[release]; ok && matchesAny(k.Driver.Aliases, alias) {
			return true
		}
	}
	return false
}

// aliasList are PCI alias patterns by their vendor part, "" for those that
// begin with a wildcard.
type aliasList map[string][]string

const vendorLen = len("pci:v00008086")

func (l aliasList) add(pattern string) {
	switch {
	case !strings.HasPrefix(pattern, "pci:"):
	case len(pattern) >= vendorLen && !strings.ContainsAny(pattern[:vendorLen], "*?["):
		l[pattern[:vendorLen]] = append(l[pattern[:vendorLen]], pattern)
	default:
		l[""] = append(l[""], pattern)
	}
}

func (l aliasList) have(alias string) bool {
	lists := [][]string{l[""]}
	if len(alias) >= vendorLen {
		lists = append(lists, l[alias[:vendorLen]])
	}
	for _, list := range lists {
		for _, p := range list {
			if module.MatchAlias(p, alias) {
				return true
			}
		}
	}
	return false
}

// readAliases reads a kernel's modules.alias and the aliases of what is built
// in. A root that was never indexed gives none.
func readAliases(n *hostops.Node, dir string) aliasList {
	out := aliasList{}
	b, err := n.ReadFile(dir + "/modules.alias")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" {
			out.add(f[1])
		}
	}
	builtin, _ := n.ReadFile(dir + "/modules.builtin.modinfo")
	for _, entry := range strings.Split(string(builtin), "\x00") {
		if _, pattern, ok := strings.Cut(entry, ".alias="); ok {
			out.add(pattern)
		}
	}
	return out
}
