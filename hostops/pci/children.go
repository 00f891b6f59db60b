package pci

import (
	"path"
	"strings"

	"fitout/hostops"
)

// attachChildren fills in what drivers made of the functions. Each entry of a
// class directory is a link into the device tree, and the last PCI address on
// its way is the function it belongs to.
func attachChildren(n *hostops.Node, index map[string]*Device) {
	for _, c := range []struct {
		dir string
		// parent is the directory every wanted entry lies in directly; it
		// leaves out screens' connectors. "": any.
		parent string
		list   func(*Device) *[]string
	}{
		{"/sys/class/net", "net", func(d *Device) *[]string { return &d.NetDevs }},
		{"/sys/block", "", func(d *Device) *[]string { return &d.BlockDevs }},
		{"/sys/class/drm", "drm", func(d *Device) *[]string { return &d.DRMNodes }},
	} {
		entries, err := n.ReadDir(c.dir)
		if err != nil {
			continue // a kernel without that class has no such directory
		}
		for _, e := range entries {
			target, err := n.Readlink(path.Join(c.dir, e.Name()))
			if err != nil || c.parent != "" && path.Base(path.Dir(target)) != c.parent {
				continue
			}
			for _, address := range owners(n, c.dir, target) {
				if d := index[address]; d != nil {
					l := c.list(d)
					*l = append(*l, e.Name())
				}
			}
		}
	}
}

// owners are the functions a class entry belongs to: one, or for a disk that
// NVMe multipath made, those of all its controllers.
func owners(n *hostops.Node, dir, target string) []string {
	if a := lastAddress(target); a != "" {
		return []string{a}
	}
	if !strings.Contains(target, "/nvme-subsystem/") {
		return nil
	}
	subsystem := path.Dir(path.Join(dir, target))
	entries, err := n.ReadDir(subsystem)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		controller, err := n.Readlink(path.Join(subsystem, e.Name()))
		if err == nil && lastAddress(controller) != "" {
			all = append(all, lastAddress(controller))
		}
	}
	return all
}

// lastAddress is the last element of p that is a PCI address, "" for none.
func lastAddress(p string) string {
	for p != "" {
		i := strings.LastIndexByte(p, '/')
		if IsAddress(p[i+1:]) {
			return p[i+1:]
		}
		p = p[:max(i, 0)]
	}
	return ""
}
