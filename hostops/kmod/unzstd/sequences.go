package unzstd

import "math/bits"

// The codes of a sequence: literal lengths, offsets, match lengths. Each has its
// table of states, a largest accuracy and a predefined distribution (sections
// 3.1.1.3.2.1 and .2).
var kinds = [3]struct {
	maxLog, maxSymbol int
	log               uint
	predefined        []int16
}{
	{9, 35, 6, []int16{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}},
	{8, 31, 5, []int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}},
	{9, 52, 6, []int16{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}},
}

// lengthCode is what a code of a length stands for.
type lengthCode struct {
	base int
	bits uint
}

var literalLengths, matchLengths = codes(16, 0, []uint{1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
	codes(32, 3, []uint{1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})

// codes makes the table of a length's codes: plain ones stand for themselves,
// the others for ranges, each beginning where the one before ends.
func codes(plain, from int, ranges []uint) []lengthCode {
	list := make([]lengthCode, 0, plain+len(ranges))
	for i := range plain {
		list = append(list, lengthCode{from + i, 0})
	}
	at := from + plain
	for _, n := range ranges {
		list = append(list, lengthCode{at, n})
		at += 1 << n
	}
	return list
}

// state is an entry of a table.
type state struct {
	symbol, bits uint8
	base         uint16
}

type table struct {
	states []state
	log    uint
}

var predefined = [3]*table{build(kinds[0].predefined, kinds[0].log), build(kinds[1].predefined, kinds[1].log), build(kinds[2].predefined, kinds[2].log)}

// build makes a table from probabilities (section 4.1.1); -1 is "less than one".
func build(odds []int16, log uint) *table {
	size := 1 << log
	t := &table{make([]state, size), log}
	high, next := size-1, make([]uint16, len(odds))
	for s, n := range odds {
		next[s] = uint16(max(n, 0))
		if n == -1 {
			t.states[high].symbol, next[s] = uint8(s), 1
			high--
		}
	}
	at, step := 0, size>>1+size>>3+3
	for s, n := range odds {
		for range max(n, 0) {
			t.states[at].symbol = uint8(s)
			for at = (at + step) & (size - 1); at > high; {
				at = (at + step) & (size - 1)
			}
		}
	}
	for i := range t.states {
		e := &t.states[i]
		n := next[e.symbol]
		next[e.symbol]++
		e.bits = uint8(int(log) + 1 - bits.Len16(n))
		e.base = n<<e.bits - uint16(size)
	}
	return t
}

// readTable reads the table of a kind in one of its four modes and returns what
// follows.
func (z *Reader) readTable(kind int, mode byte, b []byte) ([]byte, error) {
	switch mode {
	case 0:
		z.tables[kind] = predefined[kind]
	case 1: // one symbol only
		if len(b) == 0 || int(b[0]) > kinds[kind].maxSymbol {
			return nil, damaged("bad symbol")
		}
		z.tables[kind] = &table{states: []state{{symbol: b[0]}}}
		return b[1:], nil
	case 2:
		t, n := parseTable(b, kinds[kind].maxLog, kinds[kind].maxSymbol)
		if t == nil {
			return nil, damaged("bad table")
		}
		z.tables[kind] = t
		return b[n:], nil
	default: // as before
		if z.tables[kind] == nil {
			return nil, damaged("no table to repeat")
		}
	}
	return b, nil
}

// parseTable reads a table's description and its length in bytes.
func parseTable(b []byte, maxLog, maxSymbol int) (*table, int) {
	in := forward{b: b}
	log := in.take(4) + 5
	if log > maxLog {
		return nil, 0
	}
	var odds []int16
	for left := 1 << log; left > 0; {
		if len(odds) > maxSymbol || in.at > 8*len(b) {
			return nil, 0
		}
		// A value takes one bit less where it is below a threshold.
		width := bits.Len(uint(left + 1))
		v := in.peek(width)
		low, threshold := v&(1<<(width-1)-1), 1<<width-1-(left+1)
		switch {
		case low < threshold:
			v = low
			in.at += width - 1
		default:
			if v >= 1<<(width-1) {
				v -= threshold
			}
			in.at += width
		}
		n := v - 1
		left -= max(n, -n)
		odds = append(odds, int16(n))
		for repeat := 3; n == 0 && repeat == 3; {
			repeat = in.take(2)
			if len(odds)+repeat > maxSymbol+1 || in.at > 8*len(b) {
				return nil, 0
			}
			odds = append(odds, make([]int16, repeat)...)
		}
		if left < 0 {
			return nil, 0
		}
	}
	if n := (in.at + 7) / 8; n <= len(b) && len(odds) <= maxSymbol+1 {
		return build(odds, uint(log)), n
	}
	return nil, 0
}

// forward reads bits from the beginning, the lowest first; zeros behind the end.
type forward struct {
	b  []byte
	at int // in bits
}

func (f *forward) peek(n int) int {
	v := 0
	for i := 2; i >= 0; i-- {
		v <<= 8
		if at := f.at/8 + i; at < len(f.b) {
			v |= int(f.b[at])
		}
	}
	return v >> (f.at % 8) & (1<<n - 1)
}

func (f *forward) take(n int) int {
	v := f.peek(n)
	f.at += n
	return v
}

// backward reads bits from the end, the highest first (section 4.1). left is
// how many are there; it goes below zero when more are read.
type backward struct {
	b     []byte
	at    int // bytes before this one are not in value yet
	value uint64
	have  uint // bits of value not read yet, its lowest
	left  int
}

func (r *backward) start(b []byte) bool {
	if len(b) == 0 || b[len(b)-1] == 0 {
		return false
	}
	mark := bits.Len8(b[len(b)-1]) - 1 // the highest bit set only marks the end
	*r = backward{b: b, at: len(b) - 1, value: uint64(b[len(b)-1]), have: uint(mark), left: 8*(len(b)-1) + mark}
	return true
}

// take reads n bits, at most 32.
func (r *backward) take(n uint) int {
	for r.have < n {
		r.value <<= 8
		if r.at > 0 {
			r.at--
			r.value |= uint64(r.b[r.at])
		}
		r.have += 8
	}
	r.have -= n
	r.left -= int(n)
	return int(r.value >> r.have & (1<<n - 1))
}

// sequences carries count sequences out and returns the literals left.
func (z *Reader) sequences(b []byte, count int, literals []byte, start int) ([]byte, error) {
	if len(b) == 0 || b[0]&3 != 0 {
		return nil, damaged("bad sequences")
	}
	modes, b := b[0], b[1:]
	for kind := range kinds {
		var err error
		if b, err = z.readTable(kind, modes>>(6-2*kind)&3, b); err != nil {
			return nil, err
		}
	}
	var in backward
	if !in.start(b) {
		return nil, damaged("bad sequences")
	}
	ll, of, ml := z.tables[0], z.tables[1], z.tables[2]
	l, o, m := in.take(ll.log), in.take(of.log), in.take(ml.log)
	for i := range count {
		ls, os, ms := ll.states[l], of.states[o], ml.states[m]
		offset := 1<<os.symbol + in.take(uint(os.symbol))
		match := matchLengths[ms.symbol].base + in.take(matchLengths[ms.symbol].bits)
		length := literalLengths[ls.symbol].base + in.take(literalLengths[ls.symbol].bits)
		if i < count-1 {
			l = int(ls.base) + in.take(uint(ls.bits))
			m = int(ms.base) + in.take(uint(ms.bits))
			o = int(os.base) + in.take(uint(os.bits))
		}
		offset = z.distance(offset, length == 0)
		if in.left < 0 || length > len(literals) || offset <= 0 || len(z.all)-start+length+match > maxBlock ||
			length+match > cap(z.all)-len(z.all) || offset > len(z.all)+length {
			return nil, damaged("bad sequence")
		}
		z.copy(literals[:length], offset, match)
		literals = literals[length:]
	}
	if in.left != 0 {
		return nil, damaged("bits behind the sequences")
	}
	return literals, nil
}

// distance is what an offset's value means: the first three are of the recent
// ones (section 3.1.1.5).
func (z *Reader) distance(value int, noLiterals bool) int {
	r := &z.recent
	if value > 3 {
		r[0], r[1], r[2] = value-3, r[0], r[1]
		return r[0]
	}
	if noLiterals {
		value++
	}
	switch value {
	case 2:
		r[0], r[1] = r[1], r[0]
	case 3:
		r[0], r[1], r[2] = r[2], r[0], r[1]
	case 4:
		r[0], r[1], r[2] = r[0]-1, r[0], r[1]
	}
	return r[0]
}

// copy appends literals, and then bytes that were decoded before, which may
// overlap what they make.
func (z *Reader) copy(literals []byte, offset, length int) {
	at := len(z.all)
	z.all = z.all[:at+len(literals)+length]
	at += copy(z.all[at:], literals)
	if offset >= length {
		copy(z.all[at:], z.all[at-offset:at-offset+length])
		return
	}
	if offset == 1 && z.all[at-1] == 0 {
		return // the memory has zeros: an untouched page stays untouched
	}
	for to, from := z.all[at:], z.all[at-offset:]; length > 0; length-- {
		to[len(to)-length] = from[len(to)-length]
	}
}
