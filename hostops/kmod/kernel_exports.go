package kmod

import (
	"bytes"
	"encoding/binary"
)

// The export tables of a kernel (include/asm-generic/vmlinux.lds.h, RO_DATA) lie
// one behind the other in every kernel with symbol versions, whatever container
// it boots from:
//
//	__ksymtab         struct kernel_symbol, sorted by name
//	__ksymtab_gpl     the same, of EXPORT_SYMBOL_GPL
//	__kcrctab         a 32-bit version for each entry above, in that order
//	__kcrctab_gpl
//	__ksymtab_strings names and namespaces, each ended by NUL
//
// They are found by this shape, not by section headers: an arm64 Image has none,
// an ELF kernel has them at its very end, when the tables have long flown by.
// What has not this shape to the byte is not taken for it.

// ksymSize is the size of struct kernel_symbol with place-relative references:
// three 32-bit offsets, each relative to its own address, to value, name and
// namespace (include/linux/export-internal.h, since 5.4; x86 and arm64).
const ksymSize = 12

const (
	// probeEvery is the distance between two looks, in bytes: less than the
	// smallest table of entries. Real kernels have 9,000 exports and more.
	probeEvery = 4 << 10
	// probeRun is how many entries in a row are worth a closer look.
	probeRun = 16
	// maxSymbolName is KSYM_NAME_LEN, in bytes.
	maxSymbolName = 512
	// maxExports is how many bytes the tables may take together. Real ones have
	// 400 KiB.
	maxExports = 1 << 20
)

// findExports reads the export tables that begin in the first limit bytes of b,
// a part of a kernel. nil: there are none, or they are cut by its end.
func findExports(b []byte, limit int) map[string]Symbol {
	for at := 0; at < len(b); at += probeEvery {
		for phase := at; phase < at+ksymSize; phase += 4 {
			if !isTable(b, phase) {
				continue
			}
			first := phase
			for isEntry(b, first-ksymSize) {
				first -= ksymSize
			}
			if first >= limit {
				return nil
			}
			if found := readExports(b, first); found != nil {
				return found
			}
		}
	}
	return nil
}

func isTable(b []byte, at int) bool {
	for i := range probeRun {
		if !isEntry(b, at+i*ksymSize) {
			return false
		}
	}
	return true
}

// isEntry says that a struct kernel_symbol may be there: its name lies behind.
func isEntry(b []byte, at int) bool {
	if at < 0 || at+ksymSize > len(b) {
		return false
	}
	name := target(b, at+4)
	return name > at && symbolName(b, name) != nil
}

// readExports reads the tables whose first entry is at first. nil when they do
// not fit together.
func readExports(b []byte, first int) map[string]Symbol {
	count := 0
	for isEntry(b, first+count*ksymSize) {
		count++
	}
	versions := first + count*ksymSize
	if versions+4*count > len(b) {
		return nil
	}
	symbols, names := make([]Symbol, count), make([]string, count)
	gpl, turns, lowest := count, 0, len(b)
	for i := range count {
		at := first + i*ksymSize
		text := target(b, at+4)
		names[i] = string(symbolName(b, text))
		if i > 0 && names[i] <= names[i-1] {
			gpl, turns = i, turns+1
		}
		lowest = min(lowest, text)
		symbols[i] = Symbol{CRC: binary.LittleEndian.Uint32(b[versions+4*i:]), HasCRC: true, TermsKnown: true, Module: "vmlinux"}
		if binary.LittleEndian.Uint32(b[at+8:]) == 0 {
			continue // no namespace: kernels before 5.10
		}
		space := target(b, at+8)
		if space <= at || space >= len(b) {
			return nil
		}
		lowest = min(lowest, space)
		symbols[i].Namespace = string(text0(b[space:]))
	}
	// The names begin where the versions end, and there are two sorted tables.
	if turns != 1 || lowest != versions+4*count {
		return nil
	}
	found := make(map[string]Symbol, count)
	for i, name := range names {
		symbols[i].GPLOnly = i >= gpl
		found[name] = symbols[i]
	}
	return found
}

// target is the offset that the place-relative reference at an offset means.
func target(b []byte, at int) int {
	return at + int(int32(binary.LittleEndian.Uint32(b[at:])))
}

// symbolName is the name of a symbol at an offset, nil when none is there.
func symbolName(b []byte, at int) []byte {
	if at < 0 || at >= len(b) {
		return nil
	}
	name := text0(b[at:])
	for _, c := range name {
		if c != '_' && c != '.' && c != '$' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return nil
		}
	}
	return name
}

// text0 is the text that ends with the first NUL of b, nil when it is empty or
// longer than a symbol's name.
func text0(b []byte) []byte {
	if end := bytes.IndexByte(b[:min(len(b), maxSymbolName)], 0); end > 0 {
		return b[:end]
	}
	return nil
}
