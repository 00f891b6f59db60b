package node

import (
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"fitout/hostops"
)

// maxDepth bounds how far a stack of block devices is followed (a loop file on
// a dm device on an md array on partitions is five).
const maxDepth = 32

// end is a PCI function that a walk came to, with the way there.
type end struct {
	address string
	path    string // "dm-0 on nvme0n1p3 on nvme0n1 on 0000:03:00.0"
}

// walker follows what storage and traffic rest on, down to PCI functions.
type walker struct {
	n      *hostops.Node
	mounts []mount
	routes []route
	// following are the mount points of overlays on the way to here.
	following map[string]bool
}

func newWalker(n *hostops.Node) (*walker, error) {
	m, err := mounts(n)
	if err != nil {
		return nil, err
	}
	return &walker{n: n, mounts: m, routes: routes(n), following: map[string]bool{}}, nil
}

// file follows the file system that a path lies on.
func (w *walker) file(p string, depth int) []end {
	m, ok := covering(w.mounts, p)
	if !ok {
		return nil
	}
	return w.mount(m, depth)
}

// networkFS are file systems that live on another machine, with where their
// source names it.
var networkFS = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "9p"}

// mount follows one mount.
func (w *walker) mount(m mount, depth int) []end {
	if depth > maxDepth {
		return nil
	}
	switch {
	case slices.Contains(networkFS, m.fs):
		return prefix(m.source, w.host(peerOf(m)))
	case m.fs == "overlay":
		return w.overlay(m, depth)
	case m.fs == "zfs":
		return w.everyDisk("a ZFS pool that may lie on it")
	case m.fs == "btrfs":
		return w.btrfs(m, depth)
	}
	if dir := blockByNumber(w.n, m.dev); dir != "" {
		return w.block(dir, depth)
	}
	if strings.HasPrefix(m.source, "/dev/") {
		if dir := blockByName(w.n, m.source); dir != "" {
			return w.block(dir, depth)
		}
	}
	return nil
}

// overlay follows the directories that an overlay is made of. Those of a live
// system's initramfs are not reachable by path; its own mounts are lifelines
// by themselves. An overlay that is being followed already is left out: paths
// in the options may lie, by now, on an overlay over it.
func (w *walker) overlay(m mount, depth int) []end {
	if w.following[m.point] {
		return nil
	}
	w.following[m.point] = true
	defer delete(w.following, m.point)
	under := map[mount]bool{}
	var out []end
	for opt := range strings.SplitSeq(m.superOptions, ",") {
		k, v, _ := strings.Cut(opt, "=")
		if k != "lowerdir" && k != "upperdir" && k != "lowerdir+" {
			continue
		}
		for dir := range strings.SplitSeq(v, ":") {
			if u, ok := covering(w.mounts, dir); ok && u != m && !under[u] {
				under[u] = true
				out = append(out, prefix("overlay", w.mount(u, depth+1))...)
			}
		}
	}
	return out
}

// btrfs follows every device of a file system of several.
func (w *walker) btrfs(m mount, depth int) []end {
	dir := blockByName(w.n, m.source)
	if dir == "" {
		return nil
	}
	for _, devices := range w.n.Glob("/sys/fs/btrfs/*/devices") {
		members := names(w.n, devices)
		if !slices.Contains(members, path.Base(dir)) {
			continue
		}
		var out []end
		for _, d := range members {
			out = append(out, w.block(realPath(w.n, path.Join(devices, d)), depth+1)...)
		}
		return out
	}
	return w.block(dir, depth)
}

// everyDisk is the cautious answer where members cannot be told.
func (w *walker) everyDisk(why string) []end {
	var out []end
	for _, b := range names(w.n, "/sys/block") {
		out = append(out, prefix(why, w.block(realPath(w.n, "/sys/block/"+b), maxDepth-4))...)
	}
	return out
}

var (
	nvmeController = regexp.MustCompile(`^nvme\d+$`)
	iscsiSession   = regexp.MustCompile(`/session(\d+)/`)
	traddr         = regexp.MustCompile(`traddr=([^,\s]+)`)
)

// block follows one block device: dir is its sysfs directory, links resolved.
func (w *walker) block(dir string, depth int) []end {
	if depth > maxDepth {
		return nil
	}
	name := path.Base(dir)
	if w.n.Exists(dir + "/partition") {
		return prefix(name, w.block(path.Dir(dir), depth+1))
	}
	if slaves := names(w.n, dir+"/slaves"); len(slaves) > 0 {
		var out []end
		for _, s := range slaves {
			out = append(out, w.block(realPath(w.n, dir+"/slaves/"+s), depth+1)...)
		}
		return prefix(name, out)
	}
	if file, err := w.n.ReadString(dir + "/loop/backing_file"); err == nil && file != "" {
		file = strings.TrimSuffix(file, " (deleted)")
		return prefix(name+" in "+file, w.file(file, depth+1))
	}
	if strings.Contains(dir, "/nvme-subsystem/") { // native multipath: the controllers are the paths
		var out []end
		for _, c := range names(w.n, path.Dir(dir)) {
			if nvmeController.MatchString(c) {
				out = append(out, w.controller(realPath(w.n, path.Dir(dir)+"/"+c))...)
			}
		}
		return prefix(name, out)
	}
	if strings.Contains(dir, "/nvme-fabrics/") {
		return prefix(name, w.controller(path.Dir(dir)))
	}
	if s := iscsiSession.FindStringSubmatch(dir + "/"); s != nil {
		var out []end
		for _, f := range w.n.Glob("/sys/class/iscsi_connection/connection" + s[1] + ":*/address") {
			host, _ := w.n.ReadString(f)
			out = append(out, w.host(host)...)
		}
		return prefix(name+" over iSCSI", append(out, functions(dir)...))
	}
	return prefix(name, functions(dir))
}

// controller follows an NVMe controller: on PCI, or over the network.
func (w *walker) controller(dir string) []end {
	if f := functions(dir); len(f) > 0 {
		return prefix(path.Base(dir), f)
	}
	text, _ := w.n.ReadString(dir + "/address")
	if m := traddr.FindStringSubmatch(text); m != nil {
		return prefix(path.Base(dir)+" over "+m[1], w.host(m[1]))
	}
	return nil
}

// functions are the PCI functions on a sysfs path: the device's own and what
// it hangs on.
func functions(dir string) []end {
	var out []end
	for _, a := range slices.Backward(pciOn(dir)) {
		out = append(out, end{a, a})
	}
	return out
}

// host follows the route to a machine.
func (w *walker) host(addr string) []end {
	ip, err := netip.ParseAddr(strings.Trim(addr, "[]"))
	if err != nil {
		return w.defaultRoutes() // a name, or unknown: what it most likely takes
	}
	r, ok := bestRoute(w.routes, ip)
	if !ok {
		return nil
	}
	return w.netdev(r.dev, 0)
}

func (w *walker) defaultRoutes() []end {
	var out []end
	for _, r := range w.routes {
		if r.to.Bits() == 0 {
			out = append(out, w.netdev(r.dev, 0)...)
		}
	}
	return out
}

// netdev follows a network device: bonds, bridges, VLANs to what is below, a
// virtual function also to its physical one.
func (w *walker) netdev(name string, depth int) []end {
	if depth > maxDepth {
		return nil
	}
	dir := "/sys/class/net/" + name
	var out []end
	for _, e := range names(w.n, dir) {
		if lower, ok := strings.CutPrefix(e, "lower_"); ok {
			out = append(out, w.netdev(lower, depth+1)...)
		}
	}
	if !w.n.Exists(dir + "/device") {
		return prefix(name, out)
	}
	dev := realPath(w.n, dir+"/device")
	out = append(out, functions(dev)...)
	for up := dev; up != "/" && up != "."; up = path.Dir(up) {
		if pciName.MatchString(path.Base(up)) && w.n.Exists(up+"/physfn") {
			out = append(out, prefix("the physical function of "+path.Base(up), functions(realPath(w.n, up+"/physfn")))...)
		}
	}
	return prefix(name, out)
}

// prefix puts what was walked from before each way.
func prefix(from string, ends []end) []end {
	out := make([]end, len(ends))
	for i, e := range ends {
		out[i] = end{e.address, from + " on " + e.path}
	}
	return out
}

// peerOf is the machine in the source of a network file system.
func peerOf(m mount) string {
	src := strings.TrimPrefix(m.source, "//")
	if i := strings.Index(src, "]"); strings.HasPrefix(src, "[") && i > 0 {
		return src[:i+1]
	}
	host, _, _ := strings.Cut(src, "/")
	host, _, _ = strings.Cut(host, ":")
	return host
}
