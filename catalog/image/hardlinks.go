package image

import (
	"archive/tar"
	"context"
	"io"
	"sort"
)

// lookBack gives hard links the content of targets in layer n that were not
// written when they passed: because they are wanted under the link's name
// alone, because a layer above replaced them, because they came later, or
// because they passed before the layers above were done. Only then is the layer
// read a second time.
func (x *extraction) lookBack(ctx context.Context, n int) error {
	if err := x.linkLater(n); err != nil {
		return err
	}
	for range maxLinks {
		pick := x.passedBy(n)
		if len(pick) == 0 {
			return nil
		}
		err := x.eachEntry(ctx, n, func(name string, h *tar.Header, r io.Reader) error {
			if links, ok := pick[name]; ok {
				return x.pickUp(name, h, r, links)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return fail(Hostile, "hard links of layer %d point to each other in a circle", n+1)
}

// linkLater serves links that came before their target.
func (x *extraction) linkLater(n int) error {
	for target, links := range x.wants {
		f, ok := x.files[target]
		if !ok || f.layer != n {
			continue
		}
		var keep []hardlink
		for _, l := range links {
			if l.layer != n {
				keep = append(keep, l)
				continue
			}
			if err := x.linkFile(target, l.name, l.class, n); err != nil {
				return err
			}
		}
		if x.wants[target] = keep; keep == nil {
			delete(x.wants, target)
		}
	}
	return nil
}

// passedBy takes the links of layer n and above whose target layer n itself has
// out of the waiting ones, by target.
func (x *extraction) passedBy(n int) map[string][]hardlink {
	pick := map[string][]hardlink{}
	for target, links := range x.wants {
		if !x.over.inLayer(target) {
			continue
		}
		var keep []hardlink
		for _, l := range links {
			if l.layer >= n {
				pick[target] = append(pick[target], l)
			} else {
				keep = append(keep, l)
			}
		}
		if x.wants[target] = keep; keep == nil {
			delete(x.wants, target)
		}
	}
	return pick
}

// pickUp writes the content of one target for its links. A target that is a
// link itself passes them on.
func (x *extraction) pickUp(name string, h *tar.Header, r io.Reader, links []hardlink) error {
	switch h.Typeflag {
	case tar.TypeLink:
		target, err := cleanName(h.Linkname, x.img.opts.Limits)
		if err != nil {
			return err
		}
		x.wants[target] = append(x.wants[target], links...)
		return nil
	case tar.TypeSymlink:
		for _, l := range links {
			x.links[l.name] = link{layer: l.layer, target: h.Linkname, class: l.class}
		}
		return nil
	case tar.TypeDir:
		return fail(Corrupt, "the hard link %q points to the directory %q", links[0].name, name)
	}
	if err := x.refuse(links[0].name, h); err != nil {
		return err
	}
	sort.Slice(links, func(i, j int) bool { return links[i].name < links[j].name })
	if err := x.write(links[0].name, h.Size, r, links[0].class); err != nil {
		return err
	}
	x.belongs(links[0].name, links[0].layer)
	for _, l := range links[1:] {
		if err := x.linkFile(links[0].name, l.name, l.class, l.layer); err != nil {
			return err
		}
	}
	return nil
}

// dropRemoved refuses hard links whose target the layer just read removed
// before any layer below could give its content.
func (x *extraction) dropRemoved() error {
	for target, links := range x.wants {
		if x.over.removes(target) {
			return fail(Corrupt, "the hard link %q points to %q, which layer %d removes", links[0].name, target, x.layer+1)
		}
	}
	return nil
}

// unmet says that all hard links have found their content.
func (x *extraction) unmet() error {
	for target, links := range x.wants {
		return fail(Corrupt, "the hard link %q points to %q, which no layer has", links[0].name, target)
	}
	return nil
}
