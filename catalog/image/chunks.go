package image

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"fitout/catalog/image/inflate"
	"fitout/catalog/module"
)

// chunks gives plain bytes a chunk at a time. A chunk stays what it is until the
// call after the next, so it can be hashed while the next one is made. The end
// is io.EOF.
type chunks interface{ Next() ([]byte, error) }

// chunkSize is how much a decoder other than inflate gives at once.
const chunkSize = 128 << 10

// readerChunks reads into two buffers that take turns.
type readerChunks struct {
	src     io.Reader
	buffers [2][]byte
	turn    int
	err     error
}

func newReaderChunks(src io.Reader) *readerChunks {
	return &readerChunks{src: src, buffers: [2][]byte{make([]byte, chunkSize), make([]byte, chunkSize)}}
}

func (r *readerChunks) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.turn ^= 1
	n, err := readUpTo(r.src, r.buffers[r.turn])
	if r.err = err; n == 0 {
		return nil, err
	}
	return r.buffers[r.turn][:n], nil
}

// chunkReader reads a stream of chunks: bytes that are wanted are copied, bytes
// that are not are passed over.
type chunkReader struct {
	next  func() ([]byte, error)
	chunk []byte // what was made and not read yet
	size  int64  // bytes made so far, those in chunk included
}

// offset is the place of the next byte that Read gives.
func (c *chunkReader) offset() int64 { return c.size - int64(len(c.chunk)) }

func (c *chunkReader) advance() error {
	chunk, err := c.next()
	if err != nil {
		return err
	}
	c.chunk = chunk
	c.size += int64(len(chunk))
	return nil
}

// Read gives the next bytes.
func (c *chunkReader) Read(p []byte) (int, error) {
	for len(c.chunk) == 0 {
		if err := c.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.chunk)
	c.chunk = c.chunk[n:]
	return n, nil
}

// Seek passes over bytes without copying them; archive/tar uses it for content
// that nobody reads. It goes forwards only.
func (c *chunkReader) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 {
		return 0, errors.ErrUnsupported
	}
	for offset > int64(len(c.chunk)) {
		offset -= int64(len(c.chunk))
		c.chunk = nil
		if err := c.advance(); err != nil {
			return c.size, noEOF(err)
		}
	}
	c.chunk = c.chunk[offset:]
	return c.offset(), nil
}

// decoder is a decompression that was begun.
type decoder struct {
	chunks
	packed bool // the bytes were compressed
	// gzip is the same as chunks, nil for other compressions.
	gzip *inflate.Reader
	stop func()
}

// lightWindow is the largest zstd window that a layer may take before its turn
// has come.
const lightWindow = 4 << 20

// decompress finds the compression by the first bytes; the media type is not
// asked, for it is wrong often enough. wait is called before a decoder is made
// that takes much memory. The decoder is there, and can be stopped, even when
// there is an error.
func decompress(src io.Reader, lim Limits, wait func() error) (*decoder, error) {
	d := &decoder{stop: func() {}}
	br := bufio.NewReaderSize(src, rawBuffer)
	head, err := br.Peek(zstd.HeaderMaxSize)
	if err != nil && err != io.EOF {
		return d, err
	}
	d.packed = true
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		d.gzip = inflate.NewReader(br)
		d.chunks = d.gzip
	case isZstd(head):
		return d, d.zstd(br, lim, zstdWindow(head) > lightWindow, wait)
	case bytes.HasPrefix(head, []byte("BZh")):
		d.chunks = newReaderChunks(bzip2.NewReader(br))
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return d, d.xz(br, wait)
	default:
		d.chunks, d.packed = newReaderChunks(br), false
	}
	return d, nil
}

func (d *decoder) xz(src io.Reader, wait func() error) error {
	if err := wait(); err != nil {
		return err
	}
	z, _, err := module.Decompress(src)
	if err != nil {
		return noEOF(err)
	}
	d.chunks = newReaderChunks(z)
	return nil
}

func (d *decoder) zstd(src io.Reader, lim Limits, heavy bool, wait func() error) error {
	if heavy {
		if err := wait(); err != nil {
			return err
		}
	}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(lim.Window), zstd.WithDecoderMaxMemory(lim.Window+1<<20))
	if err != nil {
		return noEOF(err)
	}
	d.chunks, d.stop = newReaderChunks(z), z.Close
	return nil
}

// isZstd knows frames and the skippable ones before them.
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18})
}

// zstdWindow is the window that the first frame asks for; the largest when it
// does not say.
func zstdWindow(head []byte) uint64 {
	var h zstd.Header
	if err := h.Decode(head); err != nil || h.Skippable {
		return 1 << 62
	}
	if h.SingleSegment {
		return h.FrameContentSize
	}
	return h.WindowSize
}

// tooLarge says whether a decoder refused a window.
func tooLarge(err error) bool {
	return errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, module.ErrWindow)
}
