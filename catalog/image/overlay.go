package image

import "hash/maphash"

// overlay knows what the layers above the one being read hide. Layers are read
// from the top, so a lower entry is written only when nothing above replaced
// it. Paths are kept as 64-bit seeded hashes: a layer of a million entries
// costs some 16 MiB and no name can be made to collide.
type overlay struct {
	seed maphash.Seed
	// above holds the layers already done, own the one being read.
	above, own marks
}

type marks struct {
	// files are all entries that are not directories, gone the removed paths,
	// opaque the directories whose lower content is hidden, dirs those with an
	// entry of their own, holds those with something in them.
	files, gone, opaque, dirs, holds map[uint64]struct{}
}

func newMarks() marks {
	return marks{files: map[uint64]struct{}{}, gone: map[uint64]struct{}{}, opaque: map[uint64]struct{}{}, dirs: map[uint64]struct{}{}, holds: map[uint64]struct{}{}}
}

func newOverlay() *overlay {
	return &overlay{seed: maphash.MakeSeed(), above: newMarks(), own: newMarks()}
}

func (o *overlay) key(p string) uint64 { return maphash.String(o.seed, p) }

func has(m map[uint64]struct{}, k uint64) bool { _, ok := m[k]; return ok }

// hides says whether a layer above makes the entry p invisible.
func (o *overlay) hides(p string, isDir bool) bool {
	k := o.key(p)
	if has(o.above.gone, k) || has(o.above.files, k) || (!isDir && has(o.above.dirs, k)) {
		return true
	}
	return parents(p, func(dir string) bool {
		k := o.key(dir)
		return has(o.above.files, k) || has(o.above.gone, k) || has(o.above.opaque, k)
	})
}

// file notes an entry that is no directory.
func (o *overlay) file(p string) {
	o.own.files[o.key(p)] = struct{}{}
	parents(p, func(dir string) bool {
		k := o.key(dir)
		known := has(o.own.holds, k)
		o.own.holds[k] = struct{}{}
		return known
	})
}

// removes says whether the layer just read removed p or a directory above it.
func (o *overlay) removes(p string) bool {
	if has(o.own.gone, o.key(p)) {
		return true
	}
	return parents(p, func(dir string) bool {
		return has(o.own.gone, o.key(dir)) || has(o.own.opaque, o.key(dir))
	})
}

// inLayer says whether the layer being read has a file or link at p.
func (o *overlay) inLayer(p string) bool { return has(o.own.files, o.key(p)) }

// exists says whether any layer done so far has an entry at p.
func (o *overlay) exists(p string) bool {
	k := o.key(p)
	return has(o.above.files, k) || has(o.above.dirs, k) || has(o.above.holds, k)
}

// next ends a layer.
func (o *overlay) next() {
	join(o.above.files, o.own.files)
	join(o.above.gone, o.own.gone)
	join(o.above.opaque, o.own.opaque)
	join(o.above.dirs, o.own.dirs)
	join(o.above.holds, o.own.holds)
	o.own = newMarks()
}

func join(to, from map[uint64]struct{}) {
	for k := range from {
		to[k] = struct{}{}
	}
}
