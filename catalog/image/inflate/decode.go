package inflate

import (
	"encoding/binary"
	"io"
)

// decode reads symbols until the block ends, the chunk is full or the input
// runs low. Each round has room for one match and two refills of the bit
// buffer, so that nothing is checked within it but what the input decides. At
// the stream's end the zeros behind it are read as well; that is noticed after.
func (r *Reader) decode() error {
	if err := r.fill(inSlack); err != nil {
		return err
	}
	limit := r.end
	if r.ended {
		limit += inSlack
	}
	done, err := r.rounds(r.in[:limit])
	r.settle()
	switch {
	case r.overrun():
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case done:
		r.endBlock()
	}
	return nil
}

// rounds is the inner loop of the package.
func (r *Reader) rounds(in []byte) (done bool, err error) {
	pos, bitbuf, nbits := r.pos, r.bits, r.nbits
	out, w := r.out, r.w
	literals, offsets := r.literals, r.offsets
	for w < window+chunk && pos+16 <= len(in) {
		bitbuf |= binary.LittleEndian.Uint64(in[pos:]) << (nbits & 63)
		pos += int(63-nbits) >> 3
		nbits |= 56

		e := literals[bitbuf&(1<<literalBits-1)]
		if e&isLiteral != 0 {
			bitbuf >>= e & 63
			nbits -= uint(e & 63)
			out[w] = byte(e >> 16)
			w++
			e = literals[bitbuf&(1<<literalBits-1)]
			if e&isLiteral != 0 {
				bitbuf >>= e & 63
				nbits -= uint(e & 63)
				out[w] = byte(e >> 16)
				w++
				e = literals[bitbuf&(1<<literalBits-1)]
				if e&isLiteral != 0 {
					bitbuf >>= e & 63
					nbits -= uint(e & 63)
					out[w] = byte(e >> 16)
					w++
					continue
				}
			}
			bitbuf |= binary.LittleEndian.Uint64(in[pos:]) << (nbits & 63)
			pos += int(63-nbits) >> 3
			nbits |= 56
		}
		if e&special != 0 {
			if e&further != 0 {
				bitbuf >>= literalBits
				nbits -= literalBits
				e = literals[uint64(e>>16)+bitbuf&(1<<(e>>8&31)-1)]
			}
			if e&isLiteral != 0 {
				bitbuf >>= e & 63
				nbits -= uint(e & 63)
				out[w] = byte(e >> 16)
				w++
				continue
			}
			if e&special != 0 {
				if done = e&endBlock != 0; !done {
					err = ErrCorrupt
				} else {
					bitbuf >>= e & 63
					nbits -= uint(e & 63)
				}
				break
			}
		}
		length := int(e>>16) + int(bitbuf&(1<<(e&63)-1)>>(e>>8&31))
		bitbuf >>= e & 63
		nbits -= uint(e & 63)

		e = offsets[bitbuf&(1<<offsetBits-1)]
		if e&special != 0 {
			if e&further == 0 {
				err = ErrCorrupt
				break
			}
			bitbuf >>= offsetBits
			nbits -= offsetBits
			if e = offsets[uint64(e>>16)+bitbuf&(1<<(e>>8&31)-1)]; e&special != 0 {
				err = ErrCorrupt
				break
			}
		}
		offset := int(e>>16) + int(bitbuf&(1<<(e&63)-1)>>(e>>8&31))
		bitbuf >>= e & 63
		nbits -= uint(e & 63)

		if offset > w-r.low {
			err = ErrCorrupt
			break
		}
		from, end := w-offset, w+length
		switch {
		case offset >= 8:
			for w < end {
				binary.LittleEndian.PutUint64(out[w:], binary.LittleEndian.Uint64(out[from:]))
				w += 8
				from += 8
			}
		case offset == 1:
			v := uint64(out[from]) * 0x0101010101010101
			for w < end {
				binary.LittleEndian.PutUint64(out[w:], v)
				w += 8
			}
		default:
			for w < end {
				out[w] = out[from]
				w++
				from++
			}
		}
		w = end
	}
	r.pos, r.bits, r.nbits, r.w = pos, bitbuf, nbits, w
	return done, err
}
