package kmod

import (
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"fitout/catalog/module"
	"fitout/hostops"
)

// Tables are one kernel's module indexes, as depmod wrote them: which module
// drives a modalias, where it lies, what it needs. Each question reads only the
// files that it needs, once. Where depmod's files are missing the module files
// themselves are read, which takes seconds instead of milliseconds; Notes says
// so.
//
// A nil *Tables knows nothing.
type Tables struct {
	n   *hostops.Node
	dir string // node path of lib/modules/RELEASE

	aliases func() *aliasTable
	deps    func() map[string]depLine
	builtin func() map[string]bool
	soft    func() map[string]softDep
	weak    func() map[string][]string
	symbols func() map[string]string
	scanned func() []*module.Info

	mu    sync.Mutex
	notes []string
}

// OpenTables reads nothing yet. dir is the node path of lib/modules/RELEASE.
func OpenTables(n *hostops.Node, dir string) *Tables {
	t := &Tables{n: n, dir: dir}
	t.aliases = sync.OnceValue(t.readAliases)
	t.deps = sync.OnceValue(t.readDeps)
	t.builtin = sync.OnceValue(t.readBuiltin)
	t.soft = sync.OnceValue(t.readSoftdeps)
	t.weak = sync.OnceValue(t.readWeakdeps)
	t.symbols = sync.OnceValue(t.readSymbols)
	t.scanned = sync.OnceValue(t.scan)
	return t
}

func (t *Tables) ready() bool { return t != nil && t.n != nil }

// note keeps a sentence about what was missing.
func (t *Tables) note(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// Notes says which of depmod's files were missing, of those asked for so far.
func (t *Tables) Notes() []string {
	if !t.ready() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}

// read returns one of depmod's files, "" when it is missing.
func (t *Tables) read(name string) string {
	f, err := t.n.Open(path.Join(t.dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	var text strings.Builder
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		text.Grow(int(st.Size()) + 1)
	}
	if _, err := io.Copy(&text, f); err != nil {
		return ""
	}
	return text.String()
}

func (t *Tables) readDeps() map[string]depLine {
	if text := t.read("modules.dep"); text != "" {
		return parseDeps(text)
	}
	return t.scannedDeps()
}

func (t *Tables) readBuiltin() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(t.read("modules.builtin")) {
		names[module.NameOf(strings.TrimSpace(line))] = true
	}
	return names
}

func (t *Tables) readSoftdeps() map[string]softDep {
	text := t.read("modules.softdep")
	if text != "" || t.read("modules.dep") != "" {
		return parseSoftdeps(text)
	}
	all := map[string]softDep{}
	for _, m := range t.scanned() {
		all[m.Name] = softDep{m.SoftPre, m.SoftPost}
	}
	return all
}

func (t *Tables) readWeakdeps() map[string][]string { return parseWeakdeps(t.read("modules.weakdep")) }

func (t *Tables) readSymbols() map[string]string {
	text := t.read("modules.symbols")
	if text == "" {
		t.note("modules.symbols is missing: which module exports a symbol is not known")
	}
	return parseSymbols(text)
}

// Path is the node path of a module's file, by name ('-' and '_' are equal).
func (t *Tables) Path(name string) (string, bool) {
	if !t.ready() {
		return "", false
	}
	line, ok := t.deps()[module.Normalize(name)]
	if !ok {
		return "", false
	}
	return t.nodePath(line.path), true
}

func (t *Tables) nodePath(file string) string {
	if path.IsAbs(file) {
		return path.Join(osRoot(t.dir), file)
	}
	return path.Join(t.dir, file)
}

// Builtin says that a module is compiled into the kernel: it can be neither
// unloaded nor replaced.
func (t *Tables) Builtin(name string) bool {
	return t.ready() && t.builtin()[module.Normalize(name)]
}

// Depends lists what a module needs, all levels, in modules.dep's order: to
// load, go from the last to the first.
func (t *Tables) Depends(name string) []string {
	if !t.ready() {
		return nil
	}
	files := strings.Fields(t.deps()[module.Normalize(name)].needs)
	for i, f := range files {
		files[i] = module.NameOf(f)
	}
	return files
}

// Softdeps lists what should be loaded before and after a module, when it is
// there: names or aliases, as they stand, all lines merged.
func (t *Tables) Softdeps(name string) (pre, post []string) {
	if !t.ready() {
		return nil, nil
	}
	d := t.soft()[module.Normalize(name)]
	return slices.Clone(d.pre), slices.Clone(d.post)
}

// Names lists all modules, sorted, built-in ones excluded.
func (t *Tables) Names() []string {
	if !t.ready() {
		return nil
	}
	names := make([]string, 0, len(t.deps()))
	for name := range t.deps() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SymbolProvider is the module that exports a symbol. Exports of the kernel
// itself are not in this table.
func (t *Tables) SymbolProvider(symbol string) (module string, ok bool) {
	if !t.ready() {
		return "", false
	}
	module, ok = t.symbols()[symbol]
	return module, ok
}

// Puller is a module that brings another one in.
type Puller struct {
	Module string
	How    string // "depends", "softdep pre", "softdep post", "weakdep"
}

// String says who brings the module in, and how.
func (p Puller) String() string { return "brought in by " + p.Module + " (" + p.How + ")" }

// PulledInBy lists who brings a module in when they are loaded: a blacklist
// line does not hold against those (modprobe.d(5): blacklist hides aliases
// only).
func (t *Tables) PulledInBy(name string) []Puller {
	if !t.ready() {
		return nil
	}
	name = module.Normalize(name)
	var found []Puller
	has := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return module.Normalize(w) == name })
	}
	for mod := range t.deps() {
		if slices.Contains(t.Depends(mod), name) {
			found = append(found, Puller{mod, "depends"})
		}
	}
	for mod, d := range t.soft() {
		if has(d.pre) {
			found = append(found, Puller{mod, "softdep pre"})
		}
		if has(d.post) {
			found = append(found, Puller{mod, "softdep post"})
		}
	}
	for mod, words := range t.weak() {
		if has(words) {
			found = append(found, Puller{mod, "weakdep"})
		}
	}
	slices.SortFunc(found, func(a, b Puller) int {
		return strings.Compare(a.Module+a.How, b.Module+b.How)
	})
	return found
}
