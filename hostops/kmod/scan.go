package kmod

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"fitout/catalog/module"
)

// scan reads every module file of the directory, for a tree on which depmod
// never ran (an image being built, a kernel just unpacked).
func (t *Tables) scan() []*module.Info {
	files := moduleFiles(t.n.Path(t.dir))
	infos := make([]*module.Info, len(files))
	each(len(files), func(i int) {
		info, err := module.ReadFile(files[i], module.Limits{Only: module.Modinfo})
		if err != nil {
			t.note(fmt.Sprintf("%s cannot be read: %v", t.n.NodePath(files[i]), err))
			return
		}
		infos[i] = info
	})
	infos = slices.DeleteFunc(infos, func(m *module.Info) bool { return m == nil })
	t.note(fmt.Sprintf("depmod did not run for %s: its tables were made from %d module files", path.Base(t.dir), len(infos)))
	return infos
}

// scannedDeps builds modules.dep from depends= of each file: all levels, a
// module before what it needs, each once.
func (t *Tables) scannedDeps() map[string]depLine {
	byName := map[string]*module.Info{}
	for _, m := range t.scanned() {
		byName[m.Name] = m
	}
	files := map[string]string{}
	root := t.n.Path(t.dir)
	for _, file := range moduleFiles(root) {
		rel, err := filepath.Rel(root, file)
		if name := module.NameOf(file); err == nil && files[name] == "" {
			files[name] = rel
		}
	}
	lines := map[string]depLine{}
	for name, file := range files {
		var needs []string
		for _, dep := range closure(byName, name)[1:] {
			if f := files[dep]; f != "" {
				needs = append(needs, f)
			}
		}
		lines[name] = depLine{file, strings.Join(needs, " ")}
	}
	return lines
}

// closure is name and then all it needs, users before what they use. Each name
// is visited once, so a cycle ends where it closes.
func closure(byName map[string]*module.Info, name string) []string {
	seen := map[string]bool{}
	var order []string
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if m := byName[name]; m != nil {
			for _, dep := range m.Depends {
				visit(dep)
			}
		}
		order = append(order, name)
	}
	visit(name)
	slices.Reverse(order)
	return order
}

// moduleFiles lists the host paths of the module files below root, those in
// updates/ first (depmod.d(5): the default search is "updates built-in"), then
// by name. build/ and source/ are links to other trees and are not entered.
func moduleFiles(root string) []string {
	var files []string
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && module.IsModuleFile(d.Name()) {
			files = append(files, p)
		}
		return nil // an unreadable directory only hides what is in it
	})
	updates := filepath.Join(root, "updates") + "/"
	slices.SortStableFunc(files, func(a, b string) int {
		ua, ub := strings.HasPrefix(a, updates), strings.HasPrefix(b, updates)
		switch {
		case ua && !ub:
			return -1
		case ub && !ua:
			return 1
		}
		return 0
	})
	return files
}

// each runs work(0) … work(n-1) on as many cores as there are, at most four.
func each(n int, work func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(4, runtime.GOMAXPROCS(0), max(n, 1)) {
		wg.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
