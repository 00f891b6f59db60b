package workflow

import (
	"path"
	"slices"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/hostops/node"
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
	b.add("stage", stage)
	if len(fw) > 0 {
		b.add("firmware", &kmod.SetFirmwarePath{Dir: volatileFirmware})
	}
	leaving, err := b.swap(c)
	if err != nil {
		return err
	}
	d.Replaced = b.replaced(d.Name, leaving)
	b.add("load", load)
	b.bind(c, d, inv, j)
	return nil
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
// after looking at what lives on them.
func (b *builder) swap(c choice) ([]string, error) {
	loaded, err := kmod.Loaded(b.e.Node)
	if err != nil {
		return nil, nil // nothing is loaded where there is no table
	}
	var leaving []string
	names := append(slices.Clone(c.examined.Driver.Replaces), c.examined.Driver.Modules...)
	for _, name := range names {
		name = module.Normalize(name)
		if slices.ContainsFunc(loaded, func(m kmod.LoadedModule) bool { return m.Name == name }) &&
			!b.alreadyOurs(c, name) && !slices.Contains(leaving, name) {
			leaving = append(leaving, name)
		}
	}
	if len(leaving) == 0 {
		return nil, nil
	}
	if err := b.lifelines(leaving); err != nil {
		return nil, err
	}
	b.add("unload", &kmod.UnloadModules{Names: leaving})
	return leaving, nil
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

// alreadyOurs says that the loaded module is the very build of the image.
func (b *builder) alreadyOurs(c choice, name string) bool {
	j := c.examined.judgement(b.s.Running())
	return slices.ContainsFunc(j.Load, func(l judge.Load) bool { return l.Module == name && l.Loaded })
}

// lifelines looks at what hangs on the devices of modules that would go: what
// the node lives on blocks; the session's network and other users are risks.
func (b *builder) lifelines(names []string) error {
	lines, err := node.Lifelines(b.e.Node)
	if err != nil {
		return stopf(ExitForbidden, "lifeline", "", "cannot tell what the node lives on: %v", err)
	}
	for _, d := range b.s.Devices {
		if !slices.Contains(names, module.Normalize(d.Module)) && !slices.Contains(names, module.Normalize(d.Driver)) {
			continue
		}
		for _, l := range lines {
			if l.Address != d.Address {
				continue
			}
			f := finding.New("lifeline", d.Address, d.Driver, l.Path)
			if l.Kind == "session-network" || l.Kind == "default-route" || l.Kind == "registry" {
				f.Severity, f.Risk = finding.Risk, "session-network"
			}
			b.note([]finding.Finding{f}, true)
		}
		uses, err := node.Users(b.e.Node, d.Address, names)
		if err != nil {
			continue
		}
		for _, u := range uses {
			if u.Kind == "module" {
				continue // holders are unloaded first, or refuse by themselves
			}
			f := finding.New("in-use", d.Address, u.Text)
			b.note([]finding.Finding{f}, true)
		}
	}
	return nil
}

// bind adds the steps that give the devices to the driver and check them.
func (b *builder) bind(c choice, d *plan.Driver, inv *image.Inventory, j *judge.Judgement) {
	v := &actions.Verify{Driver: d.Name, Window: verifyWindow}
	byModule := map[string][]string{}
	for _, i := range c.devices {
		dev := b.s.Devices[i]
		m := driving(inv, j, dev.Modalias)
		if m == nil {
			continue
		}
		byModule[m.Info.Name] = append(byModule[m.Info.Name], dev.Address)
		v.Devices = append(v.Devices, actions.VerifyDevice{Address: dev.Address, Name: displayName(dev.Device),
			Module: m.Info.Name, Srcversion: m.Info.Srcversion, Version: m.Info.Version})
	}
	for name, addrs := range byModule {
		b.add("bind", &kmod.BindDevices{Addresses: addrs, Driver: name})
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

// maintenance adds what is known of the node's maintenance state to the plan.
func (b *builder) maintenance() {
	m := b.s.Maintenance
	switch m.State {
	case "in-maintenance", "not-a-cluster-node":
		return
	case "upgrading":
		b.note([]finding.Finding{finding.New("upgrade-running", m.Why)}, true)
		return
	case "cordoned":
		if m.Cluster != "harvester" {
			return
		}
	}
	f := finding.New("not-in-maintenance", m.Why)
	f.Evidence = m.Evidence
	b.note([]finding.Finding{f}, true)
}
