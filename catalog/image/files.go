package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
)

// fileSet is the files of a layout directory or of an archive.
type fileSet interface {
	// open gives a file's bytes and the size it should have; the bytes may end
	// earlier. A file that is not there is fs.ErrNotExist.
	open(name string) (io.ReadCloser, int64, error)
	// first lists some of the names, for messages.
	first() []string
	// complete is nil, or says where the archive breaks off.
	complete() error
	Close() error
}

// dirFiles is a directory, read through os.Root so that a link in it leads
// nowhere else.
type dirFiles struct{ root *os.Root }

func openDir(dir string) (fileSet, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fail(NotFound, "opening image layout %s", dir).because(err)
	}
	return dirFiles{root}, nil
}

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, 0, errors.Join(err, fs.ErrNotExist)
	}
	return f, st.Size(), nil
}

func (d dirFiles) first() []string {
	entries, _ := fs.ReadDir(d.root.FS(), ".")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return firstOf(names)
}

func (d dirFiles) complete() error { return nil }
func (d dirFiles) Close() error    { return d.root.Close() }

// tarFiles is an uncompressed archive: an index of its members, read in place.
type tarFiles struct {
	file    *os.File
	members map[string]member
	order   []string
	cut     error
}

type member struct {
	offset, size int64
	link         string // target of a link, "" for a file
}

// openTar reads the index of an archive of at most that many members.
func openTar(file string, most int) (fileSet, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fail(NotFound, "opening image archive").because(err)
	}
	t := &tarFiles{file: f, members: map[string]member{}}
	if err := t.scan(file, most); err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

// wholeArchive names compressions of a whole archive by their first bytes.
var wholeArchive = []struct{ magic, name, tool string }{
	{"\x1f\x8b", "gzip", "gunzip"},
	{"\x28\xb5\x2f\xfd", "zstd", "unzstd"},
	{"\xfd7zXZ\x00", "xz", "unxz"},
	{"BZh", "bzip2", "bunzip2"},
}

func (t *tarFiles) scan(file string, most int) error {
	head := make([]byte, 8)
	n, _ := t.file.ReadAt(head, 0)
	for _, w := range wholeArchive {
		if bytes.HasPrefix(head[:n], []byte(w.magic)) {
			return fail(UnsupportedManifest, "archive %s is compressed as a whole with %s and cannot be read in place", file, w.name).
				hint("unpack it once with %s", w.tool)
		}
	}
	r := tar.NewReader(t.file)
	for len(t.members) <= most {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && len(t.order) > 0 {
			t.cut = t.whereCut(file)
			return nil
		}
		if err != nil {
			return fail(Corrupt, "reading %s as a tar archive", file).because(err)
		}
		if err := t.add(h); err != nil {
			return err
		}
	}
	return fail(Limit, "archive %s has more than %d members (limit members)", file, most)
}

func (t *tarFiles) add(h *tar.Header) error {
	at, err := t.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	m := member{offset: at, size: h.Size}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink:
		m = member{link: path.Join(path.Dir(name), h.Linkname)}
	case tar.TypeLink:
		m = member{link: path.Clean(h.Linkname)}
	default:
		return nil
	}
	t.members[name] = m
	t.order = append(t.order, name)
	return nil
}

func (t *tarFiles) whereCut(file string) error {
	last := t.order[len(t.order)-1]
	m, size := t.members[last], int64(0)
	if st, err := t.file.Stat(); err == nil {
		size = st.Size()
	}
	return fail(Truncated, "archive %s ends after %d of %d bytes of %s", file, max(0, size-m.offset), m.size, last).
		hint("copy the archive again, and compare its size or checksum with the original")
}

func (t *tarFiles) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	for range 8 {
		m, ok := t.members[name]
		if !ok {
			return nil, 0, fs.ErrNotExist
		}
		if m.link == "" {
			return io.NopCloser(io.NewSectionReader(t.file, m.offset, m.size)), m.size, nil
		}
		name = m.link
	}
	return nil, 0, fmt.Errorf("links of %s lead nowhere: %w", name, fs.ErrNotExist)
}

func (t *tarFiles) first() []string { return firstOf(t.order) }
func (t *tarFiles) complete() error { return t.cut }
func (t *tarFiles) Close() error    { return t.file.Close() }

// firstOf gives the first few names in order.
func firstOf(names []string) []string {
	names = append([]string(nil), names...)
	sort.Strings(names)
	return names[:min(len(names), 8)]
}
