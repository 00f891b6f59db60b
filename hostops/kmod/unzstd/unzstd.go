// Package unzstd unpacks a zstd stream whose window is its whole content, as
// kernels are packed ("zstd --ultra -22", up to 128 MiB). The window is the
// output itself, outside of Go's heap: only what was decoded takes memory, a
// run of zeros takes none, and all of it is given back at once.
//
// Names follow RFC 8878. Checksums and dictionaries are not looked at.
package unzstd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/klauspost/compress/huff0"
)

// ErrDamaged is wrapped by errors about the stream's content.
var ErrDamaged = errors.New("damaged zstd stream")

func damaged(what string) error { return fmt.Errorf("%w: %s", ErrDamaged, what) }

const (
	magic    = 0xfd2fb528
	maxBlock = 128 << 10
)

// Reader unpacks one frame.
type Reader struct {
	r        *bufio.Reader
	memory   []byte // of the window, mapped
	all      []byte // what was decoded
	out      int    // of it, what was read
	last     bool
	err      error
	block    []byte
	literals []byte
	huffman  *huff0.Scratch // nil before the first table
	tables   [3]*table      // of literal lengths, offsets, match lengths
	recent   [3]int         // offsets
}

// NewReader reads a frame of at most size bytes. Close gives its memory back.
func NewReader(r io.Reader, size int) (*Reader, error) {
	z := &Reader{r: bufio.NewReaderSize(r, 64<<10), block: make([]byte, maxBlock), literals: make([]byte, 0, maxBlock), recent: [3]int{1, 4, 8}}
	if err := z.header(); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(-1, 0, max(size, 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("taking %d bytes for a zstd window: %w", size, err)
	}
	z.memory, z.all = memory, memory[:0:size]
	return z, nil
}

// Close gives the window back; what Read gave stays valid.
func (z *Reader) Close() error {
	z.err, z.all, z.out = io.ErrClosedPipe, nil, 0
	m := z.memory
	z.memory = nil
	if m == nil {
		return nil
	}
	return syscall.Munmap(m)
}

// header reads the frame header (section 3.1.1.1).
func (z *Reader) header() error {
	var b [5]byte
	if _, err := io.ReadFull(z.r, b[:]); err != nil {
		return damaged("its header is cut short")
	}
	if binary.LittleEndian.Uint32(b[:]) != magic || b[4]&8 != 0 {
		return damaged("bad header")
	}
	single, dictionary := b[4]&0x20 != 0, int(b[4]&3)
	if dictionary != 0 {
		return damaged("it needs a dictionary")
	}
	rest := []int{0, 2, 4, 8}[b[4]>>6] // the content's size
	switch {
	case !single:
		rest++ // the window's size
	case rest == 0:
		rest = 1
	}
	if _, err := z.r.Discard(rest); err != nil {
		return damaged("its header is cut short")
	}
	return nil
}

func (z *Reader) Read(p []byte) (int, error) {
	for z.out == len(z.all) {
		if z.err == nil && z.last {
			z.err = io.EOF
		}
		if z.err != nil {
			return 0, z.err
		}
		z.err = z.next()
	}
	n := copy(p, z.all[z.out:])
	z.out += n
	return n, nil
}

// next decodes a block (section 3.1.1.2).
func (z *Reader) next() error {
	var h [3]byte
	if _, err := io.ReadFull(z.r, h[:]); err != nil {
		return io.ErrUnexpectedEOF
	}
	head := uint32(h[0]) | uint32(h[1])<<8 | uint32(h[2])<<16
	z.last = head&1 != 0
	size := int(head >> 3)
	if size > maxBlock {
		return damaged("a block is too large")
	}
	switch head >> 1 & 3 {
	case 0: // raw
		to, err := z.room(size)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(z.r, to); err != nil {
			return io.ErrUnexpectedEOF
		}
	case 1: // one byte, many times
		c, err := z.r.ReadByte()
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		to, err := z.room(size)
		if err != nil {
			return err
		}
		for i := 0; c != 0 && i < len(to); i++ { // the memory has zeros
			to[i] = c
		}
	case 2:
		if _, err := io.ReadFull(z.r, z.block[:size]); err != nil {
			return io.ErrUnexpectedEOF
		}
		return z.compressed(z.block[:size])
	default:
		return damaged("unknown block type")
	}
	return nil
}

// room makes what was decoded n bytes longer.
func (z *Reader) room(n int) ([]byte, error) {
	at := len(z.all)
	if n > cap(z.all)-at {
		return nil, damaged("it is longer than it should be")
	}
	z.all = z.all[:at+n]
	return z.all[at:], nil
}

// compressed decodes a compressed block: literals, then the sequences that say
// how they and what was decoded are put together.
func (z *Reader) compressed(b []byte) error {
	literals, b, err := z.readLiterals(b)
	if err != nil {
		return err
	}
	count, b, err := sequenceCount(b)
	if err != nil {
		return err
	}
	start := len(z.all)
	if count > 0 {
		if literals, err = z.sequences(b, count, literals, start); err != nil {
			return err
		}
	} else if len(b) > 0 {
		return damaged("bytes behind a block")
	}
	if len(z.all)-start+len(literals) > maxBlock {
		return damaged("a block is too large")
	}
	to, err := z.room(len(literals))
	copy(to, literals)
	return err
}

func sequenceCount(b []byte) (int, []byte, error) {
	switch {
	case len(b) > 0 && b[0] < 128:
		return int(b[0]), b[1:], nil
	case len(b) > 1 && b[0] < 255:
		return int(b[0]-128)<<8 + int(b[1]), b[2:], nil
	case len(b) > 2:
		return int(b[1]) + int(b[2])<<8 + 0x7f00, b[3:], nil
	}
	return 0, nil, damaged("a block without sequences")
}

// readLiterals reads the literals section (3.1.1.3.1) and returns what follows.
func (z *Reader) readLiterals(b []byte) (literals, rest []byte, err error) {
	var head [8]byte
	if copy(head[:5], b); len(b) < 2 {
		return nil, nil, damaged("a block without literals")
	}
	v := binary.LittleEndian.Uint64(head[:])
	kind, format := v&3, v>>2&3
	if kind < 2 { // raw, or one byte many times
		length, size := 1, v>>3&0x1f
		switch format {
		case 1:
			length, size = 2, v>>4&0xfff
		case 3:
			length, size = 3, v>>4&0xfffff
		}
		switch {
		case size > maxBlock || length > len(b):
		case kind == 0 && length+int(size) <= len(b):
			return b[length : length+int(size)], b[length+int(size):], nil
		case kind == 1 && length < len(b):
			z.literals = z.literals[:size]
			for i := range z.literals {
				z.literals[i] = b[length]
			}
			return z.literals, b[length+1:], nil
		}
		return nil, nil, damaged("bad literals")
	}
	length, bits := 3, uint(10)
	switch format {
	case 2:
		length, bits = 4, 14
	case 3:
		length, bits = 5, 18
	}
	mask := uint64(1)<<bits - 1
	size, packed := int(v>>4&mask), int(v>>(4+bits)&mask)
	if size > maxBlock || length+packed > len(b) {
		return nil, nil, damaged("bad literals")
	}
	literals, err = z.unhuff(b[length:length+packed], size, kind == 2, format == 0)
	return literals, b[length+packed:], err
}

// unhuff decodes Huffman coded literals.
func (z *Reader) unhuff(b []byte, size int, table, one bool) ([]byte, error) {
	if table {
		s, rest, err := huff0.ReadTable(b, z.huffman)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		z.huffman, b = s, rest
	}
	if z.huffman == nil {
		return nil, damaged("literals without a table")
	}
	z.huffman.MaxDecodedSize = size
	decode := z.huffman.Decoder().Decompress4X
	if one {
		decode = z.huffman.Decoder().Decompress1X
	}
	literals, err := decode(z.literals[:0:size], b)
	if err == nil && len(literals) != size {
		err = errors.New("literals are missing")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return literals, nil
}
