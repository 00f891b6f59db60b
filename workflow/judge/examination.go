package judge

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// examination collects what the checks of one build find.
type examination struct {
	in    Input
	build *image.Kernel
	// byName holds the one file chosen for each module name of the build,
	// exporters which of its modules export a symbol.
	byName    map[string]*image.Module
	exporters map[string][]string
	// unusable holds why a module of the build cannot be read, by module name.
	unusable map[string]string
	loaded   map[string]kmod.LoadedModule
	targets  []string // modules that are wanted for themselves
	wanted   map[string]bool

	sequence []step
	// crcsMatch is set when every version was compared and none differs;
	// foreign when a module was built for another release than this.
	crcsMatch bool
	foreign   map[string]bool // releases

	findings []finding.Finding
	checks   []Check
}

// step is a module of the load order.
type step struct {
	name string
	mod  *image.Module // nil for a module of the host
	path string        // node path of a host module
}

func newExamination(in Input, build *image.Kernel) *examination {
	x := &examination{
		in: in, build: build,
		byName: map[string]*image.Module{}, exporters: map[string][]string{},
		loaded: map[string]kmod.LoadedModule{}, foreign: map[string]bool{}, unusable: map[string]string{},
	}
	for _, l := range in.Loaded {
		x.loaded[module.Normalize(l.Name)] = l
	}
	for i := range build.Modules {
		m := &build.Modules[i]
		if m.Info == nil {
			continue
		}
		if have, ok := x.byName[m.Info.Name]; ok {
			winner, loser := prefer(have, m)
			x.byName[m.Info.Name] = winner
			x.add(finding.New("module-shadowed", m.Info.Name, winner.Path).With("not used: " + loser.Path))
			continue
		}
		x.byName[m.Info.Name] = m
	}
	for _, u := range build.Unusable {
		if name := module.NameOf(path.Base(u.Path)); x.byName[name] == nil {
			x.unusable[name] = u.Why
		}
	}
	for name, m := range x.byName {
		for _, e := range m.Info.Exports {
			x.exporters[e.Name] = append(x.exporters[e.Name], name)
		}
	}
	for _, list := range x.exporters {
		slices.Sort(list)
	}
	return x
}

// prefer orders two files of one module name as depmod's defaults do: updates/
// before everything, kernel/ last; the path decides between equals.
func prefer(a, b *image.Module) (winner, loser *image.Module) {
	rank := func(m *image.Module) int {
		switch p := "/" + m.Path; {
		case strings.Contains(p, "/updates/"):
			return 0
		case strings.Contains(p, "/weak-updates/"):
			return 3
		case strings.Contains(p, "/kernel/"):
			return 2
		}
		return 1
	}
	if c := cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Path, b.Path)); c <= 0 {
		return a, b
	}
	return b, a
}

func (x *examination) add(f finding.Finding) { x.findings = append(x.findings, f) }

func (x *examination) check(name, result, detail string, args ...any) {
	x.checks = append(x.checks, Check{Name: name, Result: result, Detail: fmt.Sprintf(detail, args...)})
}

// imageSteps are the image's modules of the load order.
func (x *examination) imageSteps() []*image.Module {
	var list []*image.Module
	for _, s := range x.sequence {
		if s.mod != nil {
			list = append(list, s.mod)
		}
	}
	return list
}

// judgement turns findings into the verdict.
func (x *examination) judgement() Judgement {
	j := Judgement{Release: x.in.Release, Build: x.build.Release, Verdict: finding.OK, Findings: x.findings, Checks: x.checks}
	for _, s := range x.sequence {
		j.Load = append(j.Load, x.load(s))
	}
	worst := finding.Worst(x.findings)
	has := func(risk string) bool {
		return slices.ContainsFunc(x.findings, func(f finding.Finding) bool { return f.Severity == finding.Risk && f.Risk == risk })
	}
	switch {
	case worst == finding.Block:
		j.Verdict = finding.Blocked
	case has("unsure-verdict"):
		j.Verdict = finding.Unsure
	case has("kabi-match"):
		j.Verdict = finding.OKKABI
	}
	for _, f := range x.findings {
		if f.Severity == finding.Risk && f.Risk != "" && !slices.Contains(j.Risks, f.Risk) {
			j.Risks = append(j.Risks, f.Risk)
		}
	}
	slices.Sort(j.Risks)
	return j
}

func (x *examination) load(s step) Load {
	l := Load{Module: s.name, From: "host", Path: s.path}
	have, loaded := x.loaded[s.name]
	if s.mod != nil {
		l.From, l.Path = "image", s.mod.Path
		l.Loaded = loaded && sameBuild(have, s.mod.Info)
	} else {
		l.Loaded = loaded
	}
	return l
}

// sameBuild compares the loaded module with a file by what the kernel shows of
// it: srcversion, or the build id where both have none.
func sameBuild(l kmod.LoadedModule, m *module.Info) bool {
	if l.Srcversion != "" && m.Srcversion != "" {
		return l.Srcversion == m.Srcversion
	}
	return l.BuildID != "" && l.BuildID == m.BuildID
}

// few lists at most ten of many.
func few(list []string) []string {
	const most = 10
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
}

// file is a module's file name, for sentences.
func file(m *image.Module) string { return path.Base(m.Path) }
