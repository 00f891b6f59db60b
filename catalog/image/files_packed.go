package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"fitout/catalog/image/inflate"
)

// packedFiles is an archive that is compressed as a whole, as
// "docker save | gzip" makes it. It is read once for its index; a member is then
// read from the nearest point before it in a gzip stream, and from the start in
// others. Nothing is unpacked to disk.
type packedFiles struct {
	file *os.File
	opts Options
	tarIndex
	// small are contents that were kept while the index was made, kept their
	// size in sum.
	small map[string][]byte
	kept  int64
	// points are places of a gzip stream before large members, in order, and
	// near is the last one passed.
	points []inflate.Point
	near   inflate.Point
}

// What is kept of a packed archive: members up to smallMember, and up to
// smallMembers in sum (manifests and configurations), and up to pointCount
// points, pointEvery or more plain bytes apart.
const (
	smallMember  = 256 << 10
	smallMembers = 8 << 20
	pointEvery   = 1 << 20
	pointCount   = 256
)

// isPacked says whether a file begins like a compressed one.
func isPacked(f *os.File) bool {
	head := make([]byte, 8)
	n, _ := f.ReadAt(head, 0)
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "\xfd7zXZ\x00", "BZh"} {
		if bytes.HasPrefix(head[:n], []byte(magic)) {
			return true
		}
	}
	return false
}

func openPacked(f *os.File, opts Options) (fileSet, error) {
	opts.Log(fmt.Sprintf("archive %s is compressed as a whole; reading all of it for its index", f.Name()))
	p := &packedFiles{file: f, opts: opts, tarIndex: newTarIndex(f.Name(), opts.Limits.Members), small: map[string][]byte{}}
	plain, err := p.from(0)
	if err != nil {
		return nil, err
	}
	defer plain.stop()
	plain.indexing = true
	err = p.scan(plain, p.keep)
	if err != nil && errors.Is(plain.failed, io.ErrUnexpectedEOF) {
		err = fail(Truncated, "archive %s ends early", p.name).because(plain.failed).
			hint("copy the archive again, and compare its size or checksum with the original")
	}
	return p, err
}

// packedReader is the plain archive from some place on.
type packedReader struct {
	chunkReader
	*decoder
	gone     int64 // compressed bytes used, about
	indexing bool
	failed   error // what the decoder said
}

// from opens the plain archive at offset.
func (p *packedFiles) from(offset int64) (*packedReader, error) {
	st, err := p.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.name, err)
	}
	r := &packedReader{}
	var at inflate.Point
	for _, point := range p.points {
		if point.Out <= offset {
			at = point
		}
	}
	src := tellReader{io.NewSectionReader(p.file, at.In, st.Size()-at.In), func(n int64) { r.gone += n }}
	if at.Out > 0 {
		z := inflate.Resume(src, at)
		r.decoder = &decoder{chunks: z, gzip: z, stop: func() {}}
		r.size = at.Out
	} else if r.decoder, err = decompress(src, p.opts.Limits, func() error { return nil }); err != nil {
		r.stop()
		return nil, fail(Corrupt, "reading %s", p.name).because(err)
	}
	r.next = func() ([]byte, error) { return p.take(r, at) }
	if _, err := r.Seek(offset-r.offset(), io.SeekCurrent); err != nil {
		r.stop()
		return nil, fmt.Errorf("reading %s: %w", p.name, err)
	}
	return r, nil
}

// take makes the next chunk of the plain archive.
func (p *packedFiles) take(r *packedReader, from inflate.Point) ([]byte, error) {
	if r.indexing && r.gzip != nil && r.size >= p.near.Out+pointEvery {
		if point, ok := r.gzip.Point(); ok {
			p.near = point
		}
		r.gzip.StopAtBlock()
	}
	chunk, err := r.Next()
	r.failed = err
	if plain := r.size - from.Out; err == nil && plain > ratioFrom && plain > r.gone*p.opts.Limits.Ratio {
		return nil, fail(Limit, "archive %s grows to more than %d times its size (limit ratio)", p.name, p.opts.Limits.Ratio)
	}
	return chunk, err
}

// keep remembers the content of a small member, and where a large one can be
// read from.
func (p *packedFiles) keep(h *tar.Header, name string, r io.Reader) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	if h.Size > smallMember || p.kept+h.Size > smallMembers {
		if n := len(p.points); n == 0 || n < pointCount && p.points[n-1].Out != p.near.Out {
			p.points = append(p.points, p.near)
		}
		return nil
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	p.small[name] = raw
	p.kept += int64(len(raw))
	return nil
}

func (p *packedFiles) open(name string) (io.ReadCloser, int64, error) {
	name, m, err := p.find(name)
	if err != nil {
		return nil, 0, err
	}
	if raw, ok := p.small[name]; ok {
		return io.NopCloser(bytes.NewReader(raw)), m.size, nil
	}
	r, err := p.from(m.offset)
	if err != nil {
		return nil, 0, err
	}
	return &packedMember{io.LimitReader(&r.chunkReader, m.size), r}, m.size, nil
}

// packedMember is one file of a packed archive.
type packedMember struct {
	io.Reader
	from *packedReader
}

func (m *packedMember) Close() error {
	m.from.stop()
	return nil
}

func (p *packedFiles) Close() error { return p.file.Close() }
