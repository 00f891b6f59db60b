package kmod

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/xi2/xz"
)

// maxKernel bounds an unpacked kernel image, in bytes. Distributions' kernels
// have 30 to 80 MiB.
const maxKernel = 512 << 20

// kernelWindow is the largest decoder window a kernel's payload may ask for, in
// bytes: scripts/xz_wrap.sh and "zstd --ultra -22" use up to 128 MiB.
const kernelWindow = 128 << 20

// The setup header of an x86 kernel (boot.rst, "The Real-Mode Kernel Header").
const (
	bzMagic         = 0x202 // "HdrS"
	bzVersion       = 0x206 // protocol 2.08 introduced the payload fields
	bzSetupSects    = 0x1f1
	bzPayloadOffset = 0x248
	bzPayloadLength = 0x24c
	bzHeader        = 0x250
)

// kernelPayload finds the packed vmlinux in a bootable image.
func kernelPayload(r io.ReaderAt) (*io.SectionReader, error) {
	head := make([]byte, bzHeader)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("reading the kernel image: %w", err)
	}
	if bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return io.NewSectionReader(r, 0, maxKernel), nil
	}
	le := binary.LittleEndian
	if string(head[bzMagic:bzMagic+4]) != "HdrS" || le.Uint16(head[bzVersion:]) < 0x208 {
		return nil, fmt.Errorf("%w: neither an x86 boot image nor an ELF file", ErrNoExports)
	}
	sects := int64(head[bzSetupSects])
	if sects == 0 {
		sects = 4 // boot.rst: for compatibility
	}
	offset := (sects+1)*512 + int64(le.Uint32(head[bzPayloadOffset:]))
	// The payload ends with four bytes that hold its unpacked size, which are
	// no part of the stream (Makefile.lib, size_append).
	length := int64(le.Uint32(head[bzPayloadLength:])) - 4
	if length <= 0 {
		return nil, fmt.Errorf("%w: its payload is empty", ErrNoExports)
	}
	return io.NewSectionReader(r, offset, length), nil
}

// packers are the ways a kernel's payload is packed, by its first bytes
// (scripts/extract-vmlinux knows the same). Kernel builds put an x86 filter
// before LZMA2, which module files never have.
var packers = []struct {
	magic string
	open  func(io.Reader) (io.Reader, error)
}{
	{"\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, kernelWindow) }},
	{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(kernelWindow), zstd.WithDecoderLowmem(true))
	}},
	{"\x02\x21\x4c\x18", func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
	{elf.ELFMAG, func(r io.Reader) (io.Reader, error) { return r, nil }},
}

// unpacked opens a kernel's payload from its beginning.
func unpacked(payload *io.SectionReader) (io.Reader, error) {
	if _, err := payload.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(payload, 64<<10)
	head, err := r.Peek(6)
	if err != nil {
		return nil, err
	}
	for _, p := range packers {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return p.open(r)
		}
	}
	return nil, fmt.Errorf("%w: its payload is packed in a way not known here (% x)", ErrNoExports, head)
}

// pieces are byte ranges of an unpacked kernel, by offset: all that is kept of
// it. Reading elsewhere is an error.
type pieces map[int64][]byte

// want adds a range to be filled.
func (p pieces) want(off, size int64) error {
	if off < 0 || size < 0 || off > maxKernel || size > maxPiece {
		return fmt.Errorf("%w: it refers to %d bytes at %d", ErrNoExports, size, off)
	}
	p[off] = make([]byte, size)
	return nil
}

// maxPiece bounds a range in bytes; a kernel's largest export table has 200 KiB.
const maxPiece = 16 << 20

// fill unpacks the payload as far as the last range and keeps the ranges.
func (p pieces) fill(payload *io.SectionReader) error {
	plain, err := unpacked(payload)
	if err != nil {
		return err
	}
	var end int64
	for off, b := range p {
		end = max(end, off+int64(len(b)))
	}
	chunk := make([]byte, 256<<10)
	for at := int64(0); at < end; {
		n, err := io.ReadFull(plain, chunk[:min(int64(len(chunk)), end-at)])
		for off, b := range p {
			if from, to := max(at, off), min(at+int64(n), off+int64(len(b))); from < to {
				copy(b[from-off:], chunk[from-at:to-at])
			}
		}
		if at += int64(n); err != nil && at < end {
			return err
		}
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (p pieces) ReadAt(b []byte, at int64) (int, error) {
	for off, piece := range p {
		if at >= off && at+int64(len(b)) <= off+int64(len(piece)) {
			return copy(b, piece[at-off:]), nil
		}
	}
	return 0, fmt.Errorf("%w: its tables are not where kernels have them (%d bytes at %d)", ErrNoExports, len(b), at)
}
