package module

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Decompress finds out by the first bytes how a stream is packed and returns
// its plain bytes, within the default window limit. A stream of another form
// comes back as it is, with [Plain]. The size is not limited: the caller reads
// as much as it wants. Errors while reading wrap [ErrPacked] or [ErrWindow].
func Decompress(r io.Reader) (io.Reader, Compression, error) {
	plain, packed, _, err := unpack(r, DefaultMaxWindow)
	return plain, packed, err
}

// Sniff names the compression that a file beginning with these bytes has.
func Sniff(head []byte) Compression {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return Gzip
	case bytes.HasPrefix(head, []byte(xzMagic)):
		return XZ
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return Zstd
	}
	return Plain
}

// unpack is Decompress that also returns the check type of an xz stream, -1
// for others.
func unpack(r io.Reader, maxWindow int64) (io.Reader, Compression, int, error) {
	br := bufio.NewReaderSize(r, 32<<10)
	head, err := br.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Plain, -1, err
	}
	packed := Sniff(head)
	switch packed {
	case Gzip:
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, packed, -1, fmt.Errorf("%w: gzip: %w", ErrPacked, err)
		}
		return &packedReader{zr, "gzip"}, packed, -1, nil
	case Zstd:
		zr, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(maxWindow, zstd.MinWindowSize))), zstd.WithDecoderMaxMemory(1<<40))
		if err != nil {
			return nil, packed, -1, fmt.Errorf("%w: zstd: %w", ErrPacked, err)
		}
		return &packedReader{zr, "zstd"}, packed, -1, nil
	case XZ:
		xr := &xzReader{r: br, maxWindow: maxWindow}
		if err := xr.start(); err != nil {
			return nil, packed, -1, err
		}
		return &packedReader{xr, "xz"}, packed, xr.check, nil
	}
	return br, Plain, -1, nil
}

// packedReader names the decoder in errors and gives each a kind.
type packedReader struct {
	r    io.Reader
	form string
}

func (p *packedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case errors.Is(err, ErrWindow) || errors.Is(err, ErrPacked):
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = fmt.Errorf("%w: %s", ErrWindow, p.form)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = cutError{p.form}
	default:
		err = fmt.Errorf("%w: %s: %w", ErrPacked, p.form, err)
	}
	p.close()
	return n, err
}

// close frees the decoder's buffers.
func (p *packedReader) close() {
	switch d := p.r.(type) {
	case *zstd.Decoder:
		d.Close()
	case *xzReader:
		d.drop()
	}
}

// cutError is a packed stream that ends early: ErrPacked and
// io.ErrUnexpectedEOF.
type cutError struct{ form string }

func (e cutError) Error() string {
	return fmt.Sprintf("%v: the %s stream ends early", ErrPacked, e.form)
}

func (cutError) Unwrap() []error { return []error{ErrPacked, io.ErrUnexpectedEOF} }
