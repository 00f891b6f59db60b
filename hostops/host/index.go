package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// osIndexes are what depmod needs of the kernel's own directory besides its
// modules.
var osIndexes = []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"}

// finalModules is where the kernel's own modules are once it runs: osDir when
// it is on the running root, else /usr/lib/modules/REL (a staged deployment).
func finalModules(osDir, rel string) string {
	for _, dir := range []string{"/lib/modules/", "/usr/lib/modules/"} {
		if osDir == dir+rel {
			return osDir
		}
	}
	return "/usr/lib/modules/" + rel
}

// Reindex makes the links of a release of the side tree and its indexes, and
// checks that they name every module of every driver in it. osDir is where the
// kernel's own modules lie now; it may be missing for a kernel that is not
// installed yet, then the index holds the drivers alone, and is made again at
// the first boot of that kernel. For a release with no driver in the tree nothing
// is made: no record would know of it.
func Reindex(ctx context.Context, n *hostops.Node, state, rel, osDir string) error {
	dir := path.Join(treeDir(state), "lib/modules", rel)
	drivers, err := n.ReadDir(dir + "/updates")
	if err != nil {
		return fmt.Errorf("indexing the modules of %s: %w", rel, err)
	}
	if osDir == "" {
		osDir = moduleDir(n, "/", rel)
	}
	if err := linkOS(n, dir, osDir); err != nil {
		return fmt.Errorf("linking the kernel's own modules of %s: %w", rel, err)
	}
	said := ""
	if n.Simulated() || !n.Exec.Look("depmod") {
		if err := writeIndex(n, dir, osDir); err != nil {
			return fmt.Errorf("indexing the modules of %s: %w", rel, err)
		}
	} else {
		out, err := n.Exec.Run(ctx, "depmod", "-b", n.Path(treeDir(state)), rel)
		said = strings.TrimSpace(string(out))
		if err != nil {
			said += " (" + err.Error() + ")"
		}
		if err := syncFiles(n, dir); err != nil {
			return fmt.Errorf("indexing the modules of %s: %w", rel, err)
		}
	}
	for _, d := range drivers {
		if err := indexed(n, dir, d.Name(), rel); err != nil {
			if ni, ok := err.(*NotIndexed); ok {
				ni.Output = said
			}
			return err
		}
	}
	return linkOS(n, dir, finalModules(osDir, rel))
}

// syncFiles brings a directory and the files right in it to the disk: depmod
// does not.
func syncFiles(n *hostops.Node, dir string) error {
	entries, err := n.ReadDir(dir)
	if err != nil {
		return err
	}
	names := []string{"."}
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		f, err := n.Open(path.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// linkOS points kernel/ and the built-in lists at the OS's.
func linkOS(n *hostops.Node, dir, osDir string) error {
	if err := n.Symlink(osDir+"/kernel", dir+"/kernel"); err != nil {
		return err
	}
	for _, name := range osIndexes {
		if err := n.Symlink(osDir+"/"+name, dir+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// indexed says whether modules.dep names every module file of a driver.
func indexed(n *hostops.Node, dir, driver, rel string) error {
	index := dir + "/modules.dep"
	b, err := n.ReadFile(index)
	if err != nil {
		return &NotIndexed{Release: rel, Module: driver, Index: index, Output: err.Error()}
	}
	named := map[string]bool{}
	for _, line := range strings.Split(string(b), "\n") {
		if file, _, ok := strings.Cut(line, ":"); ok {
			named[file] = true
		}
	}
	files, err := ownFiles(n, path.Join(dir, "updates", driver))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return &NotIndexed{Release: rel, Module: driver, Index: index, Output: "no module file is there"}
	}
	for _, f := range files {
		file := strings.TrimPrefix(f.Path, dir+"/")
		if module.IsModuleFile(file) && !named[file] {
			return &NotIndexed{Release: rel, Module: file, Index: index}
		}
	}
	return nil
}

// writeIndex makes modules.dep, modules.alias and modules.softdep as text, in
// depmod's form, for simulated nodes and for hosts whose modprobe is busybox's:
// the OS's own lines, and the side tree's modules first.
func writeIndex(n *hostops.Node, dir, osDir string) error {
	deps, byName := readDeps(n, osDir)
	files, err := ownFiles(n, dir+"/updates")
	if err != nil {
		return err
	}
	var infos []*module.Info
	own := map[string]*module.Info{}
	for _, f := range files {
		if !module.IsModuleFile(f.Path) {
			continue
		}
		file := strings.TrimPrefix(f.Path, dir+"/")
		info, err := readModule(n, f.Path)
		if err != nil {
			return err
		}
		name := module.NameOf(file)
		delete(deps, byName[name])
		byName[name], own[file] = file, info
		infos = append(infos, info)
	}
	for file, info := range own {
		deps[file] = nil
		for _, d := range info.Depends {
			if p := byName[module.Normalize(d)]; p != "" {
				deps[file] = append(deps[file], p)
			}
		}
	}
	if err := n.WriteFile(dir+"/modules.dep", depText(deps), 0o644); err != nil {
		return err
	}
	return writeAliases(n, dir, osDir, infos)
}

// readDeps reads the OS's modules.dep: file → files it needs, name → file.
func readDeps(n *hostops.Node, osDir string) (deps map[string][]string, byName map[string]string) {
	deps, byName = map[string][]string{}, map[string]string{}
	b, _ := n.ReadFile(osDir + "/modules.dep")
	for _, line := range strings.Split(string(b), "\n") {
		file, needs, ok := strings.Cut(line, ":")
		if ok && strings.HasPrefix(file, "kernel/") {
			deps[file] = strings.Fields(needs)
			byName[module.NameOf(file)] = file
		}
	}
	return deps, byName
}

// depText closes the dependencies and prints them, a file a line.
func depText(deps map[string][]string) []byte {
	files := make([]string, 0, len(deps))
	for f := range deps {
		files = append(files, f)
	}
	sort.Strings(files)
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f + ":")
		seen := map[string]bool{f: true}
		var walk func(string)
		walk = func(at string) {
			for _, d := range deps[at] {
				if !seen[d] {
					seen[d] = true
					b.WriteString(" " + d)
					walk(d)
				}
			}
		}
		walk(f)
		b.WriteString("\n")
	}
	return []byte(b.String())
}

// writeAliases makes modules.alias and modules.softdep.
func writeAliases(n *hostops.Node, dir, osDir string, infos []*module.Info) error {
	var alias, soft strings.Builder
	for _, i := range infos {
		for _, a := range i.Aliases {
			fmt.Fprintf(&alias, "alias %s %s\n", a, i.Name)
		}
		if line := softdep(i.Name, i.SoftPre, i.SoftPost); line != "" {
			soft.WriteString(line + "\n")
		}
	}
	for name, b := range map[string]*strings.Builder{"modules.alias": &alias, "modules.softdep": &soft} {
		theirs, _ := n.ReadFile(osDir + "/" + name)
		b.Write(theirs)
		if err := n.WriteFile(dir+"/"+name, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readModule reads what modinfo prints of a module file of the node.
func readModule(n *hostops.Node, p string) (*module.Info, error) {
	f, err := n.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := module.Read(f, path.Base(p), module.Limits{Only: module.Modinfo})
	if err != nil {
		return nil, fmt.Errorf("reading module %s: %w", p, err)
	}
	return info, nil
}
