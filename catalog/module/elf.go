package module

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// file is an ELF object read by as few reads as it takes: the header, the tail
// (which holds the section table and the signature), then a section at a time.
type file struct {
	name  string
	r     io.ReaderAt
	size  int64
	order binary.ByteOrder
	is64  bool

	machine  elf.Machine
	sections []section
	names    []byte // section names
	tail     []byte // the last bytes of the file, or all of it
	tailAt   int64
	shared   bool // tail serves other files afterwards: nothing may keep a part of it
}

// section is a section header.
type section struct {
	name         uint32
	kind, link   uint32
	offset, size uint64
}

// tailGuess is how much before the section table is read with it: the section
// names lie there.
const tailGuess = 2 << 10

// maxTail bounds the tail: 65,279 section headers of 64 bytes and a signature.
const maxTail = 8 << 20

func (f *file) fail(kind error, detail string) error {
	return &FileError{File: f.name, Kind: kind, Size: f.size, Detail: detail}
}

// bytes reads a range of the file into buf when that is large enough.
func (f *file) bytes(off, n int64, buf []byte) ([]byte, error) {
	if off < 0 || n < 0 || off > f.size || n > f.size-off {
		return nil, f.fail(ErrTruncated, fmt.Sprintf("it refers to bytes up to %d", uint64(off)+uint64(n)))
	}
	if f.tail != nil && off >= f.tailAt {
		return f.tail[off-f.tailAt:][:n:n], nil
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if got, err := f.r.ReadAt(buf, off); int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, f.fail(ErrTruncated, "it became shorter while it was read")
		}
		return nil, fmt.Errorf("reading %s: %w", f.name, err)
	}
	return buf, nil
}

// open reads the ELF header and the section table.
func (f *file) open() error {
	head, err := f.bytes(0, min(64, f.size), nil)
	if err != nil {
		return err
	}
	if len(head) < 52 || string(head[:4]) != elf.ELFMAG {
		return f.fail(ErrNotModule, "")
	}
	switch elf.Data(head[5]) {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return f.fail(ErrNotModule, "unknown byte order in its ELF header")
	}
	f.is64 = elf.Class(head[4]) == elf.ELFCLASS64
	if f.is64 && len(head) < 64 {
		return f.fail(ErrNotModule, "")
	}
	if elf.Type(f.order.Uint16(head[16:])) != elf.ET_REL {
		return f.fail(ErrNotModule, "an ELF file, but not a relocatable one")
	}
	f.machine = elf.Machine(f.order.Uint16(head[18:]))
	shoff, counts := int64(f.order.Uint32(head[32:])), head[46:52]
	if f.is64 {
		shoff, counts = int64(f.order.Uint64(head[40:])), head[58:64]
	}
	entry, number, strings := f.order.Uint16(counts), f.order.Uint16(counts[2:]), f.order.Uint16(counts[4:])
	return f.table(shoff, int64(entry), int64(number), int64(strings))
}

// table reads the section table and checks, as the kernel does
// (elf_validity_cache_copy), that every section lies inside the file.
func (f *file) table(shoff, entry, number, strings int64) error {
	want := int64(40)
	if f.is64 {
		want = 64
	}
	if entry != want || number == 0 || strings >= number {
		return f.fail(ErrNotModule, "no usable section table")
	}
	if shoff < 0 || shoff > f.size || number*entry > f.size-shoff {
		return f.fail(ErrTruncated, fmt.Sprintf("its section table should end at byte %d", uint64(shoff)+uint64(number*entry)))
	}
	at := max(0, shoff-tailGuess)
	if f.tail == nil && f.size-at <= maxTail {
		tail, err := f.bytes(at, f.size-at, nil)
		if err != nil {
			return err
		}
		f.tail, f.tailAt = tail, at
	}
	raw, err := f.bytes(shoff, number*entry, nil)
	if err != nil {
		return err
	}
	f.sections = make([]section, number)
	for i := range f.sections {
		s := f.header(raw[int64(i)*entry:])
		if s.kind != uint32(elf.SHT_NULL) && s.kind != uint32(elf.SHT_NOBITS) &&
			(s.offset > uint64(f.size) || s.size > uint64(f.size)-s.offset) {
			return f.fail(ErrTruncated, fmt.Sprintf("section %d should end at byte %d", i, s.offset+s.size))
		}
		f.sections[i] = s
	}
	f.names, err = f.data(&f.sections[strings], nil)
	return err
}

func (f *file) header(b []byte) section {
	if f.is64 {
		return section{
			name: f.order.Uint32(b), kind: f.order.Uint32(b[4:]),
			offset: f.order.Uint64(b[24:]), size: f.order.Uint64(b[32:]), link: f.order.Uint32(b[40:]),
		}
	}
	return section{
		name: f.order.Uint32(b), kind: f.order.Uint32(b[4:]),
		offset: uint64(f.order.Uint32(b[16:])), size: uint64(f.order.Uint32(b[20:])), link: f.order.Uint32(b[24:]),
	}
}

// data reads a section; one without bytes in the file is empty.
func (f *file) data(s *section, buf []byte) ([]byte, error) {
	if s == nil || s.kind == uint32(elf.SHT_NOBITS) || s.kind == uint32(elf.SHT_NULL) {
		return nil, nil
	}
	return f.bytes(int64(s.offset), int64(s.size), buf)
}

// sectionName is valid until the file is dropped.
func (f *file) sectionName(i int) []byte {
	if i < 0 || i >= len(f.sections) || uint64(f.sections[i].name) >= uint64(len(f.names)) {
		return nil
	}
	return cString(f.names[f.sections[i].name:])
}

// find returns the first section of that name, nil when there is none.
func (f *file) find(name string) *section {
	for i := range f.sections {
		if string(f.sectionName(i)) == name {
			return &f.sections[i]
		}
	}
	return nil
}

// ofKind returns the first section of that type.
func (f *file) ofKind(kind elf.SectionType) *section {
	for i := range f.sections {
		if f.sections[i].kind == uint32(kind) {
			return &f.sections[i]
		}
	}
	return nil
}
