package judge

import (
	"fmt"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// symbolTally is what the comparison of one module's symbols found.
type symbolTally struct {
	compared         int
	differ, missing  []string // sentences
	unknown, gplOnly []string
	listed           []string // the kernel says that it exports them; versions unknown
	namespaces       []string
	firstDiffering   string
}

// checkSymbols compares every symbol's version, terms and presence.
func (x *examination) checkSymbols() {
	mods := x.imageSteps()
	if len(mods) == 0 || x.in.Kernel == nil {
		return
	}
	total, differing, absent, unknown, listed := 0, 0, 0, 0, 0
	uncarried := false
	for _, m := range mods {
		t := x.compareSymbols(m)
		total, differing = total+t.compared, differing+len(t.differ)
		absent, unknown, listed = absent+len(t.missing), unknown+len(t.unknown), listed+len(t.listed)
		x.report(m, t)
		if x.comparesVersions() && !m.Info.HasCRCs {
			uncarried = true
			x.add(x.withoutVersions(m))
		}
		x.checkDuplicates(m)
	}
	x.crcsMatch = x.comparesVersions() && differing+absent+unknown == 0 && !uncarried
	source := x.symbolSource()
	switch {
	case !x.comparesVersions() && differing+absent == 0:
		x.check("symbol versions", NotChecked, "this kernel has none (no modversions); %d symbols looked up in %s", total, source)
	case differing > 0:
		x.check("symbol versions", Differs, "%d of %d differ (%s)", differing, total, source)
	case unknown > 0:
		x.check("symbol versions", NotChecked, "%d symbols could not be compared; %s", unknown, x.settles())
	case uncarried:
		x.check("symbol versions", NotChecked, "a module carries none")
	case listed > 0:
		x.check("symbol versions", Passed, "%d match (%s); the kernel exports %d more that no file has", total, source, listed)
	default:
		x.check("symbol versions", Passed, "all %d match (%s)", total, source)
	}
	if absent > 0 {
		x.check("symbols present", Fails, "%d missing", absent)
	} else if unknown == 0 {
		x.check("symbols present", Passed, "each has an exporter in the kernel, the image or the host")
	}
}

// withoutVersions is what the kernel does with a module that carries no versions
// while it compares them (try_to_force_load in kernel/module/main.c).
func (x *examination) withoutVersions(m *image.Module) finding.Finding {
	force, known := x.in.Kernel.Config("CONFIG_MODULE_FORCE_LOAD")
	switch {
	case !known:
		return finding.New("versions-missing", file(m), x.in.Release, x.in.Release)
	case force != "y":
		return finding.New("versions-refused", file(m), x.in.Release)
	}
	return finding.New("unversioned", file(m), x.in.Release).With("CONFIG_MODULE_FORCE_LOAD=y", "taint: F, a forced load")
}

// symbolSource names where the kernel's versions were read.
func (x *examination) symbolSource() string {
	s := x.in.Kernel.Symbols
	switch {
	case s.Origin() == kmod.FromNowhere:
		return "no source"
	case s.File() == "":
		return string(s.Origin())
	case s.Origin() == kmod.FromModules:
		return "harvested from the modules in " + s.File()
	case s.Origin() == kmod.FromSymvers:
		return s.File()
	}
	return string(s.Origin()) + ", " + s.File()
}

// settles names the file that would answer what is open.
func (x *examination) settles() string {
	return fmt.Sprintf("%s/symvers.gz or the Module.symvers of this kernel's headers", x.in.Kernel.Dir)
}

// compareSymbols goes through what one module imports, as the kernel's
// simplify_symbols and resolve_symbol do.
func (x *examination) compareSymbols(m *image.Module) (t symbolTally) {
	gpl := gplCompatible(m.Info.License)
	for _, s := range m.Info.Imports {
		if s.VersionOnly && s.Name != "module_layout" {
			continue
		}
		p := x.provider(s.Name)
		if s.Name == "module_layout" && !p.found {
			p = x.layout()
		}
		if !p.found {
			x.notFound(&t, s)
			continue
		}
		if s.HasCRC && p.symbol.HasCRC && x.comparesVersions() {
			t.compared++
			if s.CRC != p.symbol.CRC {
				if t.firstDiffering == "" || s.Name == "module_layout" {
					t.firstDiffering = s.Name
				}
				t.differ = append(t.differ, fmt.Sprintf("%s: module 0x%08x, %s 0x%08x", s.Name, s.CRC, exporter(p), p.symbol.CRC))
			}
		} else if s.HasCRC && x.comparesVersions() {
			t.unknown = append(t.unknown, s.Name)
		}
		if p.symbol.TermsKnown && p.symbol.GPLOnly && !gpl {
			t.gplOnly = append(t.gplOnly, s.Name)
		}
		if ns := p.symbol.Namespace; p.symbol.TermsKnown && ns != "" && !imports(m.Info, ns) {
			t.namespaces = append(t.namespaces, s.Name+" "+ns)
		}
	}
	// Some exports of vmlinux are imported by the missing driver alone, so no
	// other module tells their versions. A module that was built for this very
	// release, with everything else alike, is no riddle for that.
	if builtFor(m) != x.in.Release || t.compared == 0 || len(t.differ) > 0 {
		t.unknown, t.listed = append(t.unknown, t.listed...), nil
	}
	return t
}

// notFound sorts a symbol without an exporter: it is missing only where every
// export of the kernel is known.
func (x *examination) notFound(t *symbolTally, s module.Import) {
	switch {
	case s.Weak:
	case s.Name != "module_layout" && x.in.Kernel.Symbols.Complete():
		t.missing = append(t.missing, s.Name)
	case x.in.Kernel.Exported != nil && x.in.Kernel.Exported()[s.Name]:
		t.listed = append(t.listed, s.Name)
	default:
		t.unknown = append(t.unknown, s.Name)
	}
}

// layout is the CRC that the kernel's own modules carry for module_layout.
func (x *examination) layout() provision {
	crc := x.in.Kernel.ModuleLayout
	return provision{found: crc != 0, symbol: kmod.Symbol{CRC: crc, HasCRC: crc != 0, Module: "vmlinux"}}
}

func exporter(p provision) string {
	switch {
	case p.image != nil:
		return p.owner + " (image)"
	case p.owner != "":
		return p.owner + " (host)"
	}
	return "kernel"
}

// report makes findings of one module's symbols.
func (x *examination) report(m *image.Module, t symbolTally) {
	if len(t.differ) > 0 {
		f := finding.New("symbol-crc", file(m), fmt.Sprint(len(t.differ)), fmt.Sprint(t.compared), t.firstDiffering)
		if len(x.foreign) == 0 {
			f = f.With("vermagic ok, symbol checksums differ (" + t.firstDiffering + ")")
		}
		slices.SortStableFunc(t.differ, func(a, b string) int { // module_layout first
			return boolInt(strings.HasPrefix(b, "module_layout:")) - boolInt(strings.HasPrefix(a, "module_layout:"))
		})
		x.add(f.With(few(t.differ)...))
	}
	if len(t.missing) > 0 {
		f := finding.New("symbol-missing", file(m), summary(t.missing))
		for _, s := range few(t.missing) {
			f = f.With(x.whereMissing(s))
		}
		x.add(f)
	}
	if len(t.unknown) > 0 {
		f := finding.New("symbols-unknown", fmt.Sprint(len(t.unknown)), file(m), x.in.Release, x.settles()).With(few(t.unknown)...)
		if problem := x.in.Kernel.ImageProblem(); problem != "" {
			f = f.With(problem)
		}
		x.add(f)
	}
	if len(t.listed) > 0 {
		x.add(finding.New("symbols-unversioned", fmt.Sprint(len(t.listed)), file(m), x.in.Release).With(few(t.listed)...))
	}
	for _, s := range few(t.gplOnly) {
		x.add(finding.New("symbol-gpl", file(m), m.Info.License, s))
	}
	for _, s := range few(t.namespaces) {
		name, ns, _ := strings.Cut(s, " ")
		x.add(finding.New("namespace-missing", file(m), name, ns).With("it imports: " + orWord(strings.Join(m.Info.ImportNS, ", "), "none")))
	}
}

// summary names the first of several.
func summary(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more", list[0], len(list)-1)
}

// whereMissing adds who would export a missing symbol, where that is known.
func (x *examination) whereMissing(symbol string) string {
	if s, ok := x.in.Kernel.Symbols.Lookup(symbol); ok && s.Module != "" {
		return fmt.Sprintf("%s: exported by %s of the host, which the image replaces without it", symbol, s.Module)
	}
	if owner, ok := x.in.Kernel.Tables.SymbolProvider(symbol); ok {
		return fmt.Sprintf("%s: exported by %s (host, not loaded)", symbol, owner)
	}
	return symbol
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// gplCompatible are the licence texts that open GPL-only symbols
// (include/linux/license.h).
func gplCompatible(licence string) bool {
	switch licence {
	case "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL":
		return true
	}
	return false
}

// imports says that a module may use a namespace. Namespaces that begin with
// "module:" name the modules they are for instead (kernel 6.16 and later).
func imports(m *module.Info, ns string) bool {
	if list, ok := strings.CutPrefix(ns, "module:"); ok {
		return slices.ContainsFunc(strings.Split(list, ","), func(p string) bool {
			return module.MatchAlias(p, m.Name)
		})
	}
	return slices.Contains(m.ImportNS, ns)
}

// checkDuplicates finds exports that another module has already
// (verify_exported_symbols).
func (x *examination) checkDuplicates(m *image.Module) {
	for _, e := range m.Info.Exports {
		owner, ok := x.exportedBy(e.Name)
		if !ok {
			continue
		}
		_, isLoaded := x.loaded[owner]
		switch {
		case owner == m.Info.Name || owner == "" || x.replaced(owner):
		case owner == "vmlinux" || x.builtin(owner) || isLoaded || x.inOrder(owner):
			x.add(finding.New("symbol-duplicate", file(m), e.Name, owner))
			return
		}
	}
	for _, e := range m.Info.Exports {
		for _, other := range x.exporters[e.Name] {
			if other > m.Info.Name && x.fromImage(other) {
				x.add(finding.New("symbol-duplicate", file(m), e.Name, other))
				return
			}
		}
	}
}

// fromImage says that a module of the image is in the load order.
func (x *examination) fromImage(name string) bool {
	return slices.ContainsFunc(x.sequence, func(s step) bool { return s.name == name && s.mod != nil })
}

// exportedBy is the host's module that exports a symbol, "vmlinux" for the
// kernel itself where all its exports are known.
func (x *examination) exportedBy(symbol string) (string, bool) {
	if x.in.Kernel.Symbols.Complete() {
		s, ok := x.in.Kernel.Symbols.Lookup(symbol)
		return module.NameOf(s.Module), ok
	}
	return x.in.Kernel.Tables.SymbolProvider(symbol)
}

func (x *examination) replaced(name string) bool {
	return slices.ContainsFunc(x.in.Replaces, func(r string) bool { return module.Normalize(r) == name })
}

func (x *examination) inOrder(name string) bool {
	return slices.ContainsFunc(x.sequence, func(s step) bool { return s.name == name && s.mod == nil })
}
