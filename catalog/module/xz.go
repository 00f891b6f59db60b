package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
)

// The xz container (tukaani.org/xz/xz-file-format.txt 1.2.1), read here so that
// the decoder's window is known before memory is taken for it. The LZMA2
// data inside is decoded in lzma2.go.

const xzMagic = "\xfd7zXZ\x00"

// XZCheckName is what a check type of [Info].XZCheck is called. Kernels that
// decompress modules themselves know none and CRC32 (lib/xz: status 6,
// XZ_OPTIONS_ERROR, for others).
func XZCheckName(check int) string {
	switch check {
	case 0:
		return "none"
	case 1:
		return "CRC32"
	case 4:
		return "CRC64"
	case 10:
		return "SHA-256"
	}
	return fmt.Sprintf("type %d", check)
}

// checkSizes are the bytes a check of each type takes (section 2.1.1.2).
var checkSizes = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

type xzReader struct {
	r         byteReader
	n         int64 // bytes read of the current stream
	maxWindow int64
	check     int
	sum       hash.Hash // nil when the check type has none that we know
	block     *lzma2Reader
	blockAt   int64 // n at the start of the block
	out       int64 // bytes the block gave
	want      int64 // bytes it said it would give, -1 unknown
	sizes     []xzRecord
	err       error
}

type byteReader interface {
	io.Reader
	io.ByteReader
}

type xzRecord struct{ unpadded, uncompressed uint64 }

var errXZ = errors.New("damaged xz stream")

func damaged(what string) error { return fmt.Errorf("%w: %w: %s", ErrPacked, errXZ, what) }

// counted is the stream with its bytes counted, one byte at a time where the
// LZMA decoder asks so.
type counted struct{ x *xzReader }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.x.r.Read(p)
	c.x.n += int64(n)
	return n, err
}

func (c counted) ReadByte() (byte, error) {
	b, err := c.x.r.ReadByte()
	if err == nil {
		c.x.n++
	}
	return b, err
}

func (x *xzReader) full(p []byte) error {
	if _, err := io.ReadFull(counted{x}, p); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// start reads a stream header.
func (x *xzReader) start() error {
	var h [12]byte
	x.n, x.sizes = 0, nil
	if err := x.full(h[:]); err != nil {
		return damaged("the header is cut short")
	}
	if string(h[:6]) != xzMagic || h[6] != 0 || h[7]&0xf0 != 0 ||
		crc32.ChecksumIEEE(h[6:8]) != binary.LittleEndian.Uint32(h[8:]) {
		return damaged("bad header")
	}
	x.check = int(h[7] & 0x0f)
	switch x.check {
	case 1:
		x.sum = crc32.NewIEEE()
	case 4:
		x.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		x.sum = sha256.New()
	default:
		x.sum = nil
	}
	return nil
}

func (x *xzReader) Read(p []byte) (int, error) {
	if x.err != nil || len(p) == 0 {
		return 0, x.err
	}
	for {
		if x.block == nil {
			if x.err = x.next(); x.err != nil {
				return 0, x.err
			}
		}
		n, err := x.block.Read(p)
		x.out += int64(n)
		if x.sum != nil {
			x.sum.Write(p[:n])
		}
		if err == io.EOF {
			err = x.endBlock()
		}
		x.err = err
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens the next block, of this stream or of one that follows; io.EOF
// after the last.
func (x *xzReader) next() error {
	for {
		size, err := counted{x}.ReadByte()
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		if size != 0 {
			return x.openBlock(size)
		}
		if err := x.index(); err != nil {
			return err
		}
		more, err := x.following()
		if err != nil {
			return err
		}
		if !more {
			return io.EOF
		}
	}
}

// following skips the padding behind a stream and opens a concatenated one.
func (x *xzReader) following() (bool, error) {
	peeker, ok := x.r.(interface{ Peek(int) ([]byte, error) })
	if !ok {
		return false, nil
	}
	for {
		b, _ := peeker.Peek(4)
		switch {
		case len(b) == 0:
			return false, nil
		case bytes.Equal(b, make([]byte, 4)):
			if err := x.full(make([]byte, 4)); err != nil {
				return false, err
			}
		case bytes.HasPrefix([]byte(xzMagic), b):
			return true, x.start()
		default:
			return false, damaged("other bytes behind its end")
		}
	}
}

// openBlock reads a block header (section 3.1).
func (x *xzReader) openBlock(size byte) error {
	x.blockAt = x.n - 1
	h := make([]byte, (int(size)+1)*4)
	h[0] = size
	if err := x.full(h[1:]); err != nil {
		return err
	}
	body := h[:len(h)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(h[len(body):]) {
		return damaged("bad block header")
	}
	flags, rest := body[1], bytes.NewReader(body[2:])
	if flags&0x3c != 0 {
		return damaged("unknown block flags")
	}
	if flags&0x03 != 0 {
		return damaged("it uses a filter besides LZMA2, which no kernel tool writes")
	}
	if flags&0x40 != 0 {
		if _, err := binary.ReadUvarint(rest); err != nil {
			return damaged("bad block header")
		}
	}
	x.want = -1
	if flags&0x80 != 0 {
		n, err := binary.ReadUvarint(rest)
		if err != nil || n > 1<<62 {
			return damaged("bad block header")
		}
		x.want = int64(n)
	}
	return x.openFilter(rest)
}

func (x *xzReader) openFilter(h io.ByteReader) error {
	id, err1 := binary.ReadUvarint(h)
	props, err2 := binary.ReadUvarint(h)
	bits, err3 := h.ReadByte()
	if errors.Join(err1, err2, err3) != nil || id != 0x21 || props != 1 || bits > 40 {
		return damaged("its filter is not LZMA2")
	}
	window := int64(1)<<32 - 1
	if bits < 40 {
		window = int64(2|bits&1) << (bits/2 + 11)
	}
	if window > x.maxWindow {
		return fmt.Errorf("%w: xz: %d bytes, allowed are %d", ErrWindow, window, x.maxWindow)
	}
	x.block, x.out = newLZMA2(counted{x}, int(window)), 0
	if x.sum != nil {
		x.sum.Reset()
	}
	return nil
}

// endBlock checks padding, length and sum of the block that ended.
func (x *xzReader) endBlock() error {
	unpadded := x.n - x.blockAt
	var pad [3]byte
	n := int(-unpadded & 3)
	if err := x.full(pad[:n]); err != nil {
		return err
	}
	if pad != [3]byte{} || (x.want >= 0 && x.want != x.out) {
		return damaged("bad block end")
	}
	check := make([]byte, checkSizes[x.check])
	if err := x.full(check); err != nil {
		return err
	}
	if x.sum != nil {
		have := x.sum.Sum(nil)
		if x.check != 10 { // the CRCs are stored little endian
			for i, j := 0, len(have)-1; i < j; i, j = i+1, j-1 {
				have[i], have[j] = have[j], have[i]
			}
		}
		if !bytes.Equal(have, check) {
			return damaged("its " + XZCheckName(x.check) + " sum does not match")
		}
	}
	x.sizes = append(x.sizes, xzRecord{uint64(unpadded) + uint64(len(check)), uint64(x.out)})
	x.drop()
	return nil
}

// drop gives the block's decoder back.
func (x *xzReader) drop() {
	if x.block != nil {
		x.block.giveBack()
		x.block = nil
	}
}

// index reads index and footer (sections 4, 2.1.2); its first byte is read.
func (x *xzReader) index() error {
	start := x.n - 1
	sum := crc32.NewIEEE()
	sum.Write([]byte{0})
	in := &summed{counted{x}, sum}
	count, err := binary.ReadUvarint(in)
	if err != nil || count != uint64(len(x.sizes)) {
		return damaged("its index counts other blocks")
	}
	for _, want := range x.sizes {
		unpadded, err1 := binary.ReadUvarint(in)
		uncompressed, err2 := binary.ReadUvarint(in)
		if errors.Join(err1, err2) != nil || unpadded != want.unpadded || uncompressed != want.uncompressed {
			return damaged("its index does not match the blocks")
		}
	}
	for (x.n-start)&3 != 0 {
		if b, err := in.ReadByte(); err != nil || b != 0 {
			return damaged("bad index end")
		}
	}
	size := x.n - start + 4
	var tail [16]byte // CRC of the index, then the footer
	if err := x.full(tail[:]); err != nil {
		return err
	}
	footer := tail[4:]
	if sum.Sum32() != binary.LittleEndian.Uint32(tail[:]) || string(footer[10:]) != "YZ" ||
		crc32.ChecksumIEEE(footer[4:10]) != binary.LittleEndian.Uint32(footer) ||
		(int64(binary.LittleEndian.Uint32(footer[4:]))+1)*4 != size ||
		footer[8] != 0 || int(footer[9]) != x.check {
		return damaged("bad footer")
	}
	return nil
}

// summed feeds what is read to a sum.
type summed struct {
	r   io.ByteReader
	sum hash.Hash
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}
