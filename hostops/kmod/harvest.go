package kmod

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
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
// read are passed over. One file is in memory at a time and core. The symbol
// table, two thirds of the work, is read of those modules that export at all,
// where depmod's table says which they are.
func harvest(n *hostops.Node, k *Kernel) map[string]Symbol {
	dir := k.Dir
	files := moduleFiles(n.Path(path.Join(dir, "kernel")))
	exporters := map[string]bool{}
	for _, mod := range k.Tables.symbols() {
		exporters[mod] = true
	}
	found := make(map[string]Symbol, 24<<10)
	var mu sync.Mutex
	clashes := 0
	each(len(files), func(i int) {
		want := module.Versions
		if len(exporters) == 0 || exporters[module.NameOf(files[i])] {
			want |= module.Symbols
		}
		m, err := module.ReadFile(files[i], module.Limits{Only: want})
		if err != nil {
			n.Log.Debug("not harvested", "file", files[i], "error", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range m.Exports {
			if old := found[e.Name]; old.HasCRC && e.HasCRC && old.CRC != e.CRC {
				clashes++
			}
			found[strings.Clone(e.Name)] = Symbol{
				CRC: e.CRC, HasCRC: e.HasCRC, TermsKnown: true,
				GPLOnly: e.GPLOnly, Namespace: strings.Clone(e.Namespace), Module: m.Name,
			}
		}
		for _, imp := range m.Imports {
			if !imp.HasCRC {
				continue
			}
			old, seen := found[imp.Name]
			switch {
			case !seen:
				found[strings.Clone(imp.Name)] = Symbol{CRC: imp.CRC, HasCRC: true, Module: "vmlinux"}
			case old.HasCRC && old.CRC != imp.CRC:
				clashes++
			}
		}
	})
	if clashes > 0 {
		n.Log.Warn("modules of this kernel disagree about symbol versions", "dir", dir, "symbols", clashes)
	}
	return found
}

// cachedHarvest takes the harvest from the cache directory (a host path, "" for
// none) when it is of this very build, else makes it and keeps it.
func cachedHarvest(n *hostops.Node, k *Kernel, cache string) map[string]Symbol {
	if cache == "" {
		return harvest(n, k)
	}
	file := filepath.Join(cache, "symvers-"+k.Release+"-"+buildOf(n, k))
	if f, err := os.Open(file); err == nil {
		found, err := ReadSymvers(f)
		_ = f.Close()
		if err == nil {
			return found
		}
		n.Log.Debug("cached harvest not usable", "file", file, "error", err)
	}
	found := harvest(n, k)
	if err := keepHarvest(file, found); err != nil {
		n.Log.Debug("harvest not kept", "file", file, "error", err)
	}
	return found
}

// buildOf is a short digest of what tells one build of a release from another:
// its sample module's build id and the size and time of the files that the
// kernel's build made. Image builders set all times alike; the build id holds.
func buildOf(n *hostops.Node, k *Kernel) string {
	h := sha256.New()
	fmt.Fprintln(h, k.Release, k.Vermagic, k.ModuleLayout)
	if m, err := module.ReadFile(n.Path(k.Sample), module.Limits{Only: module.BuildIDs}); err == nil {
		fmt.Fprintln(h, m.BuildID, m.Size)
	}
	for _, name := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		if st, err := n.Stat(path.Join(k.Dir, name)); err == nil {
			fmt.Fprintln(h, name, st.Size(), st.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// keepHarvest writes symbols in the form that [ReadSymvers] reads, in one step.
func keepHarvest(file string, found map[string]Symbol) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".symvers-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // gone already when it was renamed
	}()
	w := bufio.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		s := found[name]
		if !s.HasCRC {
			continue
		}
		kind := "UNKNOWN"
		if s.TermsKnown {
			kind = "EXPORT_SYMBOL"
			if s.GPLOnly {
				kind = "EXPORT_SYMBOL_GPL"
			}
		}
		fmt.Fprintf(w, "0x%08x\t%s\t%s\t%s\t%s\n", s.CRC, name, s.Module, kind, s.Namespace)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
