package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"path"
	"slices"
	"sort"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
)

// tailGuess is how much of a layer's end is asked for at once, in the hope that
// the table of contents is in it; gapBytes is how far two files may be apart to
// be fetched in one request.
const (
	tailGuess = 32 << 10
	gapBytes  = 16 << 10
)

// readModules fetches single modules of layer n by range. ok is false when that
// cannot be done here and the layer is to be read whole; what was written by
// then does no harm. whole is the layer when the registry sent all of it for the
// first range, else nil.
func (x *extraction) readModules(ctx context.Context, n int) (ok bool, whole io.ReadCloser, err error) {
	src, d := x.img.src.(*registrySource), x.img.manifest.Layers[n]
	r := &rangeReader{x: x, e: src.endpoints[src.at], d: d}
	err = r.read(ctx)
	var own *Error
	if errors.As(err, &own) && own.Code != Unreachable && own.Code != Truncated || ctx.Err() != nil {
		if r.whole != nil {
			r.whole.Close()
		}
		return true, nil, err
	}
	if err != nil {
		x.img.opts.Log(fmt.Sprintf("layer %d is read whole: %v", n+1, err))
		return false, r.whole, nil
	}
	return true, nil, nil
}

// byRange says whether single modules of layer n are wanted and may be had.
func (x *extraction) byRange(n int) bool {
	d := x.img.manifest.Layers[n]
	src, remote := x.img.src.(*registrySource)
	return remote && !src.endpoints[src.at].noRanges.Load() && x.sel.want.limited() && d.Annotations[tocAnnotation] != "" &&
		(d.Annotations[releaseAnnotation] != "" || d.Annotations[layerAnnotation] == "firmware")
}

// rangeReader reads files out of one layer.
type rangeReader struct {
	x *extraction
	e *endpoint
	d v1.Descriptor
	// whole is the layer, when that was the answer to a range.
	whole io.ReadCloser
}

func (r *rangeReader) read(ctx context.Context) error {
	t, err := r.table(ctx)
	if err != nil {
		return err
	}
	for _, l := range t.links {
		name, err := cleanName(l.Name, r.x.img.opts.Limits)
		if err != nil {
			return err
		}
		if c := r.x.sel.classify(name, true); c != nothing && !r.x.over.hides(name, false) {
			r.x.links[name] = link{layer: r.x.layer, target: l.LinkName, class: c}
		}
	}
	for i, f := range t.files {
		name, err := cleanName(f.name, r.x.img.opts.Limits)
		if err != nil {
			return err
		}
		t.files[i].name = name
		r.x.over.file(name)
		r.x.found.file(name)
	}
	if r.d.Annotations[layerAnnotation] == "firmware" {
		r.x.later = append(r.x.later, laterFirmware{r, r.x.layer, r.visible(t, firmware)})
		return nil
	}
	deps, err := r.dependencies(ctx, t)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(r.visible(t, tree), func(f tocFile) bool { return !deps.wants(f.name) })
	return r.fetch(ctx, wanted, func(f tocFile, content io.Reader) error {
		return r.x.write(f.name, f.size, content, tree)
	})
}

// visible are the files of a class that can be fetched and that no layer above
// hides.
func (r *rangeReader) visible(t *toc, c class) []tocFile {
	var out []tocFile
	for _, f := range t.files {
		if r.x.sel.classify(f.name, false) == c && !r.x.over.hides(f.name, false) && len(f.chunks) > 0 && f.mode&0o6000 == 0 {
			out = append(out, f)
		}
	}
	return out
}

// table reads the footer and the table of contents, mostly in one request.
func (r *rangeReader) table(ctx context.Context) (*toc, error) {
	from := max(0, r.d.Size-tailGuess)
	tail, err := r.bytes(ctx, from, r.d.Size)
	if err != nil {
		return nil, err
	}
	start, ok := tocStart(tail[max(0, len(tail)-tocFooter):])
	if !ok || start >= r.d.Size {
		return nil, fmt.Errorf("the layer has no table of contents")
	}
	if start < from {
		head, err := r.bytes(ctx, start, from)
		if err != nil {
			return nil, err
		}
		tail, from = append(head, tail...), start
	}
	return parseTOC(bytes.NewReader(tail[start-from:]), r.d.Annotations[tocAnnotation], start)
}

// bytes fetches a range. A registry that answers with the whole blob does not
// know ranges: it is not asked for one again, and its answer is kept.
func (r *rangeReader) bytes(ctx context.Context, from, to int64) ([]byte, error) {
	if to-from > tocBytes {
		return nil, fmt.Errorf("the table of contents of %s is larger than %d bytes", r.d.Digest, tocBytes)
	}
	body := r.part(ctx, from, to)
	resp, cancel, err := body.ask()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		r.e.noRanges.Store(true)
		whole := &blobReader{ctx: ctx, e: r.e, d: r.d}
		if err := whole.take(resp, cancel); err != nil {
			return nil, err
		}
		r.whole = whole
		return nil, fmt.Errorf("registry %s answers no ranges (%s)", r.e.host, resp.Status)
	}
	if err := body.take(resp, cancel); err != nil {
		return nil, err
	}
	defer body.Close()
	raw := make([]byte, to-from)
	_, err = io.ReadFull(tellReader{body, r.x.tell}, raw)
	return raw, noEOF(err)
}

// part reads the layer's bytes from one place to another.
func (r *rangeReader) part(ctx context.Context, from, to int64) *blobReader {
	return &blobReader{ctx: ctx, e: r.e, d: r.d, offset: from, to: to}
}

// wantedFiles are modules by their path in the tree; nil means all.
type wantedFiles struct{ byPath map[string]bool }

func (w wantedFiles) wants(name string) bool {
	at, ok := moduleTree(name)
	if !ok || w.byPath == nil {
		return ok
	}
	return w.byPath[at.rest] || at.rest == "modules.dep" || at.rest == "modules.softdep"
}

// dependencies reads depmod's tables and gives the wanted modules with all they
// need. A layer without them is read whole.
func (r *rangeReader) dependencies(ctx context.Context, t *toc) (wantedFiles, error) {
	names := r.x.sel.want.tableNames()
	var files []tocFile
	for _, f := range t.files {
		if at, ok := moduleTree(f.name); ok && slices.Contains(names, at.rest) && len(f.chunks) > 0 {
			files = append(files, f)
		}
	}
	texts := map[string]string{}
	err := r.fetch(ctx, files, func(f tocFile, content io.Reader) error {
		text, err := readAll(content, path.Base(f.name), tocBytes)
		texts[path.Base(f.name)] += string(text)
		return err
	})
	return wantedFiles{r.x.sel.want.needed(tables{texts["modules.dep"], texts["modules.softdep"], texts["modules.alias"]})}, err
}

// fetch reads files, neighbours in one request, and hands each to f.
func (r *rangeReader) fetch(ctx context.Context, files []tocFile, f func(tocFile, io.Reader) error) error {
	sort.Slice(files, func(i, j int) bool { return files[i].from() < files[j].from() })
	for len(files) > 0 {
		n := 1
		for n < len(files) && files[n].from()-files[n-1].to() <= gapBytes {
			n++
		}
		if err := r.fetchGroup(ctx, files[:n], f); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

func (r *rangeReader) fetchGroup(ctx context.Context, files []tocFile, f func(tocFile, io.Reader) error) error {
	body := r.part(ctx, files[0].from(), files[len(files)-1].to())
	if err := body.connect(); err != nil {
		return err
	}
	defer body.Close()
	counted := tellReader{body, r.x.tell}
	at := files[0].from()
	for _, file := range files {
		if _, err := io.CopyN(io.Discard, counted, file.from()-at); err != nil {
			return noEOF(err)
		}
		c := &fileReader{body: counted, file: file}
		if err := f(file, c); err != nil {
			return err
		}
		if err := c.rest(); err != nil {
			return err
		}
		at = file.to()
	}
	return nil
}

// tellReader tells how many bytes have passed.
type tellReader struct {
	io.Reader
	tell func(int64)
}

func (r tellReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.tell(int64(n))
	return n, err
}

// fileReader gives the content of one file, each chunk verified by its digest
// before the next is begun.
type fileReader struct {
	body   io.Reader
	file   tocFile
	next   int
	packed *io.LimitedReader
	plain  io.Reader
	sum    hash.Hash
	left   int64
}

func (c *fileReader) Read(p []byte) (int, error) {
	for c.left == 0 {
		if err := c.rest(); err != nil {
			return 0, err
		}
		if c.next == len(c.file.chunks) {
			return 0, io.EOF
		}
		if err := c.open(c.file.chunks[c.next]); err != nil {
			return 0, err
		}
		c.next++
	}
	n, err := c.plain.Read(p[:min(int64(len(p)), c.left)])
	c.sum.Write(p[:n])
	if c.left -= int64(n); c.left == 0 {
		want := c.file.chunks[c.next-1].digest
		if got := fmt.Sprintf("sha256:%x", c.sum.Sum(nil)); got != want {
			return n, fail(DigestMismatch, "%s is not what the table of contents promises: wanted %s, got %s", c.file.name, want, got)
		}
		return n, nil
	}
	return n, noEOF(err)
}

func (c *fileReader) open(ch tocChunk) error {
	c.packed = &io.LimitedReader{R: c.body, N: ch.to - ch.from}
	z, err := gzip.NewReader(c.packed)
	if err != nil {
		return noEOF(err)
	}
	z.Multistream(false)
	c.plain, c.sum, c.left = z, sha256.New(), ch.size
	return nil
}

// rest passes over what lies between the end of a chunk's content and the next
// chunk: padding and the next header.
func (c *fileReader) rest() error {
	if c.packed == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, c.packed)
	c.packed = nil
	return err
}
