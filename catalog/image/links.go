package image

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

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
		again.spent, again.counted = x.spent, x.counted
		todo, _ := x.img.layersFor(x.sel)
		if err := again.readLayers(ctx, todo); err != nil {
			return err
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
