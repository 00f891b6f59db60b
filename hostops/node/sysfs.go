package node

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"fitout/hostops"
)

// pciName is the name of a PCI function's sysfs directory; domains have four
// digits or more (VMD: 10000).
var pciName = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// realPath follows every link of a node path and stays below the root.
func realPath(n *hostops.Node, p string) string {
	if n.Simulated() {
		return n.NodePath(n.Path(p))
	}
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	return p
}

// pciOn lists the PCI functions on a sysfs path, outermost first: bridges, a
// VMD controller, the device itself.
func pciOn(p string) []string {
	var out []string
	for part := range strings.SplitSeq(p, "/") {
		if pciName.MatchString(part) {
			out = append(out, part)
		}
	}
	return out
}

// names lists a directory's entries, none when it cannot be read.
func names(n *hostops.Node, dir string) []string {
	entries, err := n.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// mount is one line of mountinfo (proc(5)).
type mount struct {
	dev          string // "8:2"; "0:39" for file systems without a device of their own
	point        string
	fs, source   string
	superOptions string
}

// mounts reads the mount table of this process.
func mounts(n *hostops.Node) ([]mount, error) {
	text, err := n.ReadString("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []mount
	for line := range strings.SplitSeq(text, "\n") {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mount{dev: l[2], point: unescape(l[4]), fs: r[0], source: unescape(r[1])}
		if len(r) > 2 {
			m.superOptions = unescape(r[2])
		}
		out = append(out, m)
	}
	return out, nil
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// covering is the mount that a path lies on: the last one of the longest mount
// point above it. False when the table has none.
func covering(all []mount, p string) (mount, bool) {
	var best mount
	found := false
	for _, m := range all {
		if within(p, m.point) && (!found || len(m.point) >= len(best.point)) {
			best, found = m, true
		}
	}
	return best, found
}

// within says that p is dir or lies below it.
func within(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// swaps lists what is swapped to: block devices and files.
func swaps(n *hostops.Node) []string {
	text, _ := n.ReadString("/proc/swaps")
	var out []string
	for i, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 0 {
			out = append(out, unescape(f[0]))
		}
	}
	return out
}

// blockByName is the sysfs directory of a block device by its /dev path, ""
// when there is none.
func blockByName(n *hostops.Node, dev string) string {
	name := strings.TrimPrefix(realPath(n, dev), "/dev/")
	name = strings.ReplaceAll(name, "/", "!") // cciss/c0d0 in sysfs
	if p := "/sys/class/block/" + name; n.Exists(p) {
		return realPath(n, p)
	}
	// A device-mapper name whose link is not there.
	for _, f := range n.Glob("/sys/block/dm-*/dm/name") {
		if s, err := n.ReadString(f); err == nil && s == path.Base(dev) {
			return realPath(n, path.Dir(path.Dir(f)))
		}
	}
	return ""
}

// blockByNumber is the sysfs directory of a block device by "major:minor".
func blockByNumber(n *hostops.Node, dev string) string {
	if p := "/sys/dev/block/" + dev; n.Exists(p) {
		return realPath(n, p)
	}
	return ""
}
