package module

import "encoding/binary"

// The LZMA decoder: a range decoder, adaptive bits, literals, matches with
// lengths and distances. Names follow the LZMA specification.

const (
	probInit  = 1 << 10
	numStates = 12
	topValue  = 1 << 24
)

// rangeDecoder reads bits whose odds it learns. in has slack bytes behind its
// end; the caller compares pos with the end now and then.
type rangeDecoder struct {
	rng, code uint32
	pos       int
	in        []byte
}

func (r *rangeDecoder) start(in []byte) bool {
	r.in, r.rng, r.code, r.pos = in, 0xffffffff, binary.BigEndian.Uint32(in[1:]), 5
	return in[0] == 0
}

func (r *rangeDecoder) normalize() {
	if r.rng < topValue {
		r.rng <<= 8
		r.code = r.code<<8 | uint32(r.in[r.pos])
		r.pos++
	}
}

func (r *rangeDecoder) bit(p *uint16) uint32 {
	r.normalize()
	odds := uint32(*p)
	bound := (r.rng >> 11) * odds
	if r.code < bound {
		r.rng = bound
		*p = uint16(odds + (2048-odds)>>5)
		return 0
	}
	r.rng -= bound
	r.code -= bound
	*p = uint16(odds - odds>>5)
	return 1
}

// tree reads a symbol of n bits, the highest first, below limit = 1<<n.
func (r *rangeDecoder) tree(probs []uint16, limit uint32) uint32 {
	rng, code, pos, in := r.rng, r.code, r.pos, r.in
	symbol := uint32(1)
	for symbol < limit {
		if rng < topValue {
			rng <<= 8
			code = code<<8 | uint32(in[pos])
			pos++
		}
		p := &probs[symbol]
		odds := uint32(*p)
		bound := (rng >> 11) * odds
		if code < bound {
			rng = bound
			*p = uint16(odds + (2048-odds)>>5)
			symbol <<= 1
		} else {
			rng -= bound
			code -= bound
			*p = uint16(odds - odds>>5)
			symbol = symbol<<1 | 1
		}
	}
	r.rng, r.code, r.pos = rng, code, pos
	return symbol - limit
}

// reverse reads a symbol of n bits, the lowest first.
func (r *rangeDecoder) reverse(probs []uint16, n uint32) uint32 {
	m, symbol := uint32(1), uint32(0)
	for i := range n {
		b := r.bit(&probs[m])
		m = m<<1 | b
		symbol |= b << i
	}
	return symbol
}

// direct reads n bits of even odds.
func (r *rangeDecoder) direct(n uint32) uint32 {
	v := uint32(0)
	for range n {
		r.normalize()
		r.rng >>= 1
		b := uint32(0)
		if r.code >= r.rng {
			r.code -= r.rng
			b = 1
		}
		v = v<<1 | b
	}
	return v
}

type lengthDecoder struct {
	choice, choice2 uint16
	low, mid        [16][8]uint16
	high            [256]uint16
}

func (l *lengthDecoder) read(r *rangeDecoder, posState uint32) int {
	if r.bit(&l.choice) == 0 {
		return 2 + int(r.tree(l.low[posState][:], 8))
	}
	if r.bit(&l.choice2) == 0 {
		return 10 + int(r.tree(l.mid[posState][:], 8))
	}
	return 18 + int(r.tree(l.high[:], 256))
}

func (l *lengthDecoder) reset() {
	l.choice, l.choice2 = probInit, probInit
	for i := range l.low {
		fill(l.low[i][:])
		fill(l.mid[i][:])
	}
	fill(l.high[:])
}

func fill(probs []uint16) {
	for i := range probs {
		probs[i] = probInit
	}
}

// lzmaDecoder is the state that lasts from chunk to chunk.
type lzmaDecoder struct {
	lc, lpMask, pbMask uint32
	state              uint32
	rep                [4]uint32

	isMatch, isRep0Long           [numStates << 4]uint16
	isRep, isRepG0, isRepG1, isG2 [numStates]uint16
	posSlot                       [4][64]uint16
	special                       [128]uint16
	align                         [16]uint16
	matchLen, repLen              lengthDecoder
	literals                      [0x300 << 4]uint16
}

// setProps takes the byte that holds lc, lp and pb; LZMA2 allows lc+lp <= 4.
func (d *lzmaDecoder) setProps(b byte) bool {
	if b >= 9*5*5 {
		return false
	}
	lc, lp, pb := uint32(b%9), uint32(b/9%5), uint32(b/45)
	d.lc, d.lpMask, d.pbMask = lc, 1<<lp-1, 1<<pb-1
	return lc+lp <= 4
}

func (d *lzmaDecoder) reset() {
	d.state, d.rep = 0, [4]uint32{}
	for _, p := range [][]uint16{d.isMatch[:], d.isRep0Long[:], d.isRep[:], d.isRepG0[:], d.isRepG1[:], d.isG2[:],
		d.posSlot[0][:], d.posSlot[1][:], d.posSlot[2][:], d.posSlot[3][:], d.special[:], d.align[:], d.literals[:]} {
		fill(p)
	}
	d.matchLen.reset()
	d.repLen.reset()
}

// decode fills hist from at to its end. in ends with slack. False when the
// data is damaged: it refers to bytes before base or out of the window, or does
// not end where it should.
func (d *lzmaDecoder) decode(in, hist []byte, base, at, window int) bool {
	var r rangeDecoder
	end := len(in) - slack
	if !r.start(in) {
		return false
	}
	for at < len(hist) {
		if r.pos > end {
			return false
		}
		posState := uint32(at-base) & d.pbMask
		if r.bit(&d.isMatch[d.state<<4|posState]) == 0 {
			if !d.literal(&r, hist, base, at) {
				return false
			}
			at++
			continue
		}
		length := d.match(&r, posState)
		distance := int(d.rep[0]) + 1
		if distance > at-base || distance > window || length > len(hist)-at {
			return false
		}
		copyMatch(hist, at, distance, length)
		at += length
	}
	r.normalize()
	return r.pos == end && r.code == 0
}

// copyMatch copies bytes that may overlap what they make.
func copyMatch(hist []byte, at, distance, length int) {
	if distance >= length {
		copy(hist[at:at+length], hist[at-distance:])
		return
	}
	to, from := hist[at:at+length], hist[at-distance:at+length]
	for i := range to {
		to[i] = from[i]
	}
}

// literal reads one byte. After a match, the byte that the match would have
// gone on with foretells it.
func (d *lzmaDecoder) literal(r *rangeDecoder, hist []byte, base, at int) bool {
	before := uint32(0)
	if at > base {
		before = uint32(hist[at-1])
	}
	context := (uint32(at-base)&d.lpMask)<<d.lc + before>>(8-d.lc)
	probs := (*[0x300]uint16)(d.literals[context*0x300:])
	if d.state < 7 {
		hist[at] = byte(r.tree(probs[:], 256))
		if d.state < 4 {
			d.state = 0
		} else {
			d.state -= 3
		}
		return true
	}
	distance := int(d.rep[0]) + 1
	if distance > at-base {
		return false
	}
	hist[at] = r.matchedLiteral(probs, uint32(hist[at-distance]))
	if d.state < 10 {
		d.state -= 3
	} else {
		d.state -= 6
	}
	return true
}

func (r *rangeDecoder) matchedLiteral(probs *[0x300]uint16, match uint32) byte {
	symbol, offset := uint32(1), uint32(0x100)
	for symbol < 0x100 {
		match <<= 1
		bit := match & offset
		if r.bit(&probs[(offset+bit+symbol)%0x300]) == 0 {
			symbol <<= 1
			offset &^= bit
		} else {
			symbol = symbol<<1 | 1
			offset &= bit
		}
	}
	return byte(symbol)
}

// match reads a match: its length; its distance less one goes to rep[0].
func (d *lzmaDecoder) match(r *rangeDecoder, posState uint32) int {
	state := d.state
	if r.bit(&d.isRep[state]) == 0 {
		d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
		length := d.matchLen.read(r, posState)
		d.rep[0] = d.distance(r, length)
		d.state = after(state, 7, 10)
		return length
	}
	if r.bit(&d.isRepG0[state]) == 0 {
		if r.bit(&d.isRep0Long[state<<4|posState]) == 0 {
			d.state = after(state, 9, 11)
			return 1
		}
	} else {
		d.rotate(r, state)
	}
	d.state = after(state, 8, 11)
	return d.repLen.read(r, posState)
}

// rotate brings an earlier distance to the front.
func (d *lzmaDecoder) rotate(r *rangeDecoder, state uint32) {
	n := 1
	if r.bit(&d.isRepG1[state]) == 1 {
		n = 2
		if r.bit(&d.isG2[state]) == 1 {
			n = 3
		}
	}
	found := d.rep[n]
	copy(d.rep[1:n+1], d.rep[:n])
	d.rep[0] = found
}

func after(state, literal, match uint32) uint32 {
	if state < 7 {
		return literal
	}
	return match
}

// distance reads a distance less one.
func (d *lzmaDecoder) distance(r *rangeDecoder, length int) uint32 {
	slot := r.tree(d.posSlot[min(length-2, 3)][:], 64)
	if slot < 4 {
		return slot
	}
	bits := slot>>1 - 1
	far := (2 | slot&1) << bits
	if slot < 14 {
		return far + r.reverse(d.special[far-slot:], bits)
	}
	far += r.direct(bits-4) << 4
	return far + r.reverse(d.align[:], 4)
}
