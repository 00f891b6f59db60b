package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fitout/catalog/image/inflate"
)

// ratioFrom is the plain size below which the ratio limit does not apply.
const ratioFrom = 256 << 20

// placeEvery is how many plain bytes lie between two places at which reading a
// layer can go on after it was broken off.
const placeEvery = 4 << 20

// layerReader gives the plain tar of one layer while it verifies both the
// compressed bytes and the plain ones: they are fetched and hashed by one
// goroutine, decompressed and filtered by the caller, hashed again by a third.
// finish must be called: only then are the bytes known to be the right ones.
type layerReader struct {
	n     int
	desc  v1.Descriptor
	diff  v1.Hash // zero when the configuration does not name it
	lim   Limits
	raw   *rawReader
	plain *decoder
	sum   *sideSum
	chunkReader
	// near is the last place that reading can begin at again, nil for none.
	near    *place
	nearest int64
	// giveUp ends what the source waits for.
	giveUp context.CancelFunc
}

// place is where reading a layer can go on: a point of the gzip stream, with
// both hashes as they were there. The compressed bytes are taken up a little
// before the point.
type place struct {
	Point inflate.Point `json:"point"`
	Raw   rawMark       `json:"raw"`
	Plain []byte        `json:"plain"`
}

// layerOptions say how a layer is read: tell is called with each count of raw
// bytes that have passed, wait before a decoder takes much memory, from is where
// an earlier reading broke off, and given the layer's bytes if they are there
// already.
type layerOptions struct {
	tell  func(int64)
	wait  func() error
	from  *place
	given io.ReadCloser
}

// openLayer starts reading layer n.
func (img *Image) openLayer(ctx context.Context, n int, o layerOptions) (*layerReader, error) {
	desc, from := img.manifest.Layers[n], place{}
	if o.from != nil {
		from = *o.from
	}
	ctx, giveUp := context.WithCancel(ctx)
	src, err := o.given, error(nil)
	if src == nil {
		src, err = img.blobFrom(ctx, n, desc, from.Raw.At)
	}
	if err != nil {
		giveUp()
		return nil, err
	}
	l := &layerReader{n: n, desc: desc, lim: img.opts.Limits, plain: &decoder{stop: func() {}}, near: o.from, nearest: from.Point.Out, giveUp: giveUp}
	if n < len(img.config.RootFS.DiffIDs) {
		l.diff = img.config.RootFS.DiffIDs[n]
	}
	l.next = l.take
	if l.sum, err = newSideSum(from.Plain); err == nil {
		l.raw, err = newRawReader(src, desc.Size, from.Raw, o.tell)
	}
	if err != nil {
		giveUp()
		return nil, errors.Join(err, src.Close())
	}
	if o.from != nil {
		err = l.takeUp(from)
	} else {
		l.plain, err = decompress(l.raw, l.lim, o.wait)
	}
	if err != nil {
		err = l.explain(err)
		l.Close()
		return nil, err
	}
	return l, nil
}

// takeUp goes on from a place.
func (l *layerReader) takeUp(from place) error {
	if _, err := io.CopyN(io.Discard, struct{ io.Reader }{l.raw}, from.Point.In-from.Raw.At); err != nil {
		return noEOF(err)
	}
	z := inflate.Resume(l.raw, from.Point)
	l.plain = &decoder{chunks: z, gzip: z, packed: true, stop: func() {}}
	l.size = from.Point.Out
	return nil
}

func (l *layerReader) name() string { return fmt.Sprintf("layer %d (%s)", l.n+1, l.desc.Digest) }

// take makes the next chunk.
func (l *layerReader) take() ([]byte, error) {
	if l.plain.gzip != nil && l.size >= l.nearest+placeEvery {
		l.plain.gzip.StopAtBlock()
	}
	chunk, err := l.plain.Next()
	if err == io.EOF {
		return nil, err
	}
	if err != nil {
		return nil, l.explain(err)
	}
	l.sum.add(chunk)
	size := l.size + int64(len(chunk))
	if size > ratioFrom && size > l.raw.count*l.lim.Ratio {
		return nil, fail(Limit, "%s grows to more than %d times its size (limit ratio): %d bytes out of %d",
			l.name(), l.lim.Ratio, size, l.raw.count)
	}
	if l.plain.gzip != nil && size >= l.nearest+placeEvery {
		l.mark()
	}
	return chunk, nil
}

// mark notes the place after the chunk just made, if reading can go on there.
func (l *layerReader) mark() {
	p, ok := l.plain.gzip.Point()
	if !ok {
		return
	}
	if raw, ok := l.raw.markBefore(p.In); ok {
		l.near, l.nearest = &place{Point: p, Raw: raw, Plain: l.sum.state()}, p.Out
	}
}

// finish reads what is left and says whether the layer was what its digests
// promise.
func (l *layerReader) finish() error {
	for {
		if _, err := l.take(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if err := l.finishRaw(); err != nil {
		return err
	}
	if sum := l.sum.end(); l.diff.Hex != "" && hex.EncodeToString(sum) != l.diff.Hex {
		return fail(DigestMismatch, "%s unpacks to other bytes than the image's configuration promises: wanted %s, got sha256:%x",
			l.name(), l.diff, sum)
	}
	return nil
}

// finishRaw drains and checks the bytes as they came.
func (l *layerReader) finishRaw() error {
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{l.raw}); err != nil {
		return l.sourceError(err)
	}
	switch {
	case l.raw.count < l.desc.Size:
		return l.truncated()
	case l.raw.count > l.desc.Size:
		return fail(DigestMismatch, "%s is longer than the %d bytes that the manifest says", l.name(), l.desc.Size)
	}
	// A docker archive knows a layer by the digest of its plain tar alone.
	if l.plain.packed && l.desc.Digest == l.diff {
		return nil
	}
	if got := hex.EncodeToString(l.raw.sum.Sum(nil)); got != l.desc.Digest.Hex {
		return fail(DigestMismatch, "%s is not what its digest promises: got sha256:%s", l.name(), got)
	}
	return nil
}

// explain names the true cause of a failed decompression or tar: the source's
// own error, an early end, wrong bytes, and only then a broken file.
func (l *layerReader) explain(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	if l.raw.err != nil {
		return l.sourceError(l.raw.err)
	}
	if tooLarge(err) {
		return fail(Limit, "%s needs a larger window than is allowed (limit window: %d bytes for zstd, 64 MiB for xz)", l.name(), l.lim.Window).because(err)
	}
	if rerr := l.finishRaw(); rerr != nil {
		return rerr
	}
	return fail(Corrupt, "%s cannot be read", l.name()).because(err)
}

func (l *layerReader) sourceError(err error) error {
	var own *Error
	if errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("reading %s: %w", l.name(), err)
}

func (l *layerReader) truncated() error {
	return fail(Truncated, "%s ends after %d of %d bytes", l.name(), l.raw.count, l.desc.Size).
		hint("the copy is incomplete; fetch or copy the image again")
}

// Close releases the source and the decoder.
func (l *layerReader) Close() error {
	l.plain.stop()
	l.sum.end()
	l.giveUp()
	return l.raw.Close()
}
