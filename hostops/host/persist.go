package host

import (
	"fmt"
	"os"
	"path"
	"slices"
	"sort"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
)

// program is what hooks call.
type program struct{ source, version string }

// Using implements Family.
func (h *Host) Using(source, version string) Family {
	c := *h
	c.program = program{source, version}
	return &c
}

// Persist implements Family.
func (h *Host) Persist(d Driver, where string) ([]hostops.Action, error) {
	if where == "" || where == "auto" {
		where = "side-tree"
		// A hook puts it into the image at the price of the upgrade that comes
		// anyway; a layered package has a price of its own, which is asked for.
		if h.facts.OSImage && h.layout.OEM != "" {
			where = "os-image"
		}
	}
	return h.keep(d, "persist", where)
}

// AtBoot implements Family.
func (h *Host) AtBoot(d Driver) ([]hostops.Action, error) {
	return h.keep(d, "at-boot", "side-tree")
}

// allowed says whether this host can keep a driver there.
func (h *Host) allowed(what, where string) error {
	f := h.facts
	no := func(why string) error { return &Unsupported{f.Family, what + " (" + where + ")", why} }
	switch {
	case f.Refusal != "":
		return no(f.Refusal)
	case where == "os-image" && !f.OSImage:
		why := h.noImage
		if why == "" {
			why = "this family has no hook that puts a driver into the OS image yet"
		}
		return no(why + "; use side-tree")
	case where != "os-image" && where != "side-tree":
		return no("the places are auto, side-tree and os-image")
	case !f.SideTree:
		return no("nothing fitout could write is kept over a reboot: " + f.Evidence[len(f.Evidence)-1])
	}
	return nil
}

// keep composes the actions that both persist and at-boot are made of.
func (h *Host) keep(d Driver, when, where string) ([]hostops.Action, error) {
	if err := checkName(d.Name); err != nil {
		return nil, err
	}
	if err := h.allowed(when, where); err != nil {
		return nil, err
	}
	if len(d.Builds) == 0 || len(ownModules(d)) == 0 {
		return nil, fmt.Errorf("driver %s has no build to keep: none of its builds brings a module of %v", d.Name, d.Load)
	}
	gate := when == "persist"
	info, err := h.readBuilds(d)
	if err != nil {
		return nil, err
	}
	actions := []hostops.Action{h.installBinary()}
	actions = append(actions, h.treeActions(d)...)
	firmware := firmwareFiles(d)
	info.firmware = len(firmware) > 0
	if info.firmware {
		actions = append(actions, &PutFirmware{State: h.layout.State, Driver: d.Name, Files: firmware})
	}
	conf := TextFile{Path: h.layout.confPath(d.Name), Content: confText(h.layout, d, info), Mode: 0o644}
	texts := []TextFile{conf}
	actions = append(actions, &WriteFiles{Title: "let modprobe and udev find " + d.Name, Files: texts, Dirs: missingDirs(h.n, texts)})
	shared := unitTexts(h.layout)
	if len(shared) > 0 {
		actions = append(actions, &WriteFiles{Title: "load kept drivers at every boot", Files: shared, Reload: true, Dirs: missingDirs(h.n, shared)})
	}
	if gateFiles := gateTexts(h.n, h.layout); gate && len(gateFiles) > 0 {
		w := &WriteFiles{Title: "stop an upgrade that would lose " + d.Name, Files: gateFiles, Dirs: missingDirs(h.n, gateFiles)}
		if h.layout.Gate != "kernel-hooks" {
			w.Reload, w.Start = true, []string{"fitout-staged.path"}
		}
		actions = append(actions, w)
		shared = append(shared, gateFiles...)
	}
	texts = append(texts, shared...)
	hooks, err := h.hookActions(d, where, gate)
	if err != nil {
		return nil, err
	}
	for _, a := range hooks {
		actions = append(actions, a)
		texts = append(texts, a.text())
	}
	layer, layerTexts := h.layerActions(d, where)
	record := h.record(d, info, when, where, append(texts, layerTexts...))
	return append(append(actions, layer...), record), nil
}

// layerActions put a driver into the image as a package, or take the package
// out of it that an earlier choice put there.
func (h *Host) layerActions(d Driver, where string) ([]hostops.Action, []TextFile) {
	l := h.layout
	if where == "os-image" && l.OEM == "" {
		texts := []TextFile{repoText(l.State, d.Name)}
		return []hostops.Action{
			&WriteFiles{Title: "let rpm-ostree find the packages of " + d.Name, Files: texts, Dirs: missingDirs(h.n, texts)},
			&LayerPackage{State: l.State, Driver: d.Name, Version: d.Version, Builds: layerBuilds(h.n, d, l.State)},
		}, texts
	}
	if layered(h.n, l.State, d.Name) {
		return []hostops.Action{&UnlayerPackage{State: l.State, Driver: d.Name}}, nil
	}
	return nil, nil
}

// record is the last step: what the hooks and the gate go by.
func (h *Host) record(d Driver, info modinfo, when, where string, texts []TextFile) *Keep {
	state := h.layout.State
	k := Kept{Driver: d, When: when, Where: where, Texts: texts, Dirs: missingDirs(h.n, texts)}
	if old, err := readKept(h.n, state); err == nil {
		for _, o := range old {
			k.Dirs = unique(append(k.Dirs, o.Dirs...))
		}
	}
	k.Driver.Builds = map[string]Build{}
	a := &Keep{State: state}
	for rel, b := range d.Builds {
		dir := path.Join(h.layout.releaseDir(rel), "updates", d.Name)
		b = inTree(h.n, b, dir, state)
		k.Driver.Builds[rel] = b
		k.Firmware = append(k.Firmware, b.Firmware...)
		a.Dirs = append(a.Dirs, dir)
	}
	if where == "os-image" && h.layout.OEM == "" {
		a.Dirs = append(a.Dirs, repoDir(state, d.Name))
	}
	sort.Strings(a.Dirs)
	k.Firmware = sortedUnique(k.Firmware)
	k.Driver.Load = ownModules(d)
	k.Driver.Aliases, k.Driver.SoftPre, k.Driver.SoftPost = info.aliases, info.pre, info.post
	a.Kept = k
	return a
}

// inTree is a build as it lies in the tree, at dir: flat, unpacked, its
// firmware merged.
func inTree(n *hostops.Node, b Build, dir, state string) Build {
	out := Build{Release: b.Release, Dir: dir, Digest: b.Digest, Verdict: b.Verdict}
	for _, f := range treeFiles(n, b) {
		out.Modules = append(out.Modules, f.Rel)
	}
	for _, name := range b.Firmware {
		out.Firmware = append(out.Firmware, firmwareName(name))
	}
	if b.FirmwareDir != "" {
		out.FirmwareDir = firmwareDir(state)
	}
	return out
}

func (h *Host) installBinary() *InstallBinary {
	p := h.program
	if p.source == "" {
		if exe, err := os.Executable(); err == nil {
			p.source = exe
		}
	}
	return &InstallBinary{State: h.layout.State, Source: p.source, Version: p.version}
}

// treeActions puts every build into the tree, in the order of its kernels.
func (h *Host) treeActions(d Driver) []hostops.Action {
	var out []hostops.Action
	for _, rel := range releases(d) {
		b := d.Builds[rel]
		a := &PutTree{State: h.layout.State, Driver: d.Name, Release: rel, Source: b.Dir, OSDir: h.osDir(rel)}
		a.Files = treeFiles(h.n, b)
		out = append(out, a)
	}
	return out
}

func releases(d Driver) []string {
	out := make([]string, 0, len(d.Builds))
	for rel := range d.Builds {
		out = append(out, rel)
	}
	sort.Strings(out)
	return out
}

// osDir is where a release's own modules lie now: a staged deployment's are
// not below /usr/lib/modules yet, unless it has the kernel that runs.
func (h *Host) osDir(rel string) string {
	if h.facts.Family == "ostree" && rel != h.n.Kernel.Release() {
		for _, d := range deployments(h.n) {
			if d.release == rel && !slices.Contains(d.roles, Running) {
				return path.Join(d.dir, "usr/lib/modules", rel)
			}
		}
	}
	return moduleDir(h.n, "/", rel)
}

// ownModules are the modules of Load that the driver brings itself.
func ownModules(d Driver) []string {
	brought := map[string]bool{}
	for _, b := range d.Builds {
		for _, file := range b.Modules {
			brought[module.NameOf(file)] = true
		}
	}
	var out []string
	for _, m := range d.Load {
		if brought[module.Normalize(m)] {
			out = append(out, m)
		}
	}
	return out
}

// readBuilds gathers what modprobe has to know: what the caller says, and what
// the modules say themselves where they are on the node already.
func (h *Host) readBuilds(d Driver) (modinfo, error) {
	out := modinfo{aliases: map[string][]string{}, pre: map[string][]string{}, post: map[string][]string{}}
	loaded := map[string]string{}
	for _, m := range ownModules(d) {
		loaded[module.Normalize(m)] = m
	}
	add := func(name string, aliases, pre, post []string) {
		if m := loaded[module.Normalize(name)]; m != "" {
			out.aliases[m] = append(out.aliases[m], aliases...)
			out.pre[m] = append(out.pre[m], pre...)
			out.post[m] = append(out.post[m], post...)
		}
	}
	for name := range loaded {
		add(name, d.Aliases[loaded[name]], d.SoftPre[loaded[name]], d.SoftPost[loaded[name]])
	}
	pre, post := kmod.ConfiguredSoftdeps(kmod.ModprobeConfig(h.n))
	for name := range loaded {
		add(name, nil, pre[name], post[name])
	}
	for _, rel := range releases(d) {
		for _, file := range d.Builds[rel].Modules {
			p := path.Join(d.Builds[rel].Dir, file)
			if !h.n.Exists(p) {
				continue
			}
			info, err := readModule(h.n, p)
			if err != nil {
				return out, err
			}
			add(module.NameOf(file), info.Aliases, info.SoftPre, info.SoftPost)
		}
	}
	for name, list := range out.aliases {
		out.aliases[name] = sortedUnique(list)
	}
	return out, nil
}

// firmwareFiles is the union over the builds.
func firmwareFiles(d Driver) []FirmwareFile {
	var out []FirmwareFile
	seen := map[string]bool{}
	for _, rel := range releases(d) {
		b := d.Builds[rel]
		for _, name := range b.Firmware {
			if asked := firmwareName(name); !seen[asked] {
				seen[asked] = true
				out = append(out, FirmwareFile{Name: asked, From: path.Join(b.FirmwareDir, name)})
			}
		}
	}
	return out
}

// hookActions are the files in /oem: the driver's, and on Harvester the guard.
func (h *Host) hookActions(d Driver, where string, gate bool) ([]*PutHook, error) {
	l := h.layout
	if l.OEM == "" {
		return nil, nil
	}
	old := h.facts.Family != "elemental-v2"
	text, err := hookFile("fitout: "+d.Name, "Made by fitout for driver "+d.Name+"; fitout remove "+d.Name+" takes it away.", hookSteps(l, d, where, gate))
	if err != nil {
		return nil, err
	}
	out := []*PutHook{{OEM: l.OEM, Path: l.hookPath(d.Name), Content: string(text), Driver: d.Name, OneBreaksAll: old}}
	if l.Gate == "elemental-hold" && gate {
		text, err := hookFile("fitout: hold", "Made by fitout: holds an upgrade whose kernel lacks a kept driver.", holdSteps(l))
		if err != nil {
			return nil, err
		}
		out = append(out, &PutHook{OEM: l.OEM, Path: l.holdPath(), Content: string(text), OneBreaksAll: old})
	}
	return out, nil
}
