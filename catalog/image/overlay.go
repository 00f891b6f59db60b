package image

import (
	"archive/tar"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"path"
	"strings"
)

// overlay knows what the layers above the one being read hide. Layers count
// from the top, so a lower entry is written only when nothing above replaced
// it. Paths are kept as 64-bit keyed hashes: a layer of a million entries costs
// some 16 MiB and no name can be made to collide.
type overlay struct {
	seed pathKey
	// above holds the layers already done, own the one being read.
	above, own marks
}

type marks struct {
	// Files are all entries that are not directories, Gone the removed paths,
	// Opaque the directories whose lower content is hidden, Dirs those with an
	// entry of their own, Holds those with something in them.
	Files, Gone, Opaque, Dirs, Holds keys
}

// keys is a set of hashed paths.
type keys map[uint64]struct{}

func (k keys) has(key uint64) bool { _, ok := k[key]; return ok }
func (k keys) add(key uint64)      { k[key] = struct{}{} }

// MarshalJSON writes eight bytes a key.
func (k keys) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 8*len(k))
	for key := range k {
		raw = binary.LittleEndian.AppendUint64(raw, key)
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(raw))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (k *keys) UnmarshalJSON(text []byte) error {
	var raw []byte
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*k = make(keys, len(raw)/8)
	for ; len(raw) >= 8; raw = raw[8:] {
		k.add(binary.LittleEndian.Uint64(raw))
	}
	return nil
}

func newMarks() marks { return marks{keys{}, keys{}, keys{}, keys{}, keys{}} }

// sound says whether all sets are there, as after newMarks.
func (m marks) sound() bool {
	return m.Files != nil && m.Gone != nil && m.Opaque != nil && m.Dirs != nil && m.Holds != nil
}

func newOverlay() *overlay {
	return &overlay{seed: newPathKey(), above: newMarks(), own: newMarks()}
}

func (o *overlay) key(p string) uint64 { return o.seed.of(p) }

// hides says whether a layer above makes the entry p invisible.
func (o *overlay) hides(p string, isDir bool) bool {
	k := o.key(p)
	if o.above.Gone.has(k) || o.above.Files.has(k) || (!isDir && o.above.Dirs.has(k)) {
		return true
	}
	return parents(p, func(dir string) bool {
		k := o.key(dir)
		return o.above.Files.has(k) || o.above.Gone.has(k) || o.above.Opaque.has(k)
	})
}

// note takes an entry that is no directory into the marks of a layer.
func (o *overlay) note(m marks, p string) {
	m.Files.add(o.key(p))
	parents(p, func(dir string) bool {
		k := o.key(dir)
		known := m.Holds.has(k)
		m.Holds.add(k)
		return known
	})
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// structure takes an entry that is a directory, a whiteout or nothing at all
// into the marks of a layer; ok is false for every other entry.
func (o *overlay) structure(m marks, name string, kind byte) (ok bool) {
	dir, base := path.Dir(name), path.Base(name)
	switch {
	case name == ".", kind == tar.TypeXGlobalHeader:
	case base == opaque:
		m.Opaque.add(o.key(dir))
	case strings.HasPrefix(base, whiteout+whiteout): // aufs's own book-keeping
	case strings.HasPrefix(base, whiteout):
		m.Gone.add(o.key(path.Join(dir, base[len(whiteout):])))
	case kind == tar.TypeDir:
		m.Dirs.add(o.key(name))
	default:
		return false
	}
	return true
}

// file notes an entry of the layer being read.
func (o *overlay) file(p string) { o.note(o.own, p) }

// removes says whether the layer just read removed p or a directory above it.
func (o *overlay) removes(p string) bool {
	if o.own.Gone.has(o.key(p)) {
		return true
	}
	return parents(p, func(dir string) bool {
		return o.own.Gone.has(o.key(dir)) || o.own.Opaque.has(o.key(dir))
	})
}

// inLayer says whether the layer being read has a file or link at p.
func (o *overlay) inLayer(p string) bool { return o.own.Files.has(o.key(p)) }

// exists says whether any layer done so far has an entry at p.
func (o *overlay) exists(p string) bool {
	k := o.key(p)
	return o.above.Files.has(k) || o.above.Dirs.has(k) || o.above.Holds.has(k)
}

// next ends a layer.
func (o *overlay) next() {
	join(o.above.Files, o.own.Files)
	join(o.above.Gone, o.own.Gone)
	join(o.above.Opaque, o.own.Opaque)
	join(o.above.Dirs, o.own.Dirs)
	join(o.above.Holds, o.own.Holds)
	o.own = newMarks()
}

func join(to, from keys) {
	for k := range from {
		to.add(k)
	}
}
