package kmod

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/xi2/xz"

	"fitout/hostops/kmod/unzstd"
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

// The headers of other images.
const (
	// armMagic of an arm64 Image, which is the kernel as it lies in memory
	// (Documentation/arch/arm64/booting.rst, "Call the kernel image").
	armMagic, armMagicAt = "ARM\x64", 56
	// zbootMagic of a packed kernel that unpacks itself under EFI, after "MZ"
	// and two bytes; then offset and size of the payload, 32 bits each
	// (drivers/firmware/efi/libstub/zboot-header.S).
	zbootMagic, zbootMagicAt, zbootOffset, zbootSize = "zimg", 4, 8, 12
)

// payload is a kernel, packed or not, inside the file that boots.
type payload struct {
	*io.SectionReader
	size int // unpacked, in bytes; 0 when the file does not say
}

// sizeField is behind a packed payload, no part of its stream: its unpacked
// size (Makefile.lib, size_append). gzip has the same as its own last field.
const sizeField = 4

// kernelPayload finds the kernel in a file that boots: an x86 bzImage, an arm64
// Image, an EFI zboot image, an ELF vmlinux, or one of these packed as a whole
// (Image.gz).
func kernelPayload(r io.ReaderAt) (*payload, error) {
	head := make([]byte, bzHeader)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("reading the kernel image: %w", err)
	}
	le := binary.LittleEndian
	var offset, length int64
	switch {
	case string(head[bzMagic:bzMagic+4]) == "HdrS" && le.Uint16(head[bzVersion:]) >= 0x208:
		sects := int64(head[bzSetupSects])
		if sects == 0 {
			sects = 4 // boot.rst: for compatibility
		}
		offset = (sects+1)*512 + int64(le.Uint32(head[bzPayloadOffset:]))
		length = int64(le.Uint32(head[bzPayloadLength:])) - sizeField
	case string(head[zbootMagicAt:zbootMagicAt+4]) == zbootMagic:
		offset, length = int64(le.Uint32(head[zbootOffset:])), int64(le.Uint32(head[zbootSize:]))
	case string(head[armMagicAt:armMagicAt+4]) == armMagic, packerOf(head) != nil:
		return &payload{SectionReader: io.NewSectionReader(r, 0, maxKernel)}, nil
	default:
		return nil, fmt.Errorf("%w: it is no x86 or arm64 boot image, no EFI zboot image and no ELF file", ErrNoExports)
	}
	if length <= 0 {
		return nil, fmt.Errorf("%w: its payload is empty", ErrNoExports)
	}
	p := &payload{SectionReader: io.NewSectionReader(r, offset, length)}
	var field [sizeField]byte
	if _, err := r.ReadAt(field[:], offset+length); err == nil {
		if size := le.Uint32(field[:]); size <= maxKernel {
			p.size = int(size)
		}
	}
	return p, nil
}

// packer is a way to pack a kernel.
type packer struct {
	name, magic string
	open        func(io.Reader) (io.Reader, error) // nil: not read here
}

func plain(r io.Reader) (io.Reader, error) { return r, nil }

// packers are the ways a kernel is packed, by its first bytes: what
// scripts/extract-vmlinux knows. Kernel builds put an x86 filter before LZMA2,
// which module files never have. The last two are known by name only.
var packers = []packer{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, kernelWindow) }},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(kernelWindow), zstd.WithDecoderLowmem(true))
	}},
	{"LZ4", "\x02\x21\x4c\x18", func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
	{"bzip2", "BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"ELF", elf.ELFMAG, plain},
	{"LZMA", "\x5d\x00\x00", nil},
	{"LZO", "\x89LZO\x00", nil},
}

// packerOf tells how what begins with head is packed, nil when that is not known.
func packerOf(head []byte) *packer {
	for i, p := range packers {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return &packers[i]
		}
	}
	return nil
}

// unpacked opens a kernel's payload from its beginning.
func unpacked(k *payload) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(k, 64<<10)
	head, err := r.Peek(armMagicAt + len(armMagic))
	if err != nil {
		return nil, errors.Join(ErrNoExports, err)
	}
	p := packerOf(head)
	switch {
	case string(head[armMagicAt:]) == armMagic:
		return io.NopCloser(r), nil
	case p == nil:
		return nil, fmt.Errorf("%w: it is packed in a way not known here (% x)", ErrNoExports, head[:6])
	case p.open == nil:
		return nil, fmt.Errorf("%w: it is packed with %s, which is not read here", ErrNoExports, p.name)
	case p.name == "zstd" && k.size > 0:
		return unzstd.NewReader(r, k.size)
	}
	plain, err := p.open(r)
	if err != nil {
		return nil, fmt.Errorf("unpacking the kernel image (%s): %w", p.name, err)
	}
	if z, ok := plain.(*zstd.Decoder); ok {
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(plain), nil
}
