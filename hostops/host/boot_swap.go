package host

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
)

// swapAtBoot takes a driver of the OS away from the devices that a kept driver
// is for, and loads that: an in-tree module in the initramfs wins the race at
// boot whatever is configured on the real root. It is done only where nothing
// rests on any device of that module: no disk, no interface that is up.
// Otherwise the error says what does.
func swapAtBoot(ctx context.Context, n *hostops.Node, state string, d Driver, holder, rel string) error {
	devices := boundTo(n, holder)
	for _, dev := range devices {
		if why := restsOn(n, dev); why != "" {
			return fmt.Errorf("%s is bound to the OS's own %s, which came first (from the initramfs), and %s", path.Base(dev), holder, why)
		}
	}
	if err := unload(ctx, n, holder); err != nil {
		return fmt.Errorf("the OS's own %s came first (from the initramfs) and cannot be unloaded: %w", holder, err)
	}
	err := loadKept(ctx, n, state, d, rel)
	others := false
	for _, dev := range devices {
		others = others || !n.Exists(dev+"/driver")
	}
	if (err != nil || others) && !n.Simulated() {
		// What the kept driver does not take goes back to the OS's.
		_, _ = n.Exec.Run(ctx, "modprobe", "--ignore-install", holder)
	}
	return err
}

// boundTo lists the functions whose driver belongs to a module.
func boundTo(n *hostops.Node, mod string) []string {
	var out []string
	for _, dev := range n.Glob("/sys/bus/pci/devices/*") {
		if holderOf(n, dev) == module.Normalize(mod) {
			out = append(out, dev)
		}
	}
	return out
}

// holderOf is the module, or the built-in driver, that a function is bound to.
func holderOf(n *hostops.Node, dev string) string {
	for _, link := range []string{"/driver/module", "/driver"} {
		if target, err := n.Readlink(dev + link); err == nil {
			return module.Normalize(path.Base(target))
		}
	}
	return ""
}

// restsOn says what would break if a device lost its driver now, "" for
// nothing.
func restsOn(n *hostops.Node, dev string) string {
	alias, _ := n.ReadString(dev + "/modalias")
	if strings.Contains(alias, "bc01") {
		return "it is a storage controller"
	}
	for _, net := range n.Glob(dev + "/net/*") {
		flags, _ := n.ReadString(net + "/flags")
		// IFF_UP is bit 0 (netdevice(7)).
		if v, err := strconv.ParseUint(strings.TrimPrefix(flags, "0x"), 16, 64); err != nil || v&1 != 0 {
			return "its interface " + path.Base(net) + " is up"
		}
	}
	return ""
}

// unload takes a module out, by the kernel itself: modprobe -r would run the
// driver's own remove line.
func unload(_ context.Context, n *hostops.Node, mod string) error {
	return n.Kernel.UnloadModule(module.Normalize(mod))
}

// otherBuild says that the loaded module of a kept driver's own name is not the
// one in the tree, by its srcversion, else by its build id; "" when it is, or
// when that cannot be told.
func otherBuild(n *hostops.Node, state string, d Driver, rel string) string {
	files, err := ownFiles(n, path.Join(treeDir(state), "lib/modules", rel, "updates", d.Name))
	if err != nil {
		return ""
	}
	own := map[string]bool{}
	for _, m := range ownModules(d) {
		own[module.Normalize(m)] = true
	}
	for _, f := range files {
		name := module.NameOf(f.Path)
		if own[name] && module.IsModuleFile(f.Path) && differs(n, name, f.Path) {
			return name
		}
	}
	return ""
}

// differs compares a loaded module with a file.
func differs(n *hostops.Node, name, p string) bool {
	dir := "/sys/module/" + name
	if !n.Exists(dir) {
		return false
	}
	f, err := n.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := module.Read(f, path.Base(p), module.Limits{Only: module.Modinfo | module.BuildIDs})
	if err != nil {
		return false
	}
	if loaded, err := n.ReadString(dir + "/srcversion"); err == nil && loaded != "" && info.Srcversion != "" {
		return loaded != info.Srcversion
	}
	id := kmod.BuildID(n, name)
	return id != "" && info.BuildID != "" && id != info.BuildID
}
