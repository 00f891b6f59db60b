package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// layersAtOnce is how many layers are read beside each other. A gzip layer
// takes about a megabyte of buffers, a zstd one its window, at most lightWindow
// before its turn.
const layersAtOnce = 3

// aheadCount bounds what a layer may note before its turn.
const aheadCount = 20_000

// pass is the reading of one layer. Layers are judged from the top, so that one
// knows what those above it hide; but most layers hold nothing that is wanted,
// and finding that out needs no order. So a pass goes ahead as long as it meets
// nothing wanted, notes what later matters, and waits for its turn where it
// would have to write.
type pass struct {
	x    *extraction
	n    int
	turn <-chan struct{} // closed when all layers above are done
	mine bool
	own  marks
	// names and links were passed before the turn: names for the survey, links
	// that may stand above a module tree.
	names []string
	links []passedLink
	// border is the place in the plain tar up to which entries are dealt with,
	// spot the last place of the layer's reader before it, nil for the start.
	border int64
	spot   *place
	// given is the layer when the registry sent all of it for a range.
	given io.ReadCloser
	// verified says that the layer was read to its end, done that it also had
	// its turn.
	verified, done bool
}

// passedLink is a symbolic link seen before the layer's turn.
type passedLink struct{ Name, Target string }

// readLayers reads layers, given from the top. When one fails those below it,
// which wait for it, are given up; those above go on, so that what is kept of
// the fetch is as much as can be.
func (x *extraction) readLayers(ctx context.Context, todo []int) error {
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, n := range todo {
		if x.passes[n] == nil {
			x.passes[n] = &pass{x: x, n: n, own: newMarks()}
		}
	}
	slots, turn := make(chan struct{}, layersAtOnce), make(chan struct{})
	close(turn)
	errs := make([]error, len(todo))
	var running sync.WaitGroup
	own := whole
	for i, n := range todo {
		p, next := x.passes[n], make(chan struct{})
		p.turn, turn = turn, next
		below, giveUp := context.WithCancel(own)
		mine := own
		own = below
		slots <- struct{}{} // in order, so the topmost is never kept out
		running.Go(func() {
			defer func() { <-slots }()
			if errs[i] = p.run(mine); errs[i] == nil {
				close(next)
				return
			}
			if giveUp(); !x.img.mayGoOn(errs[i]) {
				cancel()
			}
		})
	}
	running.Wait()
	return firstCause(ctx, errs)
}

// from are the layers from n upwards, which only n's turn may look at.
func (x *extraction) from(n int) []*pass {
	var out []*pass
	for _, p := range x.passes {
		if p.n >= n {
			out = append(out, p)
		}
	}
	return out
}

// firstCause is the error of the topmost layer that did not just follow
// another's.
func firstCause(ctx context.Context, errs []error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (p *pass) run(ctx context.Context) error {
	if p.done || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.byRange(ctx); err != nil {
		return err
	}
	if !p.verified {
		if err := p.read(ctx); err != nil {
			return err
		}
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	if err := p.x.lookBack(ctx, p.n); err != nil {
		return err
	}
	if err := p.x.dropRemoved(); err != nil {
		return err
	}
	p.x.over.next()
	p.done, p.own, p.spot = true, marks{}, nil
	p.x.kept(p)
	return nil
}

// byRange fetches single modules where that can be done; else nothing happens.
// A layer of which a part was read goes on as it was begun.
func (p *pass) byRange(ctx context.Context) error {
	if p.verified || p.border > 0 || !p.x.byRange(p.n) {
		return nil
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	if !p.x.byRange(p.n) { // a layer above has found out
		return nil
	}
	ok, given, err := p.x.readModules(ctx, p.n)
	p.verified, p.given = ok && err == nil, given
	return err
}

// read passes over the layer from where it was left.
func (p *pass) read(ctx context.Context) error {
	l, err := p.x.img.openLayer(ctx, p.n, layerOptions{from: p.spot, tell: p.x.tell, given: p.given,
		wait: func() error { return p.await(ctx) }})
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := l.Seek(p.border-l.offset(), io.SeekCurrent); err != nil {
		return l.explain(err)
	}
	err = p.x.entries(ctx, l, func(name string, h *tar.Header, r io.Reader) error {
		start := l.offset()
		if err := p.entry(ctx, name, h, r); err != nil {
			return err
		}
		if err := p.settle(l, h, r, start); err != nil {
			return err
		}
		if p.mine {
			p.x.kept(p)
		}
		return nil
	})
	if err == nil {
		err = l.finish()
	}
	p.verified = err == nil
	return err
}

// entry deals with one entry, before or in the layer's turn.
func (p *pass) entry(ctx context.Context, name string, h *tar.Header, r io.Reader) error {
	if !p.mine && p.ahead(name, h) {
		return nil
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	return p.x.entry(name, h, r)
}

// ahead notes an entry that nothing has to be written for; ok is false when the
// entry has to wait.
func (p *pass) ahead(name string, h *tar.Header) (ok bool) {
	o := p.x.over
	if o.structure(p.own, name, h.Typeflag) {
		return true
	}
	isLink := h.Typeflag == tar.TypeSymlink
	if p.x.sel.classify(name, isLink) != nothing || len(p.names)+len(p.links) >= aheadCount {
		return false
	}
	o.note(p.own, name)
	if notable(name) {
		p.names = append(p.names, name)
	}
	if isLink && !deep(name) {
		p.links = append(p.links, passedLink{strings.Clone(name), h.Linkname})
	}
	return true
}

// await waits for the layer's turn and then does what was put off.
func (p *pass) await(ctx context.Context) error {
	if p.mine {
		return nil
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	x := p.x
	p.mine, x.layer, x.over.own = true, p.n, p.own
	for _, name := range p.names {
		if !x.over.hides(name, false) {
			x.found.file(name)
		}
	}
	for _, l := range p.links {
		if err := x.symlink(l.Name, l.Target, nothing, x.over.hides(l.Name, false)); err != nil {
			return err
		}
	}
	p.names, p.links = nil, nil
	return nil
}

// settle moves the border behind an entry that was dealt with. Content begins
// at start; what is not an ordinary file is read out to see where it ends.
func (p *pass) settle(l *layerReader, h *tar.Header, r io.Reader, start int64) error {
	end := start + h.Size
	if h.Typeflag != tar.TypeReg || sparse(h) {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		end = l.offset()
	}
	const block = 512
	p.border = (end + block - 1) / block * block
	if l.near != nil && l.near.Point.Out <= p.border {
		p.spot = l.near
	}
	return nil
}

// sparse says whether less is stored of a file than its size.
func sparse(h *tar.Header) bool {
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return true
		}
	}
	return false
}
