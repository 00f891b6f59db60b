package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Annotations of layers that image pack writes; see ARCHITECTURE.md.
const (
	releaseAnnotation = "org.fitout.kernel.release"
	layerAnnotation   = "org.fitout.layer"
)

// markerName lies in a directory from the start of a fetch; inventoryName
// appears last, so a directory with both is complete.
const (
	markerName    = ".fitout-image"
	inventoryName = "inventory.json"
)

// Fetch reads the wanted part of the image into dir, keeping paths relative to
// the image's root, and returns what is there. Each layer is read once, from
// the top, and verified while it passes. dir is made when it is not there; a
// directory that an earlier fetch of the same image and want completed is used
// again without reading anything, a half-done one is started afresh. After an
// error nothing is left of dir.
func (img *Image) Fetch(ctx context.Context, dir string, want Want) (*Inventory, error) {
	if inv, err := ReadInventory(dir); err == nil && inv.Digest == img.digest && sameWant(inv.want, want) {
		return inv, nil
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	inv, err := img.fetchInto(ctx, dir, want)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return inv, nil
}

// prepareDir empties dir, but only one that a fetch made.
func prepareDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(entries) > 0 {
		if _, err := os.Lstat(filepath.Join(dir, markerName)); err != nil {
			return fmt.Errorf("fetching an image into %s: the directory is not empty and was not made by a fetch", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying %s: %w", dir, err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskError("making "+dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, markerName), nil, 0o600); err != nil {
		return diskError("marking "+dir, err)
	}
	return nil
}

func (img *Image) fetchInto(ctx context.Context, dir string, want Want) (*Inventory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	sel := newSelector(want)
	x, err := img.extract(ctx, root, sel)
	if err != nil {
		return nil, err
	}
	// An image for one other kernel may still serve this one (it is judged by
	// its symbols): when nothing was found, take what is there.
	if other := x.found.sortedReleases(); len(want.Releases) > 0 && !want.OnlyLicences && !x.hasModules() && len(other) == 1 {
		sel.releases = map[string]bool{other[0]: true}
		if x, err = img.extract(ctx, root, sel); err != nil {
			return nil, err
		}
	}
	if err := x.followLinks(ctx); err != nil {
		return nil, err
	}
	if err := x.makeLinks(); err != nil {
		return nil, err
	}
	inv, err := x.inventory(dir, want)
	if err != nil {
		return nil, err
	}
	if err := x.settle(); err != nil {
		return nil, err
	}
	return inv, inv.write(dir)
}

// extract passes over all layers that can hold something wanted.
func (img *Image) extract(ctx context.Context, root *os.Root, sel *selector) (*extraction, error) {
	x := newExtraction(img, root, sel)
	var done int64
	todo, total := img.layersFor(sel)
	x.tell = func(n int64) {
		done += n
		img.fetched += n
		img.opts.Progress(done, total)
	}
	for _, n := range todo {
		if err := x.readLayer(ctx, n); err != nil {
			return nil, err
		}
	}
	if err := x.unmet(); err != nil {
		return nil, err
	}
	for _, l := range img.manifest.Layers {
		if r := l.Annotations[releaseAnnotation]; r != "" {
			x.found.releases[r] = true
		}
	}
	return x, nil
}

// layersFor lists the layers to read, from the top, and their bytes. A layer's
// annotation is believed only while every layer above carries one too: below a
// layer of unknown content any path may matter.
func (img *Image) layersFor(sel *selector) (todo []int, bytes int64) {
	hinted := true
	for n := len(img.manifest.Layers) - 1; n >= 0; n-- {
		l := img.manifest.Layers[n]
		release, kind := l.Annotations[releaseAnnotation], l.Annotations[layerAnnotation]
		if hinted = hinted && (release != "" || kind != ""); hinted && !sel.layer(release, kind) {
			continue
		}
		todo = append(todo, n)
		bytes += l.Size
	}
	return todo, bytes
}

// layer says whether an annotated layer can hold something wanted.
func (s *selector) layer(release, kind string) bool {
	switch {
	case s.want.OnlyLicences:
		return kind == "licences"
	case release != "":
		return s.releases == nil || s.releases[release]
	case kind == "firmware":
		return len(s.firmware) > 0
	case kind == "licences":
		return s.want.Licences || s.want.LicenceFile != ""
	}
	return true
}

func (x *extraction) hasModules() bool {
	for p, f := range x.files {
		if f.class == carrier || isModule(p) {
			return true
		}
	}
	return false
}

// linkMap is the links by path.
func (x *extraction) linkMap() map[string]string {
	m := make(map[string]string, len(x.links))
	for p, l := range x.links {
		m[p] = l.target
	}
	return m
}

// linkRounds is how often the layers are read again for the targets of links;
// a link to a link to a file outside every wanted place needs two.
const linkRounds = 4

// followLinks reads what wanted links point to when it lies in the image but
// in no place that is wanted by itself.
func (x *extraction) followLinks(ctx context.Context) error {
	for range linkRounds {
		missing := x.danglers()
		if len(missing) == 0 {
			return nil
		}
		again := newExtraction(x.img, x.root, &selector{extra: missing})
		again.spent, again.tell = x.spent, func(int64) {}
		todo, _ := x.img.layersFor(x.sel)
		for _, n := range todo {
			if err := again.readLayer(ctx, n); err != nil {
				return err
			}
		}
		if err := again.unmet(); err != nil {
			return err
		}
		for p, f := range again.files {
			x.files[p] = f
		}
		for p, l := range again.links {
			if _, ok := x.links[p]; !ok {
				x.links[p] = l
			}
		}
		x.spent = again.spent
	}
	return nil
}

// danglers are the targets of wanted links that exist in the image but were
// not written.
func (x *extraction) danglers() []string {
	links := x.linkMap()
	dirs := x.dirs()
	var missing []string
	for p, l := range x.links {
		if l.class == nothing || hostLink(p, l.target) {
			continue
		}
		to, ok := resolve(links, p)
		if _, have := x.files[to]; !ok || have || dirs[to] || !x.over.exists(to) || underSystem(to) {
			continue
		}
		missing = append(missing, to)
	}
	sort.Strings(missing)
	return missing
}

// underSystem keeps a link such as "root -> /" or "usr -> ." from asking for
// the whole image.
func underSystem(p string) bool {
	switch p {
	case ".", "usr", "usr/lib", "lib", "opt", "usr/share", "usr/src", "etc", "var":
		return true
	}
	return false
}

// dirs are the directories that hold written files.
func (x *extraction) dirs() map[string]bool {
	d := map[string]bool{".": true}
	for p := range x.files {
		parents(p, func(dir string) bool {
			seen := d[dir]
			d[dir] = true
			return seen
		})
	}
	return d
}

// makeLinks merges directories that stand where a lower layer has a link
// (lib -> usr/lib) and then makes the links, as they are in the image.
func (x *extraction) makeLinks() error {
	paths := make([]string, 0, len(x.links))
	for p := range x.links {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		if err := x.mergeInto(p); err != nil {
			return err
		}
	}
	dirs, links := x.dirs(), x.linkMap()
	for _, p := range paths {
		l := x.links[p]
		if to, ok := resolve(links, p); l.class == nothing && (!ok || !dirs[to] || to == ".") {
			continue
		}
		if _, ok := resolve(links, path.Dir(p)); !ok || dirs[p] {
			continue
		}
		if err := x.makeLink(p, l); err != nil {
			return err
		}
	}
	return nil
}

func (x *extraction) makeLink(p string, l link) error {
	if real, _ := resolve(x.linkMap(), path.Dir(p)); real != path.Dir(p) {
		p = path.Join(real, path.Base(p))
	}
	if err := x.parent(p); err != nil {
		return err
	}
	if err := x.root.Symlink(l.target, p); err != nil && !errors.Is(err, unix.EEXIST) {
		return diskError("linking "+p, err)
	}
	return nil
}

// mergeInto moves what was written below p to where the link at p leads, as a
// container runtime would have written it through the link.
func (x *extraction) mergeInto(p string) error {
	if !x.dirs()[p] {
		return nil
	}
	to, ok := resolve(x.linkMap(), p)
	if !ok || to == p || below(to, p) {
		return fail(Hostile, "the link %q leads to itself or out of the image", p)
	}
	for _, f := range x.sortedFiles() {
		if !below(f, p) {
			continue
		}
		if err := x.move(f, path.Join(to, strings.TrimPrefix(f, p))); err != nil {
			return err
		}
	}
	if err := x.root.RemoveAll(p); err != nil {
		return fmt.Errorf("merging /%s into /%s: %w", p, to, err)
	}
	return nil
}

func (x *extraction) move(from, to string) error {
	rec := x.files[from]
	delete(x.files, from)
	if old, ok := x.files[to]; ok && old.layer > rec.layer {
		return x.root.Remove(from)
	}
	if err := x.parent(to); err != nil {
		return err
	}
	if err := x.root.Rename(from, to); err != nil {
		return diskError("moving "+from, err)
	}
	x.files[to] = rec
	return nil
}

func (x *extraction) sortedFiles() []string {
	out := make([]string, 0, len(x.files))
	for p := range x.files {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}
