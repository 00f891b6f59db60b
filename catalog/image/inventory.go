package image

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"fitout/catalog/module"
)

// view is a file by the path under which a module tree shows it: its own, or
// that of a link to it.
type view struct{ shown, real string }

// moduleSet is one directory of modules for one kernel.
type moduleSet struct {
	tree    string // "opt/lib/modules/6.1.0-57-amd64", "opt/open"
	root    string // "opt"
	release string // "" for a tree without a release directory
	files   []view
	host    []string // links to the host's own modules
}

// inventory says what was extracted below dir.
func (x *extraction) inventory(dir string, want Want) (*Inventory, error) {
	inv := &Inventory{Reference: x.img.ref.String(), Digest: x.img.digest, IndexDigest: x.img.indexDigest,
		ConfigDigest: x.img.manifest.Config.Digest.String(), Labels: x.img.Labels(), Bytes: x.img.Size(), Fetched: x.img.fetched, want: want, sums: map[string][]byte{}}
	for p, f := range x.files {
		inv.sums[p] = f.sum[:]
	}
	var err error
	if want.OnlyLicences {
		inv.Releases = x.found.sortedReleases()
		inv.Licences, inv.Notes, err = x.licences()
		return inv, err
	}
	sets := x.moduleSets()
	if inv.Layout, err = recogniseLayout(x.contents(sets), inv.Reference, want); err != nil {
		return nil, err
	}
	if err := releasesOfLoose(dir, sets); err != nil {
		return nil, err
	}
	if sets, err = oneTreeEach(dir, sets, want); err != nil {
		return nil, err
	}
	for _, s := range sets {
		k := Kernel{Release: s.release, Tree: s.tree, HostLinks: s.host}
		for _, v := range s.files {
			k.Modules = append(k.Modules, Module{Path: v.real})
		}
		inv.Kernels = append(inv.Kernels, k)
		x.found.releases[s.release] = true
	}
	sort.Slice(inv.Kernels, func(i, j int) bool { return inv.Kernels[i].Release < inv.Kernels[j].Release })
	inv.Releases = x.found.sortedReleases()
	inv.Firmware = x.firmware()
	if inv.Licences, inv.Notes, err = x.licences(); err != nil {
		return nil, err
	}
	return inv, inv.readModules(dir)
}

// moduleSets groups the modules by directory and kernel. A file that is reached
// by several paths of one set counts once.
func (x *extraction) moduleSets() []*moduleSet {
	sets := map[string]*moduleSet{}
	at := func(p string) *moduleSet {
		s := &moduleSet{}
		if t, ok := moduleTree(p); ok {
			s.tree, s.root, s.release = path.Join(t.root, "lib/modules", t.release), t.root, t.release
		}
		for _, d := range looseDirs {
			if below(p, d) {
				s.tree, s.root = d, d
			}
		}
		if sets[s.tree] == nil {
			sets[s.tree] = s
		}
		return sets[s.tree]
	}
	for p, l := range x.links {
		if l.class == tree && hostLink(p, l.target) {
			s := at(p)
			s.host = append(s.host, p)
		}
	}
	for _, v := range x.views() {
		if s := at(v.shown); s.tree != "" && !s.holds(v.real) {
			s.files = append(s.files, v)
		}
	}
	var out []*moduleSet
	for _, name := range sortedKeys(sets) {
		s := sets[name]
		sort.Strings(s.host)
		if len(s.files) > 0 || len(s.host) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (s *moduleSet) holds(real string) bool {
	i := sort.Search(len(s.files), func(i int) bool { return s.files[i].real >= real })
	return i < len(s.files) && s.files[i].real == real
}

// views lists module files by the paths that show them, sorted by real path.
func (x *extraction) views() []view {
	var out []view
	links, files := x.linkMap(), x.sortedFiles()
	for _, f := range files {
		if isModule(f) {
			out = append(out, view{f, f})
		}
	}
	for p, l := range x.links {
		if l.class != tree || hostLink(p, l.target) {
			continue
		}
		to, ok := resolve(links, p)
		if !ok {
			continue
		}
		if _, isFile := x.files[to]; isFile && isModule(to) {
			out = append(out, view{p, to})
			continue
		}
		for _, f := range files {
			if below(f, to) && isModule(f) {
				out = append(out, view{p + strings.TrimPrefix(f, to), f})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].real != out[j].real {
			return out[i].real < out[j].real
		}
		return out[i].shown < out[j].shown
	})
	return out
}

// hostLink says whether a link of a module tree means the host's own modules:
// an absolute link to /lib/modules or, in KMM's way, /host/lib/modules. In an
// image whose modules are in /lib/modules itself only the latter can be.
func hostLink(p, target string) bool {
	at, ok := moduleTree(p)
	if !ok {
		return false
	}
	for _, prefix := range []string{"/host/lib/modules", "/host/usr/lib/modules"} {
		if target == prefix || below(target, prefix) {
			return true
		}
	}
	if at.root == "" || at.root == "usr" {
		return false
	}
	for _, prefix := range []string{"/lib/modules", "/usr/lib/modules"} {
		if target == prefix || below(target, prefix) {
			return true
		}
	}
	return false
}

func (x *extraction) contents(sets []*moduleSet) contents {
	c := contents{found: &x.found, labels: x.img.Labels(), entrypoint: append(append([]string{}, x.img.config.Config.Entrypoint...), x.img.config.Config.Cmd...), env: x.img.config.Config.Env}
	for _, s := range sets {
		if s.release == "" {
			c.loose = append(c.loose, s.tree)
		} else if dir, isPackage := packageOf(s.root); isPackage {
			c.packages = append(c.packages, dir)
		} else {
			c.roots = append(c.roots, s.root)
		}
		for _, v := range s.files {
			c.modules = append(c.modules, v.shown)
		}
	}
	for p, f := range x.files {
		if f.class == firmware {
			c.firmware = append(c.firmware, p)
		}
	}
	return c
}

// releasesOfLoose gives trees without a release directory the release that
// their modules were built for.
func releasesOfLoose(dir string, sets []*moduleSet) error {
	for _, s := range sets {
		for _, v := range s.files {
			if s.release != "" {
				break
			}
			info, err := module.ReadFile(filepath.Join(dir, filepath.FromSlash(v.real)))
			if err != nil {
				return fail(Corrupt, "reading module %s", v.real).because(err)
			}
			s.release, _, _ = strings.Cut(info.Vermagic, " ")
		}
	}
	return nil
}

// oneTreeEach leaves one set of modules for each kernel. A tree that others of
// the same kernel link to as the host's is not the vendor's; trees with the
// same files count once; different ones are refused, for nothing says which is
// meant.
func oneTreeEach(dir string, sets []*moduleSet, want Want) ([]*moduleSet, error) {
	byRelease := map[string][]*moduleSet{}
	for _, s := range sets {
		byRelease[s.release] = append(byRelease[s.release], s)
	}
	var out []*moduleSet
	for _, release := range sortedKeys(byRelease) {
		same, err := distinct(dir, withoutHosts(byRelease[release]))
		if err != nil {
			return nil, err
		}
		if same, err = mergePackages(same); err != nil {
			return nil, err
		}
		if len(same) > 1 && !want.EveryTree {
			return nil, fail(TwoTrees, "the image has two different module trees for kernel %s: /%s and /%s", release, same[0].tree, same[1].tree).
				hint("name the one that is meant with dirName: /%s or /%s", dirNameOf(same[0]), dirNameOf(same[1]))
		}
		out = append(out, same...)
	}
	return out, nil
}

func dirNameOf(s *moduleSet) string {
	if s.release != "" && strings.HasSuffix(s.tree, "/"+s.release) {
		return strings.TrimSuffix(strings.TrimSuffix(s.tree, s.release), "lib/modules/")
	}
	return s.tree
}

// withoutHosts drops the copy of the host's own tree when another tree of the
// same kernel has links to it.
func withoutHosts(sets []*moduleSet) []*moduleSet {
	linked := false
	for _, s := range sets {
		linked = linked || len(s.host) > 0 && s.root != "" && s.root != "usr"
	}
	var out []*moduleSet
	for _, s := range sets {
		if linked && (s.root == "" || s.root == "usr") {
			continue
		}
		out = append(out, s)
	}
	return out
}

// distinct drops sets whose files another set has too.
func distinct(dir string, sets []*moduleSet) ([]*moduleSet, error) {
	if len(sets) < 2 {
		return sets, nil
	}
	sums := make([]map[string]string, len(sets))
	for i, s := range sets {
		sums[i] = map[string]string{}
		for _, v := range s.files {
			sum, err := fileSum(filepath.Join(dir, filepath.FromSlash(v.real)))
			if err != nil {
				return nil, err
			}
			sums[i][strings.TrimPrefix(v.shown, s.tree+"/")] = sum
		}
	}
	var out []*moduleSet
	for i, s := range sets {
		drop := false
		for j := range sets {
			drop = drop || j != i && contained(sums[i], sums[j]) && (j < i || !contained(sums[j], sums[i]))
		}
		if !drop {
			out = append(out, s)
		}
	}
	return out, nil
}

func contained(a, b map[string]string) bool {
	for p, sum := range a {
		if b[p] != sum {
			return false
		}
	}
	return true
}

func fileSum(p string) (string, error) {
	f, err := openFile(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing %s: %w", p, err)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// firmware lists the firmware files by the names a driver asks for. Where two
// places have the same name the earlier place counts, and a file before a link.
func (x *extraction) firmware() []File {
	type found struct {
		File
		dir int
	}
	byName := map[string]found{}
	add := func(shown, real string) {
		dir, rest, ok := x.sel.firmwareAt(shown)
		name := firmwareName(rest)
		if other, known := byName[name]; ok && (!known || dir < other.dir && shown == real) {
			byName[name] = found{File{Path: real, Name: name, Size: x.files[real].size}, dir}
		}
	}
	for _, p := range x.sortedFiles() {
		if x.files[p].class == firmware {
			add(p, p)
		}
	}
	links := x.linkMap()
	for _, p := range sortedKeys(x.links) {
		to, ok := resolve(links, p)
		if _, isFile := x.files[to]; x.links[p].class == firmware && ok && isFile {
			add(p, to)
		}
	}
	var out []File
	for _, n := range sortedKeys(byName) {
		out = append(out, byName[n].File)
	}
	return out
}

// firmwareName is the name without the compression the kernel looks through.
func firmwareName(p string) string {
	return strings.TrimSuffix(strings.TrimSuffix(p, ".xz"), ".zst")
}
