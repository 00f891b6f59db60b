package ids

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"

	"github.com/klauspost/compress/flate"
)

// A pack is a pci.ids text cut into chunks that are compressed one by one, so
// that looking a device up decompresses one of them. All numbers are
// big-endian.
//
//	magic      8 bytes, "fitoutP1"
//	date       20 bytes, padded with blanks
//	chunks     uint32, how many
//	each chunk uint32 key (vendor<<16 | device of its first line), uint32
//	           offset and uint32 size in the data that follows, uint32 size
//	           unpacked; a chunk that begins inside a vendor's block starts with
//	           a copy of the vendor's line
//	data
//
// The last chunk is the class section.
const (
	magic       = "fitoutP1"
	dateSize    = 20
	recordSize  = 16
	chunkTarget = 8 << 10
	maxChunk    = 1 << 20
)

var errDamaged = errors.New("the packed PCI name database is damaged")

// Pack reads a pack. It looks nothing up until it is asked.
type Pack struct {
	Date    string
	records []byte
	data    []byte
	// The chunk looked at last: keys are asked for in order.
	last     int
	lastText []byte
	inflate  io.ReadCloser
}

// Open checks the head of a pack.
func Open(b []byte) (*Pack, error) {
	head := len(magic) + dateSize + 4
	if len(b) < head || string(b[:len(magic)]) != magic {
		return nil, errDamaged
	}
	count := int(binary.BigEndian.Uint32(b[head-4:]))
	if count < 1 || count > (len(b)-head)/recordSize {
		return nil, errDamaged
	}
	return &Pack{
		Date:    string(bytes.TrimSpace(b[len(magic) : head-4])),
		records: b[head : head+count*recordSize],
		data:    b[head+count*recordSize:],
		last:    -1,
	}, nil
}

func (p *Pack) chunks() int { return len(p.records) / recordSize }

func (p *Pack) field(chunk, i int) uint32 {
	return binary.BigEndian.Uint32(p.records[chunk*recordSize+i*4:])
}

func (p *Pack) fragment(k Key) ([]byte, error) {
	number, err := k.number()
	if err != nil {
		return nil, err
	}
	i := sort.Search(p.chunks()-1, func(i int) bool { return p.field(i, 0) > number }) - 1
	if i < 0 {
		return nil, nil // before the first vendor
	}
	return p.chunk(i)
}

func (p *Pack) classSection() ([]byte, error) { return p.chunk(p.chunks() - 1) }

func (p *Pack) chunk(i int) ([]byte, error) {
	if i == p.last {
		return p.lastText, nil
	}
	offset, size, unpacked := uint64(p.field(i, 1)), uint64(p.field(i, 2)), p.field(i, 3)
	if offset+size > uint64(len(p.data)) || unpacked > maxChunk {
		return nil, errDamaged
	}
	text := make([]byte, unpacked)
	packed := bytes.NewReader(p.data[offset : offset+size])
	if p.inflate == nil {
		p.inflate = flate.NewReader(packed)
	} else if err := p.inflate.(flate.Resetter).Reset(packed, nil); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(p.inflate, text); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	p.last, p.lastText = i, text
	return text, nil
}

// number is the key as chunks are ordered by. A vendor's own line sorts before
// all its devices but device 0000, and is never the last line of a chunk.
func (k Key) number() (uint32, error) {
	device := k.Device
	if device == "" {
		device = "0000"
	}
	v, err := strconv.ParseUint(k.Vendor+device, 16, 32)
	if err != nil || len(k.Vendor) != 4 || len(device) != 4 {
		return 0, fmt.Errorf("%q:%q is no PCI id", k.Vendor, k.Device)
	}
	return uint32(v), nil
}
