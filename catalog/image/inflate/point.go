package inflate

import "io"

// Point is a place in a gzip stream at which reading can begin: the start of a
// deflate block. It holds up to 32 KiB of what was decompressed before it.
type Point struct {
	// In and Out count the compressed and the plain bytes before it.
	In  int64 `json:"in"`
	Out int64 `json:"out"`
	// Bits are what is left of the compressed byte before In, NBits how many.
	Bits  uint8 `json:"bits"`
	NBits uint8 `json:"nbits"`
	// Window is what the block may refer to.
	Window []byte `json:"window"`
	// CRC and Size are of the member's plain bytes so far.
	CRC  uint32 `json:"crc"`
	Size uint32 `json:"size"`
}

// StopAtBlock ends the chunk under way where the next block starts, so that
// [Reader.Point] has something to give. It holds for one stop.
func (r *Reader) StopAtBlock() { r.stop = true }

// Point is the place after the last byte that was given; ok is false when that
// is not the start of a block.
func (r *Reader) Point() (p Point, ok bool) {
	if r.step != blockStart || r.err != nil {
		return Point{}, false
	}
	from := max(r.low, r.w-window)
	return Point{In: r.base + int64(r.pos), Out: r.total, Bits: uint8(r.bits), NBits: uint8(r.nbits),
		Window: append([]byte(nil), r.out[from:r.w]...), CRC: r.crc, Size: r.size}, true
}

// Resume goes on from a point; src begins with the compressed byte p.In. A point
// that is not of this stream gives wrong bytes or ErrCorrupt: whoever keeps
// points verifies what comes out.
func Resume(src io.Reader, p Point) *Reader {
	r := NewReader(src)
	n := copy(r.out[window-min(window, len(p.Window)):window], p.Window)
	r.low = window - n
	r.base, r.total = p.In, p.Out
	r.nbits = uint(p.NBits & 7)
	r.bits = uint64(p.Bits) & (1<<r.nbits - 1)
	r.crc, r.size, r.step = p.CRC, p.Size, blockStart
	return r
}
