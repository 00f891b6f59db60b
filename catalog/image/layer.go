package image

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fitout/catalog/module"
)

// ratioFrom is the plain size below which the ratio limit does not apply.
const ratioFrom = 256 << 20

// layerReader gives the plain tar of one layer while it verifies both the
// compressed bytes and the plain ones. finish must be called: only then are
// the bytes known to be the right ones.
type layerReader struct {
	n     int
	desc  v1.Descriptor
	diff  v1.Hash // zero when the configuration does not name it
	lim   Limits
	raw   *rawReader
	plain io.Reader
	sum   *sideSum
	size  int64
	packd bool
	stop  func()
}

// rawReader counts and hashes the bytes as they come from the source.
type rawReader struct {
	src   io.ReadCloser
	sum   hash.Hash
	count int64
	want  int64
	ended bool
	err   error // what the source said, io.EOF excepted
	tell  func(int64)
}

func (r *rawReader) Read(p []byte) (int, error) {
	if r.count > r.want {
		return 0, io.EOF
	}
	n, err := r.src.Read(p)
	r.sum.Write(p[:n])
	r.count += int64(n)
	r.tell(int64(n))
	if err == io.EOF {
		r.ended = true
	} else if err != nil {
		r.err = err
	}
	return n, err
}

// openLayer starts reading layer n. tell is called with each count of raw
// bytes that have passed.
func (img *Image) openLayer(ctx context.Context, n int, tell func(int64)) (*layerReader, error) {
	desc := img.manifest.Layers[n]
	src, err := img.src.blob(ctx, n, desc)
	if err != nil {
		return nil, err
	}
	l := &layerReader{n: n, desc: desc, lim: img.opts.Limits, sum: newSideSum(), stop: func() {},
		raw: &rawReader{src: src, sum: sha256.New(), want: desc.Size, tell: tell}}
	if n < len(img.config.RootFS.DiffIDs) {
		l.diff = img.config.RootFS.DiffIDs[n]
	}
	if err := l.decompress(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *layerReader) name() string { return fmt.Sprintf("layer %d (%s)", l.n+1, l.desc.Digest) }

// decompress finds the compression by the first bytes; the media type is not
// asked, for it is wrong often enough.
func (l *layerReader) decompress() error {
	br := bufio.NewReaderSize(l.raw, 64<<10)
	head, err := br.Peek(6)
	if err != nil && err != io.EOF {
		return l.explain(err)
	}
	l.packd, err = true, nil
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		l.plain, err = gzip.NewReader(br)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		var d *zstd.Decoder
		d, err = zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(l.lim.Window), zstd.WithDecoderMaxMemory(l.lim.Window+1<<20))
		if err == nil {
			l.plain, l.stop = d, d.Close
		}
	case bytes.HasPrefix(head, []byte("BZh")):
		l.plain = bzip2.NewReader(br)
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		l.plain, _, err = module.Decompress(br)
	default:
		l.plain, l.packd, err = br, false, nil
	}
	if err != nil {
		return l.explain(noEOF(err))
	}
	return nil
}

// Read gives plain bytes.
func (l *layerReader) Read(p []byte) (int, error) {
	n, err := l.plain.Read(p)
	l.sum.Write(p[:n])
	l.size += int64(n)
	if l.size > ratioFrom && l.size > l.raw.count*l.lim.Ratio {
		return n, fail(Limit, "%s grows to more than %d times its size (limit ratio): %d bytes out of %d",
			l.name(), l.lim.Ratio, l.size, l.raw.count)
	}
	if err != nil && err != io.EOF {
		return n, l.explain(err)
	}
	return n, err
}

// finish reads what is left and says whether the layer was what its digests
// promise.
func (l *layerReader) finish() error {
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{l}); err != nil {
		return err
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
	if l.packd && l.desc.Digest == l.diff {
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
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, module.ErrWindow) {
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
	l.stop()
	l.sum.end()
	return l.raw.src.Close()
}
