package inflate

import (
	"iter"
	"math/bits"
)

// An entry of a table says in one word what a code means:
//
//	bits 0–5    how many bits it takes, extra bits included
//	bit 6       a literal
//	bit 7       neither literal nor length nor offset: see below
//	bits 8–12   how many of its bits are the code itself
//	bits 16–31  the literal, or the length or offset without its extra bits
//
// With bit 7 set the entry is invalid, or by bit 13 the end of the block, or by
// bit 14 the way to a second table for codes longer than the first one's index:
// it begins at bits 16–31 and is indexed by as many bits as bits 8–12 say.
type entry = uint32

const (
	isLiteral entry = 1 << 6
	special   entry = 1 << 7
	endBlock  entry = 1 << 13
	further   entry = 1 << 14
	invalid         = special
)

// Sizes of the tables: the first index, and the room that zlib's enough.c finds
// to suffice for all second tables of a complete code.
const (
	literalBits = 11
	offsetBits  = 8
	lengthBits  = 7
)

type (
	literalTable [2342]entry // enough 288 11 15
	offsetTable  [402]entry  // enough 32 8 15
	lengthTable  [1 << lengthBits]entry
)

// Base values and extra bits of lengths and offsets (RFC 1951, 3.2.5).
var (
	lengthBase  = [29]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	offsetBase  = [30]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	offsetExtra = [30]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

// The meanings of symbols in the three alphabets, without the code's length.
var literalMeaning, offsetMeaning, lengthMeaning = meanings()

func meanings() (lit [288]entry, off [32]entry, length [19]entry) {
	for i := range 256 {
		lit[i] = isLiteral | entry(i)<<16
	}
	lit[256] = special | endBlock
	for i, base := range lengthBase {
		lit[257+i] = entry(base)<<16 | entry(lengthExtra[i])
	}
	lit[286], lit[287] = invalid, invalid
	for i, base := range offsetBase {
		off[i] = entry(base)<<16 | entry(offsetExtra[i])
	}
	off[30], off[31] = invalid, invalid
	for i := range length {
		length[i] = entry(i) << 16
	}
	return lit, off, length
}

// maxCode is the longest code in bits.
const maxCode = 15

// build fills a table from the lengths of the codes, one a symbol. ok is false
// when they are no code. As in zlib a code of one symbol may be incomplete, and
// one of no symbols is an error only when it is used.
func build(table []entry, index int, lengths []uint8, meaning []entry) (ok bool) {
	var count [maxCode + 1]int
	longest := 0
	for _, n := range lengths {
		count[n]++
		longest = max(longest, int(n))
	}
	count[0] = 0
	var next [maxCode + 2]int
	code := 0
	for n := 1; n <= longest; n++ {
		next[n] = code << 1
		code = next[n] + count[n]
	}
	whole := code == 1<<longest
	if longest > 0 && !whole && !(code == 1 && longest == 1) {
		return false
	}
	first := table[:1<<index]
	if !whole {
		for i := range first {
			first[i] = invalid
		}
	}
	b := builder{table: table, index: index, free: 1 << index, left: count}
	var sorted [288]uint16
	for symbol, n := range inOrder(lengths, &count, &sorted) {
		b.put(next[n], n, meaning[symbol])
		next[n]++
	}
	return true
}

// inOrder gives the symbols and the lengths of their codes, shortest first.
func inOrder(lengths []uint8, count *[maxCode + 1]int, sorted *[288]uint16) iter.Seq2[int, int] {
	var at [maxCode + 2]int
	for n := 1; n <= maxCode; n++ {
		at[n+1] = at[n] + count[n]
	}
	used := at[maxCode+1]
	for symbol, n := range lengths {
		if n != 0 {
			sorted[at[n]] = uint16(symbol)
			at[n]++
		}
	}
	return func(yield func(int, int) bool) {
		for _, symbol := range sorted[:used] {
			if !yield(int(symbol), int(lengths[symbol])) {
				return
			}
		}
	}
}

// builder places codes in a table, shortest first.
type builder struct {
	table []entry
	index int
	free  int // where the next second table goes
	left  [maxCode + 1]int
	// low are the first bits of the codes that go into the second table at at,
	// which has 1<<size entries.
	low, at, size int
}

// put places one code of n bits. Codes come with their last bit first.
func (b *builder) put(code, n int, meaning entry) {
	reversed := int(bits.Reverse16(uint16(code)) >> (16 - n))
	if n <= b.index {
		e := meaning + entry(n) | entry(n)<<8
		for i := reversed; i < 1<<b.index; i += 1 << n {
			b.table[i] = e
		}
	} else {
		if low := reversed & (1<<b.index - 1); b.at == 0 || low != b.low {
			b.open(n, low)
		}
		e := meaning + entry(n-b.index) | entry(n-b.index)<<8
		for i := reversed >> b.index; i < 1<<b.size; i += 1 << (n - b.index) {
			b.table[b.at+i] = e
		}
	}
	b.left[n]--
}

// open makes the second table for the codes that begin with low, just large
// enough for the longest of them.
func (b *builder) open(n, low int) {
	size := n - b.index
	for used := b.left[n]; used < 1<<size; {
		size++
		used = used<<1 + b.left[b.index+size]
	}
	b.low, b.at, b.size = low, b.free, size
	b.free += 1 << size
	b.table[low] = special | further | entry(b.at)<<16 | entry(size)<<8 | entry(b.index)
}

// The codes of blocks that bring none (RFC 1951, 3.2.6).
var fixedLiterals, fixedOffsets = fixed()

func fixed() (lit literalTable, off offsetTable) {
	var n [288]uint8
	for i := range n {
		switch {
		case i < 144:
			n[i] = 8
		case i < 256:
			n[i] = 9
		case i < 280:
			n[i] = 7
		default:
			n[i] = 8
		}
	}
	build(lit[:], literalBits, n[:], literalMeaning[:])
	for i := range 32 {
		n[i] = 5
	}
	build(off[:], offsetBits, n[:32], offsetMeaning[:])
	return lit, off
}
