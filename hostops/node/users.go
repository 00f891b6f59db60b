package node

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fitout/hostops"
)

// Users says who uses the PCI function addr or the given modules: processes
// with device nodes open or mapped, mounts and swap on its disks, network
// devices that are up, enabled virtual functions, a vfio group that is held,
// modules that need one of these modules, and reference counts that all of
// this does not explain. Modules that are in the list themselves are not users
// of one another. addr may be "", modules empty.
//
// The error says what could not be looked at (the open files of other users'
// processes, without root); the list is then what could.
func Users(n *hostops.Node, addr string, modules []string) ([]Use, error) {
	d, err := newTarget(n, addr, modules)
	if err != nil {
		return nil, err
	}
	var out []Use
	procs, unseen := d.processes()
	out = append(out, procs...)
	out = append(out, d.disks()...)
	out = append(out, d.netdevs()...)
	out = append(out, d.functions()...)
	explained := d.mounted
	for _, p := range procs {
		explained += len(p.PIDs)
	}
	out = append(out, d.holders(explained)...)
	if unseen > 0 {
		return out, fmt.Errorf("the open files of %d processes could not be looked at (not root?): the list of users may not be complete", unseen)
	}
	return out, nil
}

// target is a device, with its modules, whose users are looked for.
type target struct {
	n       *hostops.Node
	addr    string
	dir     string // sysfs directory, links resolved; "" without a device
	modules []string
	nodes   map[string]bool // paths of its device nodes ("/dev/nvme0")
	majors  map[uint64]bool // character majors that its modules registered
	mounted int             // mounts and swaps found on it
}

func newTarget(n *hostops.Node, addr string, modules []string) (*target, error) {
	t := &target{n: n, addr: addr, nodes: map[string]bool{}, majors: map[uint64]bool{}}
	for _, m := range modules {
		t.modules = append(t.modules, strings.ReplaceAll(m, "-", "_"))
	}
	if addr != "" {
		link := "/sys/bus/pci/devices/" + addr
		if !n.Exists(link) {
			return nil, fmt.Errorf("finding the users of %s: there is no such PCI function", addr)
		}
		t.dir = realPath(n, link)
		t.findNodes(t.dir, 0)
		if group, err := n.Readlink(t.dir + "/iommu_group"); err == nil {
			t.nodes["/dev/vfio/"+path.Base(group)] = true
			t.nodes["/dev/vfio/noiommu-"+path.Base(group)] = true
		}
	}
	t.findMajors()
	return t, nil
}

// findNodes collects the device nodes below a sysfs directory: every "dev"
// file has the node's name in the uevent beside it. It stays out of other PCI
// functions.
func (t *target) findNodes(dir string, depth int) {
	if depth > 12 {
		return
	}
	entries, err := t.n.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		switch {
		case e.Name() == "dev" && !e.IsDir():
			text, _ := t.n.ReadString(dir + "/uevent")
			for line := range strings.SplitSeq(text, "\n") {
				if name, ok := strings.CutPrefix(line, "DEVNAME="); ok {
					t.nodes["/dev/"+strings.TrimPrefix(name, "/dev/")] = true
				}
			}
		case e.IsDir() && !pciName.MatchString(e.Name()):
			t.findNodes(dir+"/"+e.Name(), depth+1)
		}
	}
}

// findMajors collects the character device numbers that the modules registered
// under their own name: vendor drivers make nodes that sysfs does not show
// (/dev/nvidia0).
func (t *target) findMajors() {
	text, _ := t.n.ReadString("/proc/devices")
	chars, _, _ := strings.Cut(text, "Block devices:")
	for line := range strings.SplitSeq(chars, "\n") {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		name := strings.ReplaceAll(f[1], "-", "_")
		major, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil {
			continue
		}
		for _, m := range t.modules {
			if name == m || strings.HasPrefix(name, m+"_") || name == m+"ctl" {
				t.majors[major] = true
			}
		}
	}
}

// disks finds mounts and swap that rest on the device, whatever is between.
func (t *target) disks() []Use {
	if t.dir == "" {
		return nil
	}
	w, err := newWalker(t.n)
	if err != nil {
		return nil
	}
	var out []Use
	seen := map[string]bool{}
	for _, m := range w.mounts {
		if seen[m.dev] && !strings.HasPrefix(m.source, "/dev/") || networkOrVirtual(m) {
			continue
		}
		seen[m.dev] = true
		if e, ok := t.on(w.mount(m, 0)); ok {
			out = append(out, Use{Kind: "mount", Text: fmt.Sprintf("%s is mounted from it (%s)", m.point, e.path)})
		}
	}
	for _, s := range swaps(t.n) {
		dir := blockByName(t.n, s)
		if dir == "" {
			continue
		}
		if e, ok := t.on(w.block(dir, 0)); ok {
			out = append(out, Use{Kind: "mount", Text: fmt.Sprintf("%s is swapped to (%s)", s, e.path)})
		}
	}
	t.mounted = len(out)
	return out
}

// networkOrVirtual leaves out what has no disk: /proc and the like, and file
// systems over the network, whose traffic is a matter of lifelines.
func networkOrVirtual(m mount) bool {
	return slices.Contains(networkFS, m.fs) || m.fs == "overlay" || m.fs == "zfs" ||
		strings.HasPrefix(m.dev, "0:") && m.fs != "btrfs"
}

func (t *target) on(ends []end) (end, bool) {
	i := slices.IndexFunc(ends, func(e end) bool { return e.address == t.addr })
	if i < 0 {
		return end{}, false
	}
	return ends[i], true
}

// flagUp is IFF_UP of netdevice(7).
const flagUp = 0x1

// netdevs finds network devices of the function that are up.
func (t *target) netdevs() []Use {
	if t.dir == "" {
		return nil
	}
	var out []Use
	for _, name := range names(t.n, "/sys/class/net") {
		dir := "/sys/class/net/" + name
		if !within(realPath(t.n, dir), t.dir) {
			continue
		}
		text, _ := t.n.ReadString(dir + "/flags")
		flags, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
		if err != nil || flags&flagUp == 0 {
			continue
		}
		say := "network device " + name + " is up"
		if m, err := t.n.Readlink(dir + "/master"); err == nil {
			say += " and belongs to " + path.Base(m)
		}
		out = append(out, Use{Kind: "netdev-up", Text: say})
	}
	return out
}

// functions finds enabled virtual functions.
func (t *target) functions() []Use {
	if t.dir == "" {
		return nil
	}
	text, err := t.n.ReadString(t.dir + "/sriov_numvfs")
	if count, aerr := strconv.Atoi(text); err != nil || aerr != nil || count == 0 {
		return nil
	}
	drivers := map[string]int{}
	for _, link := range t.n.Glob(t.dir + "/virtfn*") {
		if d, err := t.n.Readlink(realPath(t.n, link) + "/driver"); err == nil {
			drivers[path.Base(d)]++
		}
	}
	say := text + " virtual functions are enabled"
	for _, d := range sorted(drivers) {
		say += fmt.Sprintf(", %d bound to %s", drivers[d], d)
	}
	return []Use{{Kind: "virtual-functions", Text: say}}
}

func sorted(m map[string]int) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// holders finds modules that need ours, and counts that nothing explains.
// explained is how many users of other kinds were found.
func (t *target) holders(explained int) []Use {
	var out []Use
	for _, m := range t.modules {
		dir := "/sys/module/" + m
		held := names(t.n, dir+"/holders")
		for i, h := range held {
			own, _ := t.n.ReadString("/sys/module/" + h + "/refcnt")
			if own != "" && own != "0" {
				held[i] += " (itself in use " + own + " times)"
			}
			if !slices.Contains(t.modules, strings.ReplaceAll(h, "-", "_")) {
				out = append(out, Use{Kind: "module", Text: fmt.Sprintf("module %s needs %s", held[i], m)})
			}
		}
		text, err := t.n.ReadString(dir + "/refcnt")
		count, aerr := strconv.Atoi(text)
		if err != nil || aerr != nil || count <= len(held)+explained {
			continue
		}
		rest := count - len(held) - explained
		say := fmt.Sprintf("module %s has a reference count of %d; ", m, count)
		if len(held) > 0 {
			say += fmt.Sprintf("%s account for %d of it, ", strings.Join(held, ", "), len(held))
		}
		if explained > 0 {
			say += fmt.Sprintf("%d come from what is named above, ", explained)
		}
		out = append(out, Use{Kind: "unexplained", Text: fmt.Sprintf("%s%d are unexplained", say, rest)})
	}
	return out
}
