package module

import (
	"encoding/binary"
	"io"
	"sync"
)

// The LZMA2 stream inside an xz block, decoded a chunk at a time: a chunk has
// at most 64 KiB packed and 2 MiB unpacked. Memory is the window that the
// block asks for plus one chunk, taken as the data grows, never in advance.
// Source: the xz file format, LZMA specification (Igor Pavlov), and the rules
// that kernel lib/xz/xz_dec_lzma2.c holds a stream to.

const (
	maxUnpacked = 2 << 20
	maxPacked   = 64 << 10
	// slack is more than the bytes that one symbol can take, so that the
	// inner loops need not look for the end of the input.
	slack = 64
)

type lzma2Reader struct {
	r      io.Reader
	window int
	// hist is what was decoded, of it the window and the last chunk; out is
	// how far it was handed on, base where the dictionary begins.
	hist      []byte
	out, base int

	lzma                lzmaDecoder
	needDict, needProps bool
	packed              [maxPacked + slack]byte
	err                 error
}

// lzma2Readers are decoders that have done their work, with their windows: a
// tree of modules has the same for each of 4,000.
var lzma2Readers = sync.Pool{New: func() any { return &lzma2Reader{} }}

func newLZMA2(r io.Reader, window int) *lzma2Reader {
	l := lzma2Readers.Get().(*lzma2Reader)
	l.r, l.window, l.hist, l.out, l.base, l.err = r, window, l.hist[:0], 0, 0, nil
	l.needDict, l.needProps = true, true
	return l
}

// keptWindow is the largest window that is kept for the next file, in bytes.
const keptWindow = 8 << 20

// giveBack lets the decoder serve another file; nobody may use it any more.
func (l *lzma2Reader) giveBack() {
	if l.r = nil; cap(l.hist) > keptWindow {
		l.hist = nil
	}
	lzma2Readers.Put(l)
}

func (l *lzma2Reader) Read(p []byte) (int, error) {
	for l.out == len(l.hist) {
		if l.err == nil {
			l.err = l.chunk()
		}
		if l.err != nil {
			return 0, l.err
		}
	}
	n := copy(p, l.hist[l.out:])
	l.out += n
	return n, nil
}

// full reads p; the end of the stream inside a chunk is unexpected.
func (l *lzma2Reader) full(p []byte) error {
	if _, err := io.ReadFull(l.r, p); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// chunk decodes the next chunk; io.EOF after the last.
func (l *lzma2Reader) chunk() error {
	var h [6]byte
	if err := l.full(h[:1]); err != nil {
		return err
	}
	control := h[0]
	switch {
	case control == 0:
		return io.EOF
	case control >= 0xe0 || control == 1:
		l.needDict, l.needProps = false, true
		l.base = len(l.hist)
	case l.needDict || (control > 2 && control < 0x80):
		return damaged("bad LZMA2 chunk")
	}
	if control < 0x80 {
		if err := l.full(h[1:3]); err != nil {
			return err
		}
		at := l.room(int(binary.BigEndian.Uint16(h[1:])) + 1)
		return l.full(l.hist[at:])
	}
	size := 5
	if control >= 0xc0 {
		size = 6
	}
	if err := l.full(h[1:size]); err != nil {
		return err
	}
	if err := l.reset(control, h[5]); err != nil {
		return err
	}
	unpacked := int(control&0x1f)<<16 + int(binary.BigEndian.Uint16(h[1:])) + 1
	packed := int(binary.BigEndian.Uint16(h[3:])) + 1
	if err := l.full(l.packed[:packed]); err != nil {
		return err
	}
	clear(l.packed[packed : packed+slack])
	at := l.room(unpacked)
	if !l.lzma.decode(l.packed[:packed+slack], l.hist, l.base, at, l.window) {
		return damaged("bad LZMA2 data")
	}
	return nil
}

// reset does what a chunk's control byte asks for.
func (l *lzma2Reader) reset(control, props byte) error {
	switch {
	case control >= 0xc0:
		if !l.lzma.setProps(props) {
			return damaged("bad LZMA2 properties")
		}
		l.needProps = false
		l.lzma.reset()
	case l.needProps:
		return damaged("LZMA2 data without properties")
	case control >= 0xa0:
		l.lzma.reset()
	}
	return nil
}

// room makes hist n bytes longer and returns where they begin. What lies
// before the window and was handed on may go.
func (l *lzma2Reader) room(n int) int {
	if need, limit := len(l.hist)+n, l.window+2*maxUnpacked; need > cap(l.hist) {
		if need <= limit {
			grown := make([]byte, len(l.hist), min(max(2*cap(l.hist), need, 256<<10), limit))
			copy(grown, l.hist)
			l.hist = grown
		} else {
			// Odds depend on the position modulo 16 since the dictionary's
			// beginning: it moves by whole sixteens.
			drop := l.base + (max(l.base, len(l.hist)-l.window)-l.base)&^15
			kept := copy(l.hist, l.hist[drop:])
			l.hist, l.out, l.base = l.hist[:kept], kept, 0
		}
	}
	at := len(l.hist)
	l.hist = l.hist[:at+n]
	return at
}
