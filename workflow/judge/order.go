package judge

import (
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// resolver states of a module while the order is made.
const (
	visiting = 1
	placed   = 2
)

// orderer walks the dependencies, deepest first.
type orderer struct {
	x     *examination
	state map[string]int
	chain []string
	bad   map[string]bool // missing modules and rings already reported
	notes []string
}

// order makes the load order over image and host: what a module depends on, by
// name and by symbol, before it; wishes (softdep) where they can be had.
func (x *examination) order() {
	if x.in.Kernel != nil {
		x.in.Kernel.Symbols.Prefer(x.targets...)
		for _, name := range x.targets {
			if m := x.byName[name]; m != nil {
				x.in.Kernel.ExpectGenuine(m.Info)
			}
		}
	}
	o := &orderer{x: x, state: map[string]int{}, bad: map[string]bool{}}
	// [A, B, C] means that A needs B needs C.
	for _, name := range slices.Backward(x.targets) {
		o.visit(name, "", "")
	}
	switch {
	case len(o.bad) > 0:
		x.check("dependencies", Fails, "%s", strings.Join(sortedKeys(o.bad), "; "))
	case x.in.Kernel == nil:
		x.check("dependencies", NotChecked, "the host's modules for %s are not at hand", x.in.Release)
	case len(x.sequence) == 0:
	default:
		x.check("dependencies", Passed, "load order: %s", o.orderText())
	}
	if len(o.notes) > 0 {
		x.check("soft dependencies", Passed, "%s", strings.Join(o.notes, "; "))
	}
}

func (o *orderer) orderText() string {
	var words []string
	for _, s := range o.x.sequence {
		if s.mod != nil {
			words = append(words, s.name)
		} else {
			words = append(words, s.name+" (host)")
		}
	}
	return strings.Join(words, ", ")
}

// visit places a module after everything it needs. by and symbol say who asked
// and for which symbol.
func (o *orderer) visit(name, by, symbol string) {
	name = module.Normalize(name)
	switch o.state[name] {
	case placed:
		return
	case visiting:
		o.ring(name)
		return
	}
	if why, ok := o.x.unusable[name]; ok {
		o.unusable(name, why)
		return
	}
	mod, path, found := o.x.resolve(name)
	if !found {
		o.missing(name, by, symbol)
		return
	}
	if mod == nil && path == "" {
		return // built in, or a host that is not known
	}
	o.state[name] = visiting
	o.chain = append(o.chain, name)
	post := o.needs(name, mod)
	o.chain = o.chain[:len(o.chain)-1]
	o.state[name] = placed
	o.x.sequence = append(o.x.sequence, step{name: name, mod: mod, path: path})
	switch {
	case mod != nil:
	case by != "":
		o.fromHost(name, by, symbol)
	case len(o.x.targets) > 0 && name == o.x.targets[0]:
		// Further names of the list may be the host's own (KMM's host links);
		// the first is what the image is for.
		o.bad[name+" is the host's own"] = true
		o.x.add(finding.New("driver-from-host", name, o.x.in.Release, path))
	}
	for _, p := range post {
		o.wish(p, name, "after")
	}
}

// needs places what a module needs and returns its wishes for afterwards.
func (o *orderer) needs(name string, mod *image.Module) (post []string) {
	var set kmod.Policy
	if p := o.x.policy(); p != nil {
		set = *p
	}
	for _, p := range set.SoftPre[name] {
		o.wish(p, name+" (modprobe.d)", "before")
	}
	return slices.Concat(o.ownNeeds(name, mod), set.SoftPost[name])
}

// ownNeeds are the needs that the module's file, or the host's tables, name.
func (o *orderer) ownNeeds(name string, mod *image.Module) (post []string) {
	if mod == nil {
		deps := o.x.in.Kernel.Tables.Depends(name)
		for _, d := range slices.Backward(deps) {
			o.visit(d, name, "")
		}
		pre, post := o.x.in.Kernel.Tables.Softdeps(name)
		for _, p := range pre {
			o.wish(p, name, "before")
		}
		return post
	}
	for _, p := range mod.Info.SoftPre {
		o.wish(p, name, "before")
	}
	for _, d := range mod.Info.Depends {
		o.visit(d, name, o.symbolFrom(mod, d))
	}
	for _, s := range mod.Info.Imports {
		if s.VersionOnly || s.Weak {
			continue
		}
		if p := o.x.provider(s.Name); p.found && p.owner != "" && p.owner != name {
			o.visit(p.owner, name, s.Name)
		}
	}
	return mod.Info.SoftPost
}

// symbolFrom is a symbol that mod imports of the module dep, "" when unknown.
func (o *orderer) symbolFrom(mod *image.Module, dep string) string {
	for _, s := range mod.Info.Imports {
		if p := o.x.provider(s.Name); p.found && p.owner == dep {
			return s.Name
		}
	}
	return ""
}

// wish places a soft dependency where it can be had; a name may be an alias.
func (o *orderer) wish(name, by, when string) {
	for _, n := range o.x.wished(name) {
		if o.state[n] == visiting {
			continue // a wish never makes a ring
		}
		o.visit(n, "", "")
		o.notes = append(o.notes, by+" wants "+n+" "+when+" it")
		return
	}
	if o.state[module.Normalize(name)] == 0 && !o.x.builtin(name) {
		o.x.add(finding.New("softdep", by, name, when, "it is neither in the image nor on the host"))
	}
}

func (o *orderer) ring(name string) {
	from := slices.Index(o.chain, name)
	text := strings.Join(append(slices.Clone(o.chain[from:]), name), " -> ")
	if !o.bad[text] {
		o.bad[text] = true
		o.x.add(finding.New("dependency-cycle", text))
	}
}

// unusable: the image means to bring this module, and its file is broken. The
// host's own of that name is another driver, and never taken in its place.
func (o *orderer) unusable(name, why string) {
	if text := name + " cannot be read"; !o.bad[text] {
		o.bad[text] = true
		o.x.add(finding.New("not-a-module", name, why))
	}
}

func (o *orderer) missing(name, by, symbol string) {
	text := name + " is missing"
	if by == "" {
		if !o.bad[text] {
			o.x.add(finding.New("module-missing", name, o.x.in.Release))
		}
		o.bad[text] = true
		return
	}
	if text += ", needed by " + by; o.bad[text] {
		return
	}
	o.bad[text] = true
	f := finding.New("dependency-missing", by, name)
	if symbol == "" {
		symbol = o.guessSymbol(name, by)
	}
	if symbol != "" {
		f = f.With("needs symbol " + symbol + ", provided by " + name)
	}
	o.x.add(f)
}

// guessSymbol names an import of by that nothing at hand exports: the reason
// why it depends on a module that is missing.
func (o *orderer) guessSymbol(name, by string) string {
	m := o.x.byName[by]
	if m == nil {
		return ""
	}
	var unknown []string
	for _, s := range m.Info.Imports {
		if p := o.x.provider(s.Name); s.VersionOnly || p.found && p.symbol.TermsKnown {
			continue
		}
		if strings.HasPrefix(s.Name, name) {
			return s.Name
		}
		unknown = append(unknown, s.Name)
	}
	if len(m.Info.Depends) == 1 && len(unknown) > 0 {
		return unknown[0]
	}
	return ""
}

func (o *orderer) fromHost(name, by, symbol string) {
	state := "not loaded"
	if _, ok := o.x.loaded[name]; ok {
		state = "loaded"
	} else if o.x.in.Loaded == nil {
		state = "on disk"
	}
	f := finding.New("dependency-host", by, name, state)
	if symbol != "" {
		f = f.With("needs symbol " + symbol + ", provided by " + name + " (host, " + state + ")")
	}
	o.x.add(f)
}

// resolve finds a module by name: of the image, else of the host. A copy of
// the kernel's own module that the image merely carries along is not taken
// where the host has the module itself. A module that is built in, or of a
// host that is not known, is found and has neither file.
func (x *examination) resolve(name string) (mod *image.Module, path string, found bool) {
	m := x.byName[name]
	hostPath, onHost := x.hostPath(name)
	if m != nil && (!onHost || !m.Info.InTree || x.wanted[name]) {
		return m, "", true
	}
	if onHost {
		return nil, hostPath, true
	}
	return nil, "", x.builtin(name) || x.in.Kernel == nil
}

func (x *examination) hostPath(name string) (string, bool) {
	if x.in.Kernel == nil {
		return "", false
	}
	return x.in.Kernel.Tables.Path(name)
}

func (x *examination) builtin(name string) bool {
	return x.in.Kernel != nil && x.in.Kernel.Tables.Builtin(name)
}

// wished are the modules that a softdep word stands for.
func (x *examination) wished(word string) []string {
	name := module.Normalize(word)
	if mod, path, _ := x.resolve(name); mod != nil || path != "" {
		return []string{name}
	}
	if x.in.Kernel == nil {
		return nil
	}
	var names []string
	for _, c := range x.in.Kernel.Tables.Match(word) {
		if !c.Builtin {
			names = append(names, c.Module)
		}
	}
	return names
}

// provision says where a symbol comes from.
type provision struct {
	found bool
	// owner is the module that exports it, "" for the kernel itself or when
	// that is not known; image is set for one of the image's modules.
	owner  string
	image  *image.Module
	symbol kmod.Symbol
}

// provider finds the export that a symbol would be linked to: of the kernel
// itself, else of the image's modules, else of the host's. A harvest only
// guesses that the kernel itself exports a symbol, and asking it about one that
// none of the kernel's modules imports makes it read them all: so the image's
// own exports come first there.
func (x *examination) provider(symbol string) provision {
	for _, owner := range x.exporters[symbol] {
		mod, _, _ := x.resolve(owner)
		if mod == nil {
			continue
		}
		if x.in.Kernel != nil && x.in.Kernel.Symbols.Complete() {
			if host := x.hostProvider(symbol); host.found && host.owner == "" {
				return host
			}
		}
		return provision{found: true, owner: owner, image: mod, symbol: exported(mod, symbol)}
	}
	host := x.hostProvider(symbol)
	if host.owner != "" {
		// A module of the host that the image replaces exports it no more.
		if mod, _, _ := x.resolve(host.owner); mod != nil {
			return provision{}
		}
	}
	return host
}

// hostProvider is the kernel's or one of its modules' export.
func (x *examination) hostProvider(symbol string) provision {
	if x.in.Kernel == nil {
		return provision{}
	}
	s, ok := x.in.Kernel.Symbols.Lookup(symbol)
	if !ok {
		return provision{}
	}
	p := provision{found: true, symbol: s}
	if s.Module != "vmlinux" {
		p.owner = module.NameOf(s.Module)
		if s.Module == "" {
			p.owner, _ = x.in.Kernel.Tables.SymbolProvider(symbol)
		}
	}
	if p.owner != "" && x.builtin(p.owner) {
		p.owner = ""
	}
	return p
}

func exported(m *image.Module, symbol string) kmod.Symbol {
	for _, e := range m.Info.Exports {
		if e.Name == symbol {
			return kmod.Symbol{CRC: e.CRC, HasCRC: e.HasCRC, TermsKnown: true, GPLOnly: e.GPLOnly, Namespace: e.Namespace, Module: m.Info.Name}
		}
	}
	return kmod.Symbol{}
}

func sortedKeys(m map[string]bool) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
