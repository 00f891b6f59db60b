// Package inflate decompresses gzip streams quickly, a chunk at a time and
// without copying, and can be started again in the middle of one.
//
// compress/gzip forgets where it is: after a broken connection, or for one file
// of a compressed archive, all that went before has to be decompressed again.
// A [Reader] gives a [Point] at the start of each deflate block, and [Resume]
// goes on from there. Reading a layer is mostly decompressing it, so the speed
// of this package is the speed of a fetch; see the package's benchmark.
//
// The input is hostile. There is no unsafe code here, the tables are of fixed
// size, and memory does not depend on the stream.
package inflate

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// ErrCorrupt means that the bytes are no gzip stream (RFC 1952, RFC 1951).
// A stream that ends early is io.ErrUnexpectedEOF.
var ErrCorrupt = errors.New("gzip: the data is damaged")

// Sizes in bytes: how far back deflate may refer, how much is given at once,
// how much room a step of the decoder may use beyond its place, how much input
// is held, and the zeros that stand behind the last byte of it.
const (
	window    = 32 << 10
	chunk     = 128 << 10
	outSlack  = 258 + 16
	inputSize = 64 << 10
	inSlack   = 32
)

// step is what the stream has next.
type step int

const (
	memberStart step = iota
	blockStart
	inStored
	inCodes
	memberEnd
	streamEnd
)

// Reader decompresses one gzip stream of any number of members.
type Reader struct {
	src    io.Reader
	in     []byte // in[pos:end] is unread, followed by zeros at the stream's end
	pos    int
	end    int
	base   int64 // place of in[0] in the stream
	ended  bool
	srcErr error

	bits  uint64 // bits of a byte that is partly used, fewer than 8 between steps
	nbits uint

	// out is one of two buffers that take turns, so that a chunk stays what it
	// is while the next is made. It begins with what deflate may refer to.
	buffers [2][]byte
	turn    int
	out     []byte
	low     int   // the first byte that may be referred to
	summed  int   // the first byte that is not in crc yet
	w       int   // where the next byte goes; what is new begins at window
	total   int64 // plain bytes given

	step   step
	final  bool
	stored int
	crc    uint32
	size   uint32
	stop   bool
	err    error

	// literals and offsets are the codes of this block.
	literals    *literalTable
	offsets     *offsetTable
	ownLiterals literalTable
	ownOffsets  offsetTable
	lengths     lengthTable
}

// NewReader starts at the beginning of a gzip stream.
func NewReader(src io.Reader) *Reader {
	r := &Reader{src: src, in: make([]byte, inputSize+inSlack)}
	for i := range r.buffers {
		r.buffers[i] = make([]byte, window+chunk+outSlack)
	}
	r.out, r.low, r.summed, r.w = r.buffers[0], window, window, window
	return r
}

// Next gives the next plain bytes. They stay valid until the call after the
// next one. At the end of the stream it gives io.EOF.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.swap()
	for r.err == nil && r.w < window+chunk {
		if r.stop && r.step == blockStart && r.w > window {
			r.stop = false
			break
		}
		r.err = r.advance()
	}
	r.sum()
	given := r.out[window:r.w]
	r.total += int64(len(given))
	if len(given) > 0 {
		return given, nil
	}
	return nil, r.err
}

// swap takes the other buffer and carries over what may be referred to.
func (r *Reader) swap() {
	old := r.out
	keep := min(window, r.w-r.low)
	r.turn ^= 1
	r.out = r.buffers[r.turn]
	copy(r.out[window-keep:window], old[r.w-keep:r.w])
	r.low, r.summed, r.w = window-keep, window, window
}

// sum takes what is new into the member's checksum.
func (r *Reader) sum() {
	fresh := r.out[r.summed:r.w]
	r.crc = crc32.Update(r.crc, crc32.IEEETable, fresh)
	r.size += uint32(len(fresh))
	r.summed = r.w
}

// advance does one step, or a part of it.
func (r *Reader) advance() error {
	switch r.step {
	case memberStart:
		return r.memberHeader()
	case blockStart:
		return r.blockHeader()
	case inStored:
		return r.copyStored()
	case inCodes:
		return r.decode()
	case memberEnd:
		return r.memberTrailer()
	}
	return io.EOF
}

// fill makes sure that n bytes of input are there, fewer only at the stream's
// end.
func (r *Reader) fill(n int) error {
	for r.end-r.pos < n && !r.ended {
		if r.srcErr != nil {
			return r.srcErr
		}
		copy(r.in, r.in[r.pos:r.end])
		r.base += int64(r.pos)
		r.end -= r.pos
		r.pos = 0
		got, err := r.src.Read(r.in[r.end:inputSize])
		r.end += got
		if err == io.EOF {
			r.ended = true
			clear(r.in[r.end : r.end+inSlack])
		} else {
			r.srcErr = err
		}
	}
	return nil
}

// take reads n bytes that lie on a byte's border.
func (r *Reader) take(n int) ([]byte, error) {
	if err := r.fill(n); err != nil {
		return nil, err
	}
	if r.end-r.pos < n {
		return nil, io.ErrUnexpectedEOF
	}
	r.pos += n
	return r.in[r.pos-n : r.pos], nil
}

// Flags of a member's header (RFC 1952, 2.3.1).
const (
	headerCRC = 1 << 1
	extra     = 1 << 2
	name      = 1 << 3
	comment   = 1 << 4
)

func (r *Reader) memberHeader() error {
	if err := r.fill(1); err != nil {
		return err
	}
	if r.pos == r.end && r.base+int64(r.pos) > 0 {
		r.step = streamEnd
		return io.EOF
	}
	head, err := r.take(10)
	if err != nil {
		return err
	}
	if head[0] != 0x1f || head[1] != 0x8b || head[2] != 8 {
		return ErrCorrupt
	}
	flags, sum := head[3], crc32.ChecksumIEEE(head)
	if flags&extra != 0 {
		length, err := r.take(2)
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, crc32.IEEETable, length)
		rest, err := r.take(int(binary.LittleEndian.Uint16(length)))
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, crc32.IEEETable, rest)
	}
	for _, f := range []byte{name, comment} {
		if flags&f != 0 {
			if sum, err = r.text(sum); err != nil {
				return err
			}
		}
	}
	if flags&headerCRC != 0 {
		want, err := r.take(2)
		if err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(want) != uint16(sum) {
			return ErrCorrupt
		}
	}
	r.step, r.crc, r.size, r.low = blockStart, 0, 0, r.w
	return nil
}

// maxText is the longest name or comment of a member, as in compress/gzip.
const maxText = 512

// text passes over bytes up to a zero.
func (r *Reader) text(sum uint32) (uint32, error) {
	for range maxText {
		b, err := r.take(1)
		if err != nil {
			return 0, err
		}
		if sum = crc32.Update(sum, crc32.IEEETable, b); b[0] == 0 {
			return sum, nil
		}
	}
	return 0, ErrCorrupt
}

func (r *Reader) memberTrailer() error {
	r.sum()
	tail, err := r.take(8)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(tail) != r.crc || binary.LittleEndian.Uint32(tail[4:]) != r.size {
		return ErrCorrupt
	}
	r.step = memberStart
	return nil
}
