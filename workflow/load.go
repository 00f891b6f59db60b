package workflow

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/workflow/actions"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// load adds the steps that make the devices work on the running kernel: lay the
// files out, set the firmware path, take the old driver away, load, bind, check.
func (b *builder) load(c choice, d *plan.Driver) error {
	release := b.s.Running()
	j, inv := c.examined.judgement(release), c.examined.Inventories[release]
	if b.inUse(c, release) && !b.anew {
		d.Replaced, d.Pulled = b.replaced(d.Name, nil), b.pulled(d.Name, j.Load)
		b.bind(c, inv, j)
		return nil
	}
	store := c.examined.Stores[release]
	tree := path.Join(volatileTree, "lib/modules", release, "updates", d.Name)

	stage := &actions.Stage{Title: "lay out the modules of " + d.Name, Dir: volatile}
	load := &kmod.LoadModules{}
	for _, l := range j.Load {
		from := l.Path
		if l.From == "image" {
			to := path.Join(tree, l.Module+".ko")
			stage.Modules = append(stage.Modules, actions.File{From: path.Join(store, l.Path), To: to})
			from = to
		}
		load.Files = append(load.Files, kmod.LoadFile{Name: l.Module, Path: from, Params: kmod.JoinParams(d.Params[l.Module])})
	}
	fw := b.firmware(inv, j.Load)
	for _, f := range fw {
		stage.Other = append(stage.Other, actions.File{From: path.Join(store, f.Path), To: path.Join(volatileFirmware, f.Name)})
	}
	merged, err := b.mergeFirmware(stage, len(fw) > 0)
	if err != nil {
		return err
	}
	b.add("stage", stage)
	if len(fw) > 0 {
		b.add("firmware", &kmod.SetFirmwarePath{Dir: volatileFirmware, Merged: merged})
	}
	for _, i := range c.devices {
		if dev := b.s.Devices[i]; dev.State == finding.StatePassedThrough {
			b.users(dev, nil)
		}
	}
	leaving, err := b.swap(c)
	if err != nil {
		return err
	}
	d.Replaced = b.replaced(d.Name, leaving)
	d.Pulled = b.pulled(d.Name, j.Load)
	b.add("load", load)
	b.bind(c, inv, j)
	return nil
}

// mergeFirmware lays the files of the directory that the kernel looks into now
// out beside ours: it knows only one. It returns that directory, "" for none.
func (b *builder) mergeFirmware(stage *actions.Stage, wanted bool) (string, error) {
	n := b.e.Node
	now, err := kmod.FirmwarePath(n)
	if err != nil || !wanted || now == "" || now == volatileFirmware {
		return "", nil // without the parameter the step itself says why
	}
	err = filepath.WalkDir(n.Path(now), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(n.Path(now), p)
		if err != nil {
			return err
		}
		to := path.Join(volatileFirmware, rel)
		if !slices.ContainsFunc(stage.Other, func(f actions.File) bool { return f.To == to }) {
			stage.Other = append(stage.Other, actions.File{From: path.Join(now, rel), To: to})
		}
		return nil
	})
	if err != nil {
		return "", stopf(ExitForbidden, "firmware-missing", "look at /sys/module/firmware_class/parameters/path",
			"the kernel looks for firmware in %s, which cannot be read: %v", now, err)
	}
	return now, nil
}

// firmware lists the image's files that the modules to be loaded may ask for.
// All of them are laid out when a module does not say what it wants.
func (b *builder) firmware(inv *image.Inventory, loads []judge.Load) []image.File {
	var wanted []string
	silent := false
	for _, l := range loads {
		if m := findModule(inv, l.Path); m != nil && l.From == "image" {
			wanted = append(wanted, m.Info.Firmware...)
			silent = silent || len(m.Info.Firmware) == 0
		}
	}
	if silent {
		return inv.Firmware
	}
	var out []image.File
	for _, f := range inv.Firmware {
		if slices.ContainsFunc(wanted, func(w string) bool { ok, _ := path.Match(w, f.Name); return ok || w == f.Name }) {
			out = append(out, f)
		}
	}
	return out
}

// swap adds the step that takes loaded modules away which the driver replaces,
// or has in another build (anew: in whatever build), after looking at what lives on them.
func (b *builder) swap(c choice) ([]string, error) {
	loaded, err := kmod.Loaded(b.e.Node)
	if err != nil {
		return nil, nil // nothing is loaded where there is no table
	}
	var leaving []string
	names := append(slices.Clone(c.examined.Driver.Replaces), c.examined.Driver.Modules...)
	for _, l := range c.examined.judgement(b.s.Running()).Load {
		if l.From == "image" {
			names = append(names, l.Module) // an image given by hand has no entry that names them
		}
	}
	for _, name := range names {
		name = module.Normalize(name)
		if slices.ContainsFunc(loaded, func(m kmod.LoadedModule) bool { return m.Name == name }) &&
			(b.anew || !b.alreadyOurs(c, name)) && !slices.Contains(leaving, name) {
			leaving = append(leaving, name)
		}
	}
	if len(leaving) == 0 {
		return nil, nil
	}
	if err := b.lifelines(leaving); err != nil {
		return nil, err
	}
	b.unload(leaving)
	return leaving, nil
}

// unload adds the step that takes modules away; undone, it finds again those
// that fitout itself loaded.
func (b *builder) unload(names []string) {
	b.add("unload", &kmod.UnloadModules{Names: names, Trees: []string{volatileTree, path.Join(b.s.Host.StateDir, "tree")}})
}

// replaced are the modules that come back when the driver is removed: those that
// were there before fitout first loaded it, not an older build of its own.
func (b *builder) replaced(driver string, leaving []string) []string {
	records, _ := run.Installed(b.e.Node, b.s.Host.StateDir)
	for _, r := range records {
		if r.Driver.Name == driver {
			return r.Driver.Replaced
		}
	}
	return leaving
}

// pulled are the host's modules that loading brings in with the driver, so that
// they leave with it.
func (b *builder) pulled(driver string, loads []judge.Load) []string {
	records, _ := run.Installed(b.e.Node, b.s.Host.StateDir)
	for _, r := range records {
		if r.Driver.Name == driver {
			return r.Driver.Pulled
		}
	}
	loaded, err := kmod.Loaded(b.e.Node)
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range loads {
		if l.From == "host" && !slices.ContainsFunc(loaded, func(m kmod.LoadedModule) bool { return m.Name == l.Module }) {
			out = append(out, l.Module)
		}
	}
	return out
}

// alreadyOurs says that the loaded module is the very build of the image.
func (b *builder) alreadyOurs(c choice, name string) bool {
	j := c.examined.judgement(b.s.Running())
	return slices.ContainsFunc(j.Load, func(l judge.Load) bool { return l.Module == name && l.Loaded })
}

// bind adds the steps that give the devices to the driver and check them.
func (b *builder) bind(c choice, inv *image.Inventory, j *judge.Judgement) {
	byModule := map[string][]string{}
	for _, i := range c.devices {
		dev := b.s.Devices[i]
		if m := driving(inv, j, dev.Modalias); m != nil {
			byModule[m.Info.Name] = append(byModule[m.Info.Name], dev.Address)
		}
	}
	for name, addrs := range byModule {
		b.add("bind", &kmod.BindDevices{Addresses: addrs, Driver: name})
	}
	b.check(c, b.s.Running())
}

// check adds the step that measures whether the devices are driven by the
// image's build for a kernel.
func (b *builder) check(c choice, release string) {
	j, inv := c.examined.judgement(release), c.examined.Inventories[release]
	v := &actions.Verify{Driver: c.examined.Driver.Name, Window: verifyWindow}
	for _, i := range c.devices {
		dev := b.s.Devices[i]
		if m := driving(inv, j, dev.Modalias); m != nil {
			v.Devices = append(v.Devices, actions.VerifyDevice{Address: dev.Address, Name: displayName(dev.Device),
				Module: m.Info.Name, Srcversion: m.Info.Srcversion, BuildID: m.Info.BuildID, Version: m.Info.Version})
		}
	}
	if len(v.Devices) > 0 {
		b.add("verify", v)
	}
}

// driving is the image module, among those to be loaded, whose aliases have a
// device; the last one to be loaded when none says so (a driver that names no
// device of its own).
func driving(inv *image.Inventory, j *judge.Judgement, modalias string) *image.Module {
	var last *image.Module
	for _, l := range j.Load {
		if l.From != "image" {
			continue
		}
		m := findModule(inv, l.Path)
		if m == nil {
			continue
		}
		last = m
		for _, a := range m.Info.Aliases {
			if module.MatchAlias(a, modalias) {
				return m
			}
		}
	}
	return last
}

// hostBuild is a driver's files for one kernel, as the host family keeps them.
func hostBuild(release, store string, inv *image.Inventory, loads []judge.Load, aliases map[string][]string) host.Build {
	b := host.Build{Release: release, Dir: store}
	for _, l := range loads {
		m := findModule(inv, l.Path)
		if l.From != "image" || m == nil {
			continue
		}
		b.Modules = append(b.Modules, l.Path)
		for _, a := range m.Info.Aliases {
			if !slices.Contains(aliases[l.Module], a) {
				aliases[l.Module] = append(aliases[l.Module], a)
			}
		}
	}
	for _, f := range inv.Firmware {
		b.Firmware = append(b.Firmware, f.Name)
		if b.FirmwareDir == "" {
			b.FirmwareDir = path.Join(store, f.Path[:len(f.Path)-len(f.Name)])
		}
	}
	return b
}
