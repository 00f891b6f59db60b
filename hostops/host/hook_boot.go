package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

// BootResult is what the boot hook found, kept as <state>/boot.json.
type BootResult struct {
	Kernel  string       `json:"kernel"`
	BootID  string       `json:"bootId"`
	At      time.Time    `json:"at"`
	Drivers []BootDriver `json:"drivers"`
	// Restored are files of fitout's that were gone and were put back (a
	// rollback of /etc takes the gate with it).
	Restored []string `json:"restored,omitempty"`
	// Damaged says what of the state could not be read.
	Damaged string `json:"damaged,omitempty"`
}

// BootDriver is one kept driver at this boot.
type BootDriver struct {
	Name string `json:"name"`
	// State is "loaded", "no-device", "no-build", "in-tree" (a driver of the
	// OS has the device instead) or "failed".
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Bad says that the driver was kept and is not in use.
func (d BootDriver) Bad() bool {
	return d.State == "no-build" || d.State == "failed" || d.State == "in-tree"
}

func bootPath(state string) string { return path.Join(state, "boot.json") }

// ReadBoot reads the boot hook's last result.
func ReadBoot(n *hostops.Node, state string) (*BootResult, error) {
	b, err := n.ReadFile(bootPath(state))
	if err != nil {
		return nil, err
	}
	var r BootResult
	return &r, json.Unmarshal(b, &r)
}

// HookBoot runs at every boot: it puts back what a rollback took, copies the
// modprobe.d files where /etc is not kept, sets the firmware path, loads what
// udev cannot load by itself, and compares what is loaded with what is kept.
// What was being unpacked when the node went down is swept away. An OS upgrade
// that was done past the gate is noticed here. An error means
// that something kept is not in use; the boot goes on.
func HookBoot(ctx context.Context, n *hostops.Node, l Layout) (*BootResult, error) {
	r := &BootResult{Kernel: n.Kernel.Release(), At: n.Now().UTC()}
	r.BootID, _ = n.ReadString("/proc/sys/kernel/random/boot_id")
	if last, err := ReadBoot(n, l.State); err != nil || last.BootID != r.BootID {
		dropWork(n, l.State)
	}
	kept, err := soundKept(n, l.State)
	var bad []string
	if err != nil {
		// What can be read is loaded all the same.
		r.Damaged = err.Error()
		bad = append(bad, r.Damaged)
	}
	r.Restored = putBack(n, kept)
	if len(r.Restored) > 0 {
		shout(ctx, n, "fitout: restored after a rollback: "+strings.Join(r.Restored, " "))
		if err := systemctl(ctx, n, "daemon-reload"); err != nil {
			n.Log.Warn("systemd did not read its units again", "err", err)
		}
		startRestored(ctx, n, r.Restored)
	}
	if l.ModprobeD == "" {
		copyConf(n, l, kept)
	}
	if err := setFirmwarePath(n, l.State); err != nil {
		shout(ctx, n, "fitout: "+err.Error())
	}
	for _, k := range kept {
		d := bootDriver(ctx, n, l, kept, k)
		r.Drivers = append(r.Drivers, d)
		if d.Bad() {
			bad = append(bad, fmt.Sprintf("driver %s on kernel %s: %s", d.Name, r.Kernel, d.Detail))
		}
	}
	if err := writeRecord(n, bootPath(l.State), r); err != nil {
		bad = append(bad, err.Error())
	}
	forgetBlocked(n, l)
	ClearBlocked(n, l.State)
	holdAtBoot(ctx, n, l)
	if len(bad) > 0 {
		text := strings.Join(bad, "; ")
		shout(ctx, n, "fitout: "+text)
		return r, fmt.Errorf("%s", text)
	}
	return r, nil
}

// putBack writes the configuration files that are gone altogether. One that
// is there with other content is somebody's decision.
func putBack(n *hostops.Node, kept []Kept) []string {
	var out []string
	for _, k := range kept {
		for _, t := range k.Texts {
			if t.own().there(n) {
				continue
			}
			if err := t.write(n); err != nil {
				n.Log.Warn("could not be put back", "file", t.Path, "err", err)
				continue
			}
			out = append(out, t.Path)
		}
	}
	return out
}

// startRestored starts the watches that were put back: this boot's targets were
// reckoned without them.
func startRestored(ctx context.Context, n *hostops.Node, restored []string) {
	for _, p := range restored {
		if unit := path.Base(p); strings.HasSuffix(unit, ".path") && !strings.HasSuffix(path.Dir(p), ".wants") {
			if err := systemctl(ctx, n, "start", "--no-block", unit); err != nil {
				n.Log.Warn("a watch does not run", "unit", unit, "err", err)
			}
		}
	}
}

// copyConf puts the modprobe.d files where modprobe looks on a host whose /etc
// is made anew at every boot.
func copyConf(n *hostops.Node, l Layout, kept []Kept) {
	for _, k := range kept {
		b, err := n.ReadFile(l.confPath(k.Driver.Name))
		if err != nil {
			n.Log.Warn("no modprobe.d file", "driver", k.Driver.Name, "err", err)
			continue
		}
		if err := n.WriteFile(bootConf(k.Driver.Name), b, 0o644); err != nil {
			n.Log.Warn("modprobe.d file not copied", "driver", k.Driver.Name, "err", err)
		}
	}
}

// bootDriver loads one driver if it is needed and says what came of it.
func bootDriver(ctx context.Context, n *hostops.Node, l Layout, records []Kept, k Kept) BootDriver {
	rel := n.Kernel.Release()
	out := BootDriver{Name: k.Driver.Name}
	if err := covered(n, l.State, records, k.Driver.Name, k.Driver.Load, rel); err != nil {
		// An index made before this kernel was installed lacks the kernel's own
		// modules, or is not there at all: make it now and look again.
		_ = Reindex(ctx, n, l.State, rel, "")
		if err = covered(n, l.State, records, k.Driver.Name, k.Driver.Load, rel); err != nil {
			out.State, out.Detail = "no-build", err.Error()
			return out
		}
	} else if !linksKernel(n, l.State, rel) {
		_ = Reindex(ctx, n, l.State, rel, "")
	}
	devices, wrong := claimed(n, k.Driver)
	if devices == 0 && forDevices(k.Driver) {
		out.State = "no-device"
		return out
	}
	for _, holder := range wrongModules(n, l.State, k.Driver, rel, wrong) {
		if err := swapAtBoot(ctx, n, l.State, k.Driver, holder, rel); err != nil {
			out.State, out.Detail = "in-tree", err.Error()
			return out
		}
		out.Detail = "taken over from " + holder
	}
	if err := loadKept(ctx, n, l.State, k.Driver, rel); err != nil {
		out.State, out.Detail = "failed", err.Error()
		return out
	}
	if _, wrong = claimed(n, k.Driver); len(wrong) > 0 {
		out.State, out.Detail = "in-tree", strings.Join(wrong, ", ")
		return out
	}
	out.State = "loaded"
	return out
}

// wrongModules are the OS's modules that hold the driver's devices and that it
// was told to replace: of another name, or of its own name in another build.
func wrongModules(n *hostops.Node, state string, d Driver, rel string, wrong []string) []string {
	var out []string
	for _, w := range wrong {
		_, holder, _ := strings.Cut(w, " is bound to ")
		for _, r := range d.Replaces {
			if module.Normalize(r) == module.Normalize(holder) {
				out = append(out, module.Normalize(holder))
			}
		}
	}
	if m := otherBuild(n, state, d, rel); m != "" {
		out = append(out, module.Normalize(m))
	}
	return unique(out)
}

// linksKernel says that the index of a release has the kernel's own modules.
func linksKernel(n *hostops.Node, state, rel string) bool {
	b, err := n.ReadFile(path.Join(treeDir(state), "lib/modules", rel, "modules.dep"))
	return err == nil && (strings.Contains("\n"+string(b), "\nkernel/") || !n.Exists(moduleDir(n, "/", rel)+"/kernel"))
}

// forDevices says that a driver is for devices that this node is searched for;
// one of another kind ("rtnl-link-dummy") is loaded in any case.
func forDevices(d Driver) bool {
	for _, list := range d.Aliases {
		if slices.ContainsFunc(list, func(alias string) bool { return strings.HasPrefix(alias, "pci:") }) {
			return true
		}
	}
	return false
}

// claimed counts the devices that the driver's aliases have, and lists those
// that another driver holds. Devices held by vfio-pci are somebody's choice.
func claimed(n *hostops.Node, d Driver) (count int, wrong []string) {
	own := map[string]bool{"vfio_pci": true}
	for _, m := range d.Load {
		own[module.Normalize(m)] = true
	}
	for _, dev := range n.Glob("/sys/bus/pci/devices/*") {
		alias, err := n.ReadString(dev + "/modalias")
		if err != nil || !matchesAny(d.Aliases, alias) {
			continue
		}
		count++
		if holder := holderOf(n, dev); holder != "" && !own[holder] {
			wrong = append(wrong, path.Base(dev)+" is bound to "+holder)
		}
	}
	return count, wrong
}

func matchesAny(aliases map[string][]string, modalias string) bool {
	for _, list := range aliases {
		for _, p := range list {
			if module.MatchAlias(p, modalias) {
				return true
			}
		}
	}
	return false
}

// loadKept loads a driver's modules in order, by the road modprobe takes at
// coldplug, and looks whether the kernel has them.
func loadKept(ctx context.Context, n *hostops.Node, state string, d Driver, rel string) error {
	for _, m := range ownModules(d) {
		if n.Exists("/sys/module/" + module.Normalize(m) + "/initstate") {
			continue
		}
		said, err := loadModule(ctx, n, state, d, m, rel)
		if !n.Exists("/sys/module/" + module.Normalize(m)) {
			return fmt.Errorf("module %s is not in the kernel after modprobe (%w): %s", m, errOr(err, "it exited 0"), strings.TrimSpace(said))
		}
	}
	return nil
}

// loadedAll says that the kernel has every module that a driver brings.
func loadedAll(n *hostops.Node, d Driver) bool {
	for _, m := range ownModules(d) {
		if !n.Exists("/sys/module/" + module.Normalize(m)) {
			return false
		}
	}
	return true
}

// loadModule asks modprobe; on a simulated node the file is handed to the
// simulated kernel.
func loadModule(ctx context.Context, n *hostops.Node, state string, d Driver, m, rel string) (string, error) {
	if !n.Simulated() {
		out, err := n.Exec.Run(ctx, "modprobe", m)
		return string(out), err
	}
	dir := path.Join(treeDir(state), "lib/modules", rel, "updates", d.Name)
	files, err := ownFiles(n, dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if module.IsModuleFile(f.Path) && module.NameOf(f.Path) == module.Normalize(m) {
			file, err := n.Open(f.Path)
			if err != nil {
				return "", err
			}
			defer file.Close()
			return "", n.Kernel.LoadModule(file, strings.Join(d.Parameters[m], " "))
		}
	}
	return "", fmt.Errorf("no file of module %s in %s", m, dir)
}
