package workflow

import (
	"slices"

	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/workflow/judge"
	"fitout/workflow/plan"
)

// keep adds the host family's own steps for staying.
func (b *builder) keep(c choice, d *plan.Driver) error {
	self, err := b.e.self()
	if err != nil {
		return err
	}
	family := host.Detect(b.e.Node).Using(self[0], b.e.Version)
	kept := host.Driver{
		Name: d.Name, Version: d.Version, Digest: d.Digest, Builds: map[string]host.Build{},
		Load: d.Modules, Parameters: d.Params, Aliases: map[string][]string{},
		Replaces: c.examined.Driver.Replaces, OnMissing: d.OnMissing, Devices: d.DeviceIDs,
		AllowUnsupported: slices.ContainsFunc(c.examined.Judgements, func(j judge.Judgement) bool { return slices.Contains(j.Risks, "unsupported-module") }),
	}
	for _, j := range c.examined.Judgements {
		if inv := c.examined.Inventories[j.Release]; inv != nil && usable(j.Verdict) {
			kept.Builds[j.Release] = hostBuild(j.Release, c.examined.Stores[j.Release], inv, j.Load, kept.Aliases)
		}
	}
	if c.persists() {
		b.upgradeBuilds(c, &kept)
	}
	where := d.PersistIn
	if where == "" {
		where = "auto" // the family knows its own best place
	}
	var acts []hostops.Action
	if c.persists() {
		acts, err = family.Persist(kept, where)
	} else {
		acts, err = family.AtBoot(kept)
	}
	if err != nil {
		return &Error{Exit: ExitForbidden, Code: "cannot-persist", Message: "this host cannot keep the driver that way: " + err.Error(), Err: err}
	}
	d.PersistIn = where
	for _, a := range acts {
		b.add(a.Kind(), a)
	}
	return nil
}

// upgradeBuilds adds the image's builds for kernels that are not on this node
// yet. Nobody can judge those here; the gate does when such a kernel comes.
func (b *builder) upgradeBuilds(c choice, kept *host.Driver) {
	for release, inv := range c.examined.Inventories {
		j := c.examined.judgement(release)
		for _, k := range inv.Kernels {
			if _, have := kept.Builds[k.Release]; have || slices.Contains(b.s.releases(), k.Release) || host.CompareReleases(k.Release, b.s.Running()) <= 0 {
				continue
			}
			if loads := sameModules(k, j.Load); loads != nil {
				kept.Builds[k.Release] = hostBuild(k.Release, c.examined.Stores[release], inv, loads, kept.Aliases)
			}
		}
	}
}

// sameModules is a load order of another kernel's builds of the same modules,
// nil when one is missing.
func sameModules(k image.Kernel, loads []judge.Load) []judge.Load {
	var out []judge.Load
	for _, l := range loads {
		if l.From != "image" {
			continue
		}
		i := slices.IndexFunc(k.Modules, func(m image.Module) bool { return m.Info.Name == l.Module })
		if i < 0 {
			return nil
		}
		out = append(out, judge.Load{Module: l.Module, From: "image", Path: k.Modules[i].Path})
	}
	return out
}
