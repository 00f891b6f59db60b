package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// extraction writes the wanted files of an image below one directory. While it
// runs the directory holds plain files and directories only: links are kept in
// memory and made last, so no entry can be written through one.
type extraction struct {
	img  *Image
	root *os.Root
	sel  *selector
	over *overlay
	// files are the regular files written, links all links seen, by path.
	files map[string]written
	links map[string]link
	// wants are hard links whose content has not been met yet, by target.
	wants map[string][]hardlink
	found survey
	buf   []byte
	spent spending
	layer int // index of the layer being read
	tell  func(int64)
	// counted are the entries of all layers, read at once or not.
	counted *atomic.Int64
	// passes are the layers begun, for what is kept of a fetch that is broken
	// off; kept is called in a layer's turn after each of its entries and when
	// it is done.
	passes map[int]*pass
	kept   func(*pass)
	// later is firmware that is fetched when the modules are there.
	later []laterFirmware
}

type written struct {
	layer int
	size  int64
	class class
	sum   [sha256.Size]byte
}

type link struct {
	layer  int
	target string
	class  class
}

// hardlink is a name that wants the content of another path as it was in a
// layer or below it.
type hardlink struct {
	name  string
	layer int
	class class
}

// spending counts against the limits.
type spending struct{ files, bytes int64 }

// linkDepth bounds the links outside wanted trees that are remembered: those
// that can stand above a module tree, such as lib or opt/lib/modules.
const (
	linkDepth = 3
	linkCount = 50_000
)

func newExtraction(img *Image, root *os.Root, sel *selector) *extraction {
	return &extraction{img: img, root: root, sel: sel, over: newOverlay(), files: map[string]written{},
		links: map[string]link{}, wants: map[string][]hardlink{}, found: newSurvey(), buf: make([]byte, 128<<10),
		tell: func(int64) {}, counted: new(atomic.Int64), passes: map[int]*pass{}, kept: func(*pass) {}}
}

// eachEntry calls f with every entry of layer n and verifies the layer.
func (x *extraction) eachEntry(ctx context.Context, n int, f entryFunc) error {
	l, err := x.img.openLayer(ctx, n, layerOptions{tell: func(int64) {}, wait: func() error { return nil }})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := x.entries(ctx, l, f); err != nil {
		return err
	}
	return l.finish()
}

// entryFunc is given an entry's name, cleaned, and its content.
type entryFunc func(name string, h *tar.Header, r io.Reader) error

// entries calls f with every entry from where the layer's reader is.
func (x *extraction) entries(ctx context.Context, l *layerReader, f entryFunc) error {
	tr := tar.NewReader(l)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		switch {
		case err == nil:
			err = x.oneEntry(ctx, h, entryReader{tr, l}, f)
		case errors.Is(err, tar.ErrFieldTooLong):
			err = fail(Limit, "an entry has a name or another field of over 1 MiB, which no tool reads (limit name)").because(err)
		default:
			err = l.explain(err)
		}
		if err != nil {
			return inLayer(l, err)
		}
	}
}

// entryReader gives one entry's content with the true cause of an error.
type entryReader struct {
	tar   *tar.Reader
	layer *layerReader
}

func (r entryReader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	if err != nil && err != io.EOF {
		err = r.layer.explain(err)
	}
	return n, err
}

func (x *extraction) oneEntry(ctx context.Context, h *tar.Header, r io.Reader, f entryFunc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := x.countEntry(); err != nil {
		return err
	}
	name, err := cleanName(h.Name, x.img.opts.Limits)
	if err != nil {
		return err
	}
	if most := x.img.opts.Limits.Name; len(h.Linkname) > most {
		return fail(Limit, "the link %q leads to a name of %d bytes; %d are allowed (limit name)", name, len(h.Linkname), most)
	}
	return f(name, h, r)
}

func (x *extraction) countEntry() error {
	if x.counted.Add(1) > x.img.opts.Limits.Entries {
		return fail(Limit, "the image has more than %d entries (limit entries)", x.img.opts.Limits.Entries)
	}
	return nil
}

// inLayer adds the layer's digest to refusals that do not name it.
func inLayer(l *layerReader, err error) error {
	var e *Error
	if errors.As(err, &e) && !strings.Contains(e.Message, l.desc.Digest.Hex) {
		return &Error{Code: e.Code, Message: "reading " + l.name() + ": " + e.Message, Hint: e.Hint, Tags: e.Tags, Err: e.Err}
	}
	if e == nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("reading %s: %w", l.name(), err)
	}
	return err
}

// entry deals with one entry of the layer whose turn it is.
func (x *extraction) entry(name string, h *tar.Header, r io.Reader) error {
	if x.over.structure(x.over.own, name, h.Typeflag) {
		return nil
	}
	x.over.file(name)
	c := x.sel.classify(name, h.Typeflag == tar.TypeSymlink)
	hidden := x.over.hides(name, false)
	if !hidden {
		x.found.file(name)
	}
	if h.Typeflag == tar.TypeSymlink {
		return x.symlink(name, h.Linkname, c, hidden)
	}
	if waiting := x.waiting(name); len(waiting) > 0 && (h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse) {
		return x.content(name, h, r, c, hidden, waiting)
	}
	if c == nothing || hidden {
		return nil
	}
	if err := x.refuse(name, h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return x.hardlink(name, h, c)
	}
	if c == carrier {
		return x.unpackRPM(name, r)
	}
	return x.write(name, h.Size, r, c)
}

// refuse turns down kinds of entries that a driver image has no use for.
func (x *extraction) refuse(name string, h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeLink, tar.TypeGNUSparse:
	default:
		return fail(Hostile, "the entry %q is a device or of another special kind (type %q)", name, h.Typeflag)
	}
	if h.Mode&0o6000 != 0 {
		return fail(Hostile, "the entry %q is set-user-id or set-group-id", name)
	}
	return nil
}

func (x *extraction) symlink(name, target string, c class, hidden bool) error {
	if hidden || c == nothing && (deep(name) || len(x.links) >= linkCount) {
		return nil
	}
	if _, ok := linkTarget(name, target); !ok && c != nothing {
		return fail(Hostile, "the link %q points to %q, out of the image", name, target)
	}
	x.links[name] = link{layer: x.layer, target: target, class: c}
	return x.forget(name)
}

// deep says whether a link is too far down to stand above a module tree.
func deep(name string) bool { return strings.Count(name, "/") >= linkDepth }

// hardlink gives a second name to a file of the same layer, or remembers that
// the content is to be found below.
func (x *extraction) hardlink(name string, h *tar.Header, c class) error {
	target, err := cleanName(strings.TrimLeft(h.Linkname, "/"), x.img.opts.Limits)
	if err != nil {
		return fail(Hostile, "the hard link %q points to %q, out of the image", name, h.Linkname)
	}
	if target == name {
		return nil
	}
	if err := x.forget(name); err != nil {
		return err
	}
	if f, ok := x.files[target]; ok && f.layer == x.layer {
		return x.linkFile(target, name, c, x.layer)
	}
	x.wants[target] = append(x.wants[target], hardlink{name, x.layer, c})
	return nil
}

// waiting are the hard links of layers above that want the content of name.
func (x *extraction) waiting(name string) []hardlink {
	var out []hardlink
	for _, w := range x.wants[name] {
		if w.layer > x.layer {
			out = append(out, w)
		}
	}
	return out
}

// content writes a file for the hard links of upper layers, and in its own
// place when it is wanted there and visible.
func (x *extraction) content(name string, h *tar.Header, r io.Reader, c class, hidden bool, waiting []hardlink) error {
	at, first := name, 0
	if c == nothing || hidden {
		at, c, first = waiting[0].name, waiting[0].class, 1
	}
	if err := x.refuse(at, h); err != nil {
		return err
	}
	if err := x.write(at, h.Size, r, c); err != nil {
		return err
	}
	if first == 1 {
		x.belongs(at, waiting[0].layer)
	}
	x.dropWaiting(name)
	for _, w := range waiting[first:] {
		if err := x.linkFile(at, w.name, w.class, w.layer); err != nil {
			return err
		}
	}
	return nil
}

// belongs says that a file written is one of another layer: a hard link there.
func (x *extraction) belongs(name string, layer int) {
	f := x.files[name]
	f.layer = layer
	x.files[name] = f
}

func (x *extraction) dropWaiting(name string) {
	var keep []hardlink
	for _, w := range x.wants[name] {
		if w.layer <= x.layer {
			keep = append(keep, w)
		}
	}
	if x.wants[name] = keep; keep == nil {
		delete(x.wants, name)
	}
}

// forget removes what the same layer wrote at name before: the last entry of a
// path is the one that counts. Files are removed, never overwritten, because
// hard links share their content.
func (x *extraction) forget(name string) error {
	if _, ok := x.files[name]; ok {
		delete(x.files, name)
		return x.root.Remove(name)
	}
	return nil
}

func (x *extraction) linkFile(from, to string, c class, layer int) error {
	if err := x.parent(to); err != nil {
		return err
	}
	if err := x.root.Link(from, to); err != nil {
		return diskError("linking "+to, err)
	}
	x.files[to] = written{layer: layer, size: x.files[from].size, class: c, sum: x.files[from].sum}
	delete(x.links, to)
	return x.charge(0)
}

func (x *extraction) parent(name string) error {
	if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EEXIST) {
			return fail(Hostile, "the entry %q lies below a file", name)
		}
		return diskError("making the directory of "+name, err)
	}
	return nil
}

// write stores one file: a fresh inode of mode 0644, whatever the archive says.
func (x *extraction) write(name string, size int64, r io.Reader, c class) error {
	if size > x.img.opts.Limits.Bytes-x.spent.bytes {
		return fail(Limit, "the entry %q of %d bytes goes over the %d bytes allowed (limit bytes)", name, size, x.img.opts.Limits.Bytes)
	}
	if err := x.forget(name); err != nil {
		return diskError("replacing "+name, err)
	}
	if err := x.parent(name); err != nil {
		return err
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) {
			return fail(Hostile, "the entry %q is a directory and a file", name)
		}
		return diskError("writing "+name, err)
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(f, sum), struct{ io.Reader }{r}, x.buf)
	if err == nil {
		// Begin writing back now; settle waits for it. An error shows there.
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return diskError("writing "+name, errors.Join(err, x.root.Remove(name)))
	}
	x.files[name] = written{layer: x.layer, size: n, class: c, sum: [sha256.Size]byte(sum.Sum(nil))}
	delete(x.links, name)
	return x.charge(n)
}

func (x *extraction) charge(n int64) error {
	x.spent.files++
	x.spent.bytes += n
	if x.spent.files > x.img.opts.Limits.Files {
		return fail(Limit, "the image has more than %d wanted files (limit files)", x.img.opts.Limits.Files)
	}
	return nil
}

// diskError names a full disk; other errors keep their words.
func diskError(doing string, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fail(NoSpace, "%s: the disk is full", doing).because(err).
			hint("free space on the file system that it is written to")
	}
	return fmt.Errorf("%s: %w", doing, err)
}
