package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// tarIndex is where the members of an archive are.
type tarIndex struct {
	name    string
	most    int // members, at most
	members map[string]member
	order   []string
	cut     error
}

type member struct {
	offset, size int64
	link         string // target of a link, "" for a file
}

func newTarIndex(name string, most int) tarIndex {
	return tarIndex{name: name, most: most, members: map[string]member{}}
}

// positioned is a reader that knows where it is.
type positioned interface {
	io.Reader
	io.Seeker
}

// scan reads the index. seen is called with each member while it can be read.
func (t *tarIndex) scan(src positioned, seen func(h *tar.Header, name string, r io.Reader) error) error {
	r := tar.NewReader(src)
	for len(t.members) <= t.most {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && len(t.order) > 0 {
			t.cut = t.whereCut(src)
			return nil
		}
		if CodeOf(err) != "" {
			return err
		}
		if err != nil {
			return fail(Corrupt, "reading %s as a tar archive", t.name).because(err)
		}
		at, err := src.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("reading %s: %w", t.name, err)
		}
		if name := t.add(h, at); name != "" {
			if err := seen(h, name, r); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return fail(Corrupt, "reading %s of %s", name, t.name).because(err)
			}
		}
	}
	return fail(Limit, "archive %s has more than %d members (limit members)", t.name, t.most)
}

// add takes a member in; its name is "" when it is of no use.
func (t *tarIndex) add(h *tar.Header, at int64) string {
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	m := member{offset: at, size: h.Size}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink:
		m = member{link: path.Join(path.Dir(name), h.Linkname)}
	case tar.TypeLink:
		m = member{link: path.Clean(h.Linkname)}
	default:
		return ""
	}
	t.members[name] = m
	t.order = append(t.order, name)
	return name
}

func (t *tarIndex) whereCut(src io.Seeker) error {
	last := t.order[len(t.order)-1]
	m := t.members[last]
	end, err := src.Seek(0, io.SeekEnd)
	if err != nil { // a stream is where it could not go on
		end, _ = src.Seek(0, io.SeekCurrent)
	}
	return fail(Truncated, "archive %s ends after %d of %d bytes of %s", t.name, min(m.size, max(0, end-m.offset)), m.size, last).
		hint("copy the archive again, and compare its size or checksum with the original")
}

// find follows links to a member.
func (t *tarIndex) find(name string) (string, member, error) {
	name = path.Clean(name)
	for range 8 {
		m, ok := t.members[name]
		if !ok {
			return name, m, fs.ErrNotExist
		}
		if m.link == "" {
			return name, m, nil
		}
		name = m.link
	}
	return name, member{}, fmt.Errorf("links of %s lead nowhere: %w", name, fs.ErrNotExist)
}

func (t *tarIndex) first() []string { return firstOf(t.order) }
func (t *tarIndex) complete() error { return t.cut }
