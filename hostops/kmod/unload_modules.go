package kmod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

// UnloadModules takes modules out of the kernel, users first. A module that is
// used by one which is not on the list is refused and the user named; nothing
// else is ever taken along. Undo loads again what was there, with its
// parameters, and waits for the devices to be bound as before.
type UnloadModules struct {
	Names []string
	// Trees are node paths beside the kernel's own tree that modules may have
	// been loaded from ("/run/fitout/tree"): Undo looks there for the very build.
	Trees []string
	// Limit is how long one module's exit code may take, 0: 2 minutes.
	Limit time.Duration
	// Removed is what Prepare found loaded, in the order of unloading.
	Removed  []RemovedModule
	Prepared bool
}

// RemovedModule is what has to be known to bring a module back.
type RemovedModule struct {
	Name, Srcversion, BuildID string
	// Path is the node path of its file in the kernel's own tree, "" when
	// there is none; Needs are the modules it depends on, first to load first.
	Path  string
	Needs []string
	// Params holds "NAME=VALUE" items that sysfs shows.
	Params []string
	// Devices were bound to its drivers.
	Devices []Binding
}

// Binding is a device and its driver.
type Binding struct {
	Address, Driver string
	// Override is driver_override, "" for none.
	Override string
}

// Kind implements hostops.Action.
func (*UnloadModules) Kind() string { return "unload-modules" }

// Describe implements hostops.Action.
func (a *UnloadModules) Describe() hostops.Description {
	names := a.Names
	if a.Prepared {
		names = nil
		for _, m := range a.Removed {
			names = append(names, m.Name)
		}
	}
	d := hostops.Description{
		Title: "unload " + strings.Join(names, ", "), Estimate: 2 * time.Second,
		// Undoing loads each again and binds its devices.
		Limit: time.Duration(max(1, len(names)))*(unloadLimit+2*a.limit()) + time.Minute,
	}
	for _, name := range names {
		d.Text = append(d.Text, fmt.Sprintf("delete_module(%q, O_NONBLOCK)", name))
	}
	for _, name := range slices.Backward(names) {
		d.Undo = append(d.Undo, "load "+name+" again, with what it depends on and the parameters it had, and bind its devices")
	}
	return d
}

func (a *UnloadModules) limit() time.Duration { return cmp.Or(a.Limit, loadLimit) }

// Prepare implements hostops.Action.
func (a *UnloadModules) Prepare(_ context.Context, n *hostops.Node) error {
	mods, err := Loaded(n)
	if err != nil {
		return err
	}
	order, err := unloadOrder(mods, a.Names)
	if err != nil {
		return err
	}
	release := n.Kernel.Release()
	tables := OpenTables(n, path.Join("/lib/modules", release))
	a.Removed = nil
	for _, m := range order {
		r := RemovedModule{Name: m.Name, Srcversion: m.Srcversion, BuildID: m.BuildID, Params: shownParams(n, m.Name), Devices: boundTo(n, m.Name)}
		r.Path, _ = tables.Path(m.Name)
		r.Needs = tables.Depends(m.Name)
		slices.Reverse(r.Needs)
		a.Removed = append(a.Removed, r)
	}
	a.Prepared = true
	return nil
}

// unloadOrder sorts the loaded ones among names so that users come before what
// they use.
func unloadOrder(mods []LoadedModule, names []string) ([]LoadedModule, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[module.Normalize(name)] = true
	}
	byName := map[string]LoadedModule{}
	for _, m := range mods {
		if wanted[m.Name] {
			byName[m.Name] = m
		}
	}
	var order []LoadedModule
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		m, ok := byName[name]
		if seen[name] || !ok {
			return nil
		}
		seen[name] = true
		var foreign []string
		for _, h := range m.Holders {
			if !wanted[h] {
				foreign = append(foreign, h)
			} else if err := visit(h); err != nil {
				return err
			}
		}
		if len(foreign) > 0 {
			return &InUse{Usage: Usage{Module: m.Name, RefCount: m.RefCount}, Foreign: foreign}
		}
		order = append(order, m)
		return nil
	}
	for _, name := range names {
		if err := visit(module.Normalize(name)); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// shownParams reads the parameters that sysfs shows. Values that only mean
// "not set" are left out.
func shownParams(n *hostops.Node, name string) []string {
	dir := "/sys/module/" + name + "/parameters"
	entries, _ := n.ReadDir(dir)
	var params []string
	for _, e := range entries {
		v, err := n.ReadString(path.Join(dir, e.Name()))
		if err != nil || v == "" || v == "(null)" {
			continue
		}
		if p := e.Name() + "=" + v; CheckParam(p) == nil {
			params = append(params, p)
		}
	}
	return params
}

// boundTo lists the PCI functions bound to a driver of the module.
func boundTo(n *hostops.Node, name string) []Binding {
	var found []Binding
	for _, drv := range driversOf(n, name) {
		entries, _ := n.ReadDir("/sys/bus/pci/drivers/" + drv)
		for _, e := range entries {
			if n.Exists("/sys/bus/pci/devices/" + e.Name() + "/driver") {
				found = append(found, Binding{Address: e.Name(), Driver: drv})
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	// A recorded node may lack the links from the driver to its devices.
	drivers := driversOf(n, name)
	for _, dev := range n.Glob("/sys/bus/pci/devices/*") {
		if drv := driverOf(n, path.Base(dev)); drv != "" && slices.Contains(drivers, drv) {
			found = append(found, Binding{Address: path.Base(dev), Driver: drv})
		}
	}
	return found
}

// Do implements hostops.Action.
func (a *UnloadModules) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	for i, r := range a.Removed {
		out.Progress(int64(i), int64(len(a.Removed)))
		m, err := loaded(n, r.Name)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if err := unload(ctx, n, r.Name, a.limit()); err != nil {
			return err
		}
		out.Line(r.Name + " is unloaded")
	}
	return nil
}

// Done implements hostops.Action.
func (a *UnloadModules) Done(_ context.Context, n *hostops.Node) (bool, error) {
	mods, err := Loaded(n)
	if err != nil {
		return false, err
	}
	for _, name := range a.Names {
		if slices.ContainsFunc(mods, func(m LoadedModule) bool { return m.Name == module.Normalize(name) }) {
			return false, nil
		}
	}
	return true, nil
}

// Undo implements hostops.Action.
func (a *UnloadModules) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	var failed []error
	for _, r := range slices.Backward(a.Removed) {
		err := r.restore(ctx, n, a.Trees, out)
		if isStuck(err) {
			return err
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	for _, r := range a.Removed {
		for _, b := range r.Devices {
			err := rebind(ctx, n, a.limit(), b)
			if isStuck(err) {
				return err
			}
			if err != nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// file is where the module is loaded from again, and what it needs: the very
// build that was loaded, wherever it lies; else the kernel's own.
func (r *RemovedModule) file(n *hostops.Node, trees []string) (string, []string) {
	updates := path.Join("lib/modules", n.Kernel.Release(), "updates/*/*.ko*")
	var candidates []string
	for _, t := range trees {
		candidates = append(candidates, n.Glob(path.Join(t, updates))...)
	}
	was := &LoadedModule{Name: r.Name, Srcversion: r.Srcversion, BuildID: r.BuildID}
	for _, c := range candidates {
		if base, _, _ := strings.Cut(path.Base(c), ".ko"); module.Normalize(base) != r.Name {
			continue
		}
		info, err := module.ReadFile(n.Path(c), module.Limits{Only: module.Modinfo | module.BuildIDs})
		if err == nil && (&LoadFile{Name: info.Name, Srcversion: info.Srcversion, BuildID: info.BuildID}).is(was) {
			return c, info.Depends
		}
	}
	return r.Path, r.Needs
}

func (r *RemovedModule) restore(ctx context.Context, n *hostops.Node, trees []string, out hostops.Sink) error {
	m, err := loaded(n, r.Name)
	if err != nil {
		return err
	}
	if m != nil {
		return nil
	}
	from, needs := r.file(n, trees)
	if from == "" {
		return fmt.Errorf("loading %s again: the running kernel's own tree has no such module; load it from where it came", r.Name)
	}
	tables := OpenTables(n, path.Join("/lib/modules", n.Kernel.Release()))
	var files []LoadFile
	for _, need := range needs {
		deps := tables.Depends(need) // the last is to be loaded first
		slices.Reverse(deps)
		for _, dep := range append(deps, need) {
			if file, ok := tables.Path(dep); ok && !slices.ContainsFunc(files, func(f LoadFile) bool { return f.Name == dep }) {
				files = append(files, LoadFile{Name: dep, Path: file})
			}
		}
	}
	load := &LoadModules{Files: append(files, LoadFile{Name: r.Name, Path: from, Params: JoinParams(r.Params)})}
	err = load.Do(ctx, n, out)
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Errno == "EINVAL" && len(r.Params) > 0 {
		// What sysfs shows of a parameter is not always what it takes.
		out.Line(fmt.Sprintf("%s did not take back its parameters (%s): loading it without", r.Name, refusal.Cause))
		load.Files[len(load.Files)-1].Params = ""
		err = load.Do(ctx, n, out)
	}
	if err != nil {
		return fmt.Errorf("loading %s again: %w", r.Name, err)
	}
	if m, _ := loaded(n, r.Name); m != nil && r.Srcversion != "" && m.Srcversion != "" && m.Srcversion != r.Srcversion {
		out.Line(fmt.Sprintf("warning: %s is back, another build than before (srcversion %s, was %s)", r.Name, m.Srcversion, r.Srcversion))
	}
	return nil
}
