package kmod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
)

// ErrNoExports says that a kernel image was read and tells nothing of its
// exports: it has no symbol versions, or a form that is not known here.
var ErrNoExports = errors.New("the kernel image does not tell its exports")

// ReadKernelImage reads the exports of the kernel proper, with their versions,
// from the image that boots: an x86 bzImage (Documentation/arch/x86/boot.rst),
// whose payload is the packed vmlinux, or an ELF vmlinux itself. Stripping took
// the symbol table, but the sections that the module loader itself looks
// exports up in are loaded data and are still there: __ksymtab, __ksymtab_gpl,
// their strings, and __kcrctab beside them (include/asm-generic/vmlinux.lds.h).
// So no header package is needed to know what a kernel exports.
func ReadKernelImage(r io.ReaderAt) (map[string]Symbol, error) {
	payload, err := kernelPayload(r)
	if err != nil {
		return nil, err
	}
	file, err := openKernel(payload)
	if err != nil {
		return nil, err
	}
	return kernelExports(file)
}

// sectionNames is how far before the section headers their names may lie, in
// bytes: the linker puts them last.
const sectionNames = 64 << 10

// elfHead is what is read from the beginning, in bytes: the ELF header and the
// few program headers of a kernel.
const elfHead = 4 << 10

// openKernel unpacks the payload twice, and keeps only what the export tables
// need: first the section headers, which come last, then the tables. A whole
// vmlinux in memory would be 30 to 80 MiB.
func openKernel(payload *io.SectionReader) (*elf.File, error) {
	kept := pieces{}
	if err := errors.Join(kept.want(0, elfHead), kept.fill(payload)); err != nil {
		return nil, fmt.Errorf("unpacking the kernel image: %w", err)
	}
	head := kept[0]
	if !bytes.HasPrefix(head, []byte(elf.ELFMAG)) || head[4] != byte(elf.ELFCLASS64) || head[5] != byte(elf.ELFDATA2LSB) {
		return nil, fmt.Errorf("%w: its payload is no 64-bit ELF file", ErrNoExports)
	}
	le := binary.LittleEndian
	headers, count := int64(le.Uint64(head[40:])), int64(le.Uint16(head[60:]))
	from := max(elfHead, headers-sectionNames)
	if err := errors.Join(kept.want(from, headers-from+count*64), kept.fill(payload)); err != nil {
		return nil, fmt.Errorf("unpacking the kernel image: %w", err)
	}
	file, err := elf.NewFile(kept)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoExports, err)
	}
	tables := pieces{}
	for _, s := range file.Sections {
		switch s.Name {
		case "__ksymtab", "__ksymtab_gpl", "__kcrctab", "__kcrctab_gpl", "__ksymtab_strings":
			if err := tables.want(int64(s.Offset), int64(s.Size)); err != nil {
				return nil, err
			}
		}
	}
	if err := tables.fill(payload); err != nil {
		return nil, fmt.Errorf("unpacking the kernel image: %w", err)
	}
	maps.Copy(kept, tables)
	return file, nil
}

// kernelExports reads the export tables of a vmlinux.
func kernelExports(file *elf.File) (map[string]Symbol, error) {
	out := map[string]Symbol{}
	strings, err := newStringTable(file)
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		syms, crcs string
		gpl        bool
	}{{"__ksymtab", "__kcrctab", false}, {"__ksymtab_gpl", "__kcrctab_gpl", true}} {
		if err := readExports(file, t.syms, t.crcs, t.gpl, strings, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: its export tables are empty", ErrNoExports)
	}
	return out, nil
}

// ksymSize is the size of struct kernel_symbol with place-relative references:
// three 32-bit offsets, each relative to its own address, to value, name and
// namespace (include/linux/export.h, CONFIG_HAVE_ARCH_PREL32_RELOCATIONS).
const ksymSize = 12

func readExports(file *elf.File, symsName, crcsName string, gpl bool, names *stringTable, out map[string]Symbol) error {
	syms, crcs := file.Section(symsName), file.Section(crcsName)
	if syms == nil || crcs == nil {
		return nil
	}
	table, err := syms.Data()
	if err != nil {
		return fmt.Errorf("reading %s of the kernel image: %w", symsName, err)
	}
	versions, err := crcs.Data()
	if err != nil {
		return fmt.Errorf("reading %s of the kernel image: %w", crcsName, err)
	}
	count := len(table) / ksymSize
	if len(table)%ksymSize != 0 || len(versions) != 4*count {
		return fmt.Errorf("%w: %s has %d bytes and %s %d, which do not fit together", ErrNoExports, symsName, len(table), crcsName, len(versions))
	}
	order := file.ByteOrder
	for i := range count {
		at := syms.Addr + uint64(i*ksymSize)
		name, ok := names.at(relative(order, table[i*ksymSize+4:], at+4))
		if !ok || name == "" {
			return fmt.Errorf("%w: entry %d of %s has no name", ErrNoExports, i, symsName)
		}
		s := Symbol{CRC: order.Uint32(versions[4*i:]), HasCRC: true, TermsKnown: true, GPLOnly: gpl, Module: "vmlinux"}
		if place := table[i*ksymSize+8:]; order.Uint32(place) != 0 {
			s.Namespace, _ = names.at(relative(order, place, at+8))
		}
		out[name] = s
	}
	return nil
}

// relative is the address that a place-relative reference at address at means.
func relative(order binary.ByteOrder, b []byte, at uint64) uint64 {
	return at + uint64(int64(int32(order.Uint32(b))))
}

// stringTable are the names of exports, by address.
type stringTable struct {
	data []byte
	addr uint64
}

func newStringTable(file *elf.File) (*stringTable, error) {
	s := file.Section("__ksymtab_strings")
	if s == nil {
		return nil, fmt.Errorf("%w: it has no table of names", ErrNoExports)
	}
	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("reading the names of the kernel image's exports: %w", err)
	}
	return &stringTable{data, s.Addr}, nil
}

func (t *stringTable) at(addr uint64) (string, bool) {
	if addr < t.addr || addr >= t.addr+uint64(len(t.data)) {
		return "", false
	}
	rest := t.data[addr-t.addr:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return "", false
	}
	return string(rest[:end]), true
}
