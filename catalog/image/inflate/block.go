package inflate

import (
	"encoding/binary"
	"io"
)

// headerBytes is more than the longest header of a block: 17 bits, 19 lengths
// of 3 bits, and 316 codes of 7 bits with 7 more.
const headerBytes = 640

// need gives n bits, at most 16, without using them up. Only used where fill
// has seen to it that they are there, or that the stream ends.
func (r *Reader) need(n uint) uint64 {
	for r.nbits < n {
		r.bits |= uint64(r.in[min(r.pos, r.end)]) << r.nbits
		r.pos++
		r.nbits += 8
	}
	return r.bits & (1<<n - 1)
}

func (r *Reader) drop(n uint) {
	r.bits >>= n
	r.nbits -= n
}

func (r *Reader) get(n uint) int {
	v := r.need(n)
	r.drop(n)
	return int(v)
}

// align goes on to the border of a byte and gives back whole bytes.
func (r *Reader) align() {
	r.pos -= int(r.nbits >> 3)
	r.bits, r.nbits = 0, 0
}

// settle gives back whole bytes that were looked at and not used.
func (r *Reader) settle() {
	r.pos -= int(r.nbits >> 3)
	r.nbits &= 7
	r.bits &= 1<<r.nbits - 1
}

// overrun says whether more was used than the stream has.
func (r *Reader) overrun() bool { return r.pos > r.end }

func (r *Reader) blockHeader() error {
	if err := r.fill(headerBytes); err != nil {
		return err
	}
	r.final = r.get(1) == 1
	kind := r.get(2)
	var err error
	switch kind {
	case 0:
		err = r.storedHeader()
	case 1:
		r.literals, r.offsets, r.step = &fixedLiterals, &fixedOffsets, inCodes
	case 2:
		err = r.dynamicCodes()
		r.step = inCodes
	default:
		err = ErrCorrupt
	}
	r.settle()
	if r.overrun() {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) storedHeader() error {
	r.align()
	head, err := r.take(4)
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint16(head)
	if n != ^binary.LittleEndian.Uint16(head[2:]) {
		return ErrCorrupt
	}
	r.stored, r.step = int(n), inStored
	return nil
}

func (r *Reader) copyStored() error {
	for r.stored > 0 {
		if err := r.fill(1); err != nil {
			return err
		}
		room := min(r.stored, window+chunk-r.w, r.end-r.pos)
		if room == 0 {
			if r.pos == r.end {
				return io.ErrUnexpectedEOF
			}
			return nil // the chunk is full
		}
		copy(r.out[r.w:], r.in[r.pos:r.pos+room])
		r.w, r.pos, r.stored = r.w+room, r.pos+room, r.stored-room
	}
	r.endBlock()
	return nil
}

func (r *Reader) endBlock() {
	if r.step = blockStart; r.final {
		r.step = memberEnd
		r.align()
	}
}

// lengthOrder is the order in which the lengths of the length codes come.
var lengthOrder = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

func (r *Reader) dynamicCodes() error {
	literals, offsets, lengths := r.get(5)+257, r.get(5)+1, r.get(4)+4
	if literals > 286 || offsets > 30 {
		return ErrCorrupt
	}
	var own [19]uint8
	for _, i := range lengthOrder[:lengths] {
		own[i] = uint8(r.get(3))
	}
	if !build(r.lengths[:], lengthBits, own[:], lengthMeaning[:]) {
		return ErrCorrupt
	}
	var n [286 + 30]uint8
	for i := 0; i < literals+offsets; {
		e := r.lengths[r.need(lengthBits)]
		if e&special != 0 {
			return ErrCorrupt
		}
		r.drop(uint(e & 63))
		symbol := e >> 16
		if symbol < 16 {
			n[i] = uint8(symbol)
			i++
			continue
		}
		value, times := r.repeat(symbol, n[:i])
		if times == 0 || i+times > literals+offsets {
			return ErrCorrupt
		}
		for range times {
			n[i] = value
			i++
		}
	}
	if !build(r.ownLiterals[:], literalBits, n[:literals], literalMeaning[:]) ||
		!build(r.ownOffsets[:], offsetBits, n[literals:literals+offsets], offsetMeaning[:]) {
		return ErrCorrupt
	}
	r.literals, r.offsets = &r.ownLiterals, &r.ownOffsets
	return nil
}

// repeat reads how often a length is repeated; 0 when there is none yet.
func (r *Reader) repeat(symbol entry, before []uint8) (value uint8, times int) {
	switch symbol {
	case 16:
		if len(before) == 0 {
			return 0, 0
		}
		return before[len(before)-1], 3 + r.get(2)
	case 17:
		return 0, 3 + r.get(3)
	}
	return 0, 11 + r.get(7)
}
