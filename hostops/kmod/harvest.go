package kmod

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fitout/catalog/module"
	"fitout/hostops"
)

// harvest collects symbol versions from a kernel's own modules: each records
// the CRC of every symbol it imports, and holds the CRCs of what it exports.
// Only kernel/ is read, where nobody else puts modules. Files that cannot be
// read are passed over.
//
// Reading all 4,000 modules takes a third of a second when they are plain and
// half a minute of one core when they are packed with xz. So it goes in circles:
// an export of a module is looked up in that module; one of vmlinux in the
// modules of one directory, then of the directory above it, and so on, until
// some module imports it. The image that boots has all of vmlinux's: it is
// unpacked (a second or two, and its size in memory) before packed modules are
// searched any further, or when all plain ones did not know.
type harvest struct {
	n     *hostops.Node
	k     *Kernel
	cache string // directory, "" for none

	files     []string          // node paths of what is not read yet, smallest first
	byModule  map[string]string // the file of each module
	done      map[string]bool   // node paths of what was read
	exporters map[string]bool   // modules that export, nil when not known
	start     string            // node path of the directory to begin with
	unkept    int               // files read since the cache was written
	packed    bool              // the modules are packed
	tried     bool              // the image was looked at
	clashes   int
}

// firstCircle is where to begin when nobody said what the questions are about:
// network drivers import what drivers mostly do.
const firstCircle = "kernel/drivers/net/ethernet"

// How many circles are read before the kernel's image is asked, which costs
// half a second to two of one core and knows every export of vmlinux. A whole
// tree of plain modules costs less only while it is in memory: on the packed
// root of an image-based OS its 400 MB have to be unpacked.
const (
	plainCircles  = 3
	packedCircles = 1
)

// batch is how many files are read between two looks at what was found.
const batch = 32

func newHarvest(n *hostops.Node, k *Kernel, cache string) *harvest {
	h := &harvest{n: n, k: k, cache: cache, byModule: map[string]string{}, done: map[string]bool{}}
	h.start = path.Join(k.Dir, firstCircle)
	for _, mod := range k.Tables.symbols() {
		if h.exporters == nil {
			h.exporters = map[string]bool{}
		}
		h.exporters[mod] = true
	}
	h.packed = k.packed
	root := n.Path(k.Dir)
	for _, file := range sortedBySize(moduleFiles(filepath.Join(root, "kernel"))) {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			continue
		}
		h.files = append(h.files, path.Join(k.Dir, rel))
		h.byModule[module.NameOf(file)] = path.Join(k.Dir, rel)
	}
	return h
}

// prefer begins at the directory of the first of the modules that the kernel's
// build knew; its file may be missing.
func (h *harvest) prefer(modules []string) {
	for _, name := range modules {
		if file, ok := h.byModule[module.Normalize(name)]; ok {
			h.start = path.Dir(file)
			return
		}
	}
	order, _ := h.n.ReadFile(path.Join(h.k.Dir, "modules.order"))
	for line := range strings.Lines(string(order)) {
		if slices.ContainsFunc(modules, func(m string) bool { return module.Normalize(m) == module.NameOf(strings.TrimSpace(line)) }) {
			h.start = path.Join(h.k.Dir, path.Dir(line))
			return
		}
	}
}

// until reads modules until name is found or none is left.
func (h *harvest) until(s *Symbols, name string) {
	known, found := s.byName[name]
	provider, ofModule := h.k.Tables.SymbolProvider(name)
	if file := h.byModule[provider]; ofModule && file != "" {
		if !known.TermsKnown {
			h.read(s, []string{file})
		}
		return
	}
	if found {
		return
	}
	if h.exporters == nil {
		h.rest(s) // without depmod's table an import could be of any module
		return
	}
	circles := plainCircles
	if h.packed {
		circles = packedCircles
	}
	for dir := h.start; ; dir = path.Dir(dir) {
		if circles--; circles < 0 && h.image(s) {
			break
		}
		circle := h.below(dir)
		for _, ok := s.byName[name]; !ok && len(circle) > 0; _, ok = s.byName[name] {
			h.read(s, circle[:min(batch, len(circle))])
			circle = circle[min(batch, len(circle)):]
		}
		if _, ok := s.byName[name]; ok || !strings.HasPrefix(dir, h.k.Dir+"/") {
			break
		}
	}
	if _, ok := s.byName[name]; !ok {
		h.image(s)
	}
	h.finish(s, 2*batch)
}

// image adds what vmlinux exports, out of the kernel's image, once.
func (h *harvest) image(s *Symbols) bool {
	if h.tried {
		return s.origin == FromImage
	}
	h.tried = true
	found := h.k.image.takeExports()
	if found == nil {
		return false
	}
	maps.Copy(s.byName, found)
	s.origin, h.unkept = FromImage, h.unkept+2*batch
	return true
}

// rest reads what is left.
func (h *harvest) rest(s *Symbols) {
	h.read(s, h.below(h.k.Dir))
	h.image(s)
	h.finish(s, 1)
}

// below lists the unread files in and below a directory.
func (h *harvest) below(dir string) []string {
	var files []string
	for _, file := range h.files {
		if strings.HasPrefix(file, dir+"/") && !h.done[file] {
			files = append(files, file)
		}
	}
	return files
}

// finish writes the cache when many files were read since, and drops the
// harvest when all were.
func (h *harvest) finish(s *Symbols, many int) {
	if h.unkept >= many && h.cache != "" {
		if err := h.keep(s); err != nil {
			h.n.Log.Debug("harvest not kept", "dir", h.cache, "error", err)
		}
		h.unkept = 0
	}
	if len(h.done) < len(h.files) || !h.tried {
		return
	}
	if h.clashes > 0 {
		h.n.Log.Warn("modules of this kernel disagree about symbol versions", "dir", h.k.Dir, "symbols", h.clashes)
	}
	s.harvest = nil
}

// read adds what files say. One file is in memory at a time and core. The
// symbol table, two thirds of the work, is read of those modules that export at
// all, where depmod's table says which they are.
func (h *harvest) read(s *Symbols, files []string) {
	files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return h.done[f] })
	var mu sync.Mutex
	each(len(files), func(i int) {
		want := module.Versions
		if h.exporters == nil || h.exporters[module.NameOf(files[i])] {
			want |= module.Symbols
		}
		m, err := module.ReadFile(h.n.Path(files[i]), module.Limits{Only: want})
		mu.Lock()
		defer mu.Unlock()
		h.done[files[i]] = true
		h.unkept++
		if err != nil {
			h.n.Log.Debug("not harvested", "file", files[i], "error", err)
			return
		}
		h.add(s.byName, m)
	})
}

// add keeps a module's exports, and its imports where no export was seen. Names
// are copied, or each would keep its module's whole name table in memory.
func (h *harvest) add(byName map[string]Symbol, m *module.Info) {
	for _, e := range m.Exports {
		if old := byName[e.Name]; old.HasCRC && e.HasCRC && old.CRC != e.CRC {
			h.clashes++
		}
		byName[strings.Clone(e.Name)] = Symbol{
			CRC: e.CRC, HasCRC: e.HasCRC, TermsKnown: true,
			GPLOnly: e.GPLOnly, Namespace: strings.Clone(e.Namespace), Module: m.Name,
		}
	}
	for _, imp := range m.Imports {
		if !imp.HasCRC {
			continue
		}
		old, seen := byName[imp.Name]
		switch {
		case !seen:
			exporter := "vmlinux"
			if mod, ok := h.k.Tables.SymbolProvider(imp.Name); ok {
				exporter = mod
			}
			byName[strings.Clone(imp.Name)] = Symbol{CRC: imp.CRC, HasCRC: true, Module: exporter}
		case old.HasCRC && old.CRC != imp.CRC:
			h.clashes++
		}
	}
}
