package module

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A kernel packed as a tree of .ko.xz has 4,000 files of 20 KiB to 28 MiB, and
// each must be in memory whole, for its section table comes last. So the memory
// of one serves the next, and of large files there is one at a time.

// largeFile is what counts as large, in bytes: one module in a hundred.
const largeFile = 2 << 20

var (
	rooms = sync.Pool{New: func() any { return &room{} }}
	large sync.Mutex
)

// room is memory for one unpacked module.
type room struct {
	buf   []byte
	large bool // holds the lock of large files
}

func takeRoom() *room { return rooms.Get().(*room) }

// giveBack lets the memory serve another file; nobody may use it any more.
func (m *room) giveBack() {
	if m.large {
		m.buf, m.large = nil, false
		large.Unlock()
	}
	rooms.Put(m)
}

// fill reads all of r, at most limit bytes; more is [ErrTooBig]. expected only
// saves work where it is right.
func (m *room) fill(r io.Reader, limit, expected int64) ([]byte, error) {
	if p, ok := r.(*packedReader); ok {
		defer p.close()
	}
	m.grow(min(expected, limit) + 1)
	m.buf = m.buf[:0]
	for {
		n, err := r.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+n]
		switch {
		case int64(len(m.buf)) > limit:
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooBig, limit)
		case err == io.EOF:
			return m.buf, nil
		case err != nil:
			return nil, err
		}
		if len(m.buf) == cap(m.buf) {
			m.grow(2 * int64(cap(m.buf)))
		}
	}
}

// grow makes room for size bytes, what is there included.
func (m *room) grow(size int64) {
	if size > largeFile && !m.large {
		large.Lock()
		m.large = true
	}
	if int64(cap(m.buf)) < size {
		bigger := make([]byte, len(m.buf), max(size, 64<<10))
		copy(bigger, m.buf)
		m.buf = bigger
	}
}

// plainSize is how many bytes a packed file says it has when it is unpacked, 0
// when it does not say. A lie costs memory that is not touched, at most a
// thousand times the file.
func plainSize(r io.ReaderAt, size int64, packed Compression) int64 {
	var said uint64
	switch packed {
	case XZ:
		said = xzSize(r, size)
	case Gzip: // RFC 1952: ISIZE, the last four bytes
		var tail [4]byte
		if _, err := r.ReadAt(tail[:], max(0, size-4)); err == nil {
			said = uint64(binary.LittleEndian.Uint32(tail[:]))
		}
	}
	if said > uint64(size)*1000 {
		return 0
	}
	return int64(said)
}

// xzSize adds up the sizes in the index of an xz file (sections 2.1.2 and 4).
func xzSize(r io.ReaderAt, size int64) uint64 {
	var footer [12]byte
	if _, err := r.ReadAt(footer[:], max(0, size-12)); err != nil || string(footer[10:]) != "YZ" {
		return 0
	}
	length := (int64(binary.LittleEndian.Uint32(footer[4:])) + 1) * 4
	if length > 64<<10 || length > size-12 {
		return 0
	}
	index := make([]byte, length)
	if _, err := r.ReadAt(index, size-12-length); err != nil {
		return 0
	}
	number := func() uint64 {
		v, n := binary.Uvarint(index)
		index = index[max(n, 0):]
		return v
	}
	index = index[1:]
	sum := uint64(0)
	for range min(number(), uint64(length)) {
		number()
		sum += number()
	}
	return sum
}
