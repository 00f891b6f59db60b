package kmod

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// symversFiles are the places where systems keep the versions of a kernel's
// exports, below the OS root; %[1]s is the modules directory, %[2]s the release.
// Sources: Fedora and RHEL kernel.spec (symvers.gz, later .xz, beside the
// modules, linked from /boot), SUSE kernel-binary.spec (/boot/symvers-*.gz,
// later symvers.zst beside the modules), Debian linux-headers, and the kernel's
// own modules_install (the build link).
var symversFiles = []string{
	"%[1]s/symvers.gz", "%[1]s/symvers.xz", "%[1]s/symvers.zst", "%[1]s/symvers",
	"/boot/symvers-%[2]s.gz", "/boot/symvers-%[2]s.xz", "/boot/symvers-%[2]s.zst", "/boot/symvers-%[2]s",
	"%[1]s/build/Module.symvers",
	"/usr/src/linux-headers-%[2]s/Module.symvers",
	"/usr/src/kernels/%[2]s/Module.symvers",
}

// maxSymvers bounds an unpacked symvers file, in bytes. Real ones have 1.5 MiB.
const maxSymvers = 64 << 20

// find fills s from the best source there is. A symvers file whose
// module_layout is not that of the kernel's own modules belongs to another
// build and is passed over.
func (s *Symbols) find(n *hostops.Node, k *Kernel, cache string) {
	for _, pattern := range symversFiles {
		file := fmt.Sprintf(pattern, k.Dir, k.Release)
		if !strings.HasPrefix(file, k.Dir) {
			file = path.Join(osRoot(k.Dir), file)
		}
		f, err := n.Open(file)
		if err != nil {
			continue
		}
		found, err := ReadSymvers(f)
		_ = f.Close()
		if err != nil {
			n.Log.Debug("symbol versions not usable", "file", file, "error", err)
			continue
		}
		if layout := found["module_layout"]; k.ModuleLayout != 0 && layout.CRC != k.ModuleLayout {
			n.Log.Debug("symbol versions of another build", "file", file)
			continue
		}
		s.origin, s.file, s.byName = FromSymvers, file, found
		return
	}
	if k.ModuleLayout == 0 {
		return // its modules carry no versions: there is nothing to harvest
	}
	s.origin, s.file, s.byName = FromModules, k.Dir, map[string]Symbol{}
	s.harvest = newHarvest(n, k, cache)
	s.harvest.recall(s)
}

// ReadSymvers reads a Module.symvers file, packed or not: a line a symbol, of
// CRC, name, exporter and kind, and the namespace since kernel 5.4, separated
// by tabs (kernel, scripts/mod/modpost.c, write_dump). Kind "UNKNOWN" is of a
// harvest: the symbol's terms were not seen.
func ReadSymvers(r io.Reader) (map[string]Symbol, error) { return readSymvers(r, maxSymvers) }

func readSymvers(r io.Reader, limit int64) (map[string]Symbol, error) {
	plain, _, err := module.Decompress(r)
	if err != nil {
		return nil, fmt.Errorf("reading symbol versions: %w", err)
	}
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(plain, limit+1)); err != nil {
		return nil, fmt.Errorf("reading symbol versions: %w", err)
	}
	if int64(buf.Len()) > limit {
		return nil, fmt.Errorf("reading symbol versions: more than %d bytes", limit)
	}
	text := buf.String()
	found := make(map[string]Symbol, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		if name, sym, ok := parseSymvers(strings.TrimRight(line, "\r\n")); ok {
			found[name] = sym
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading symbol versions: no symbol in %d bytes", len(text))
	}
	return found, nil
}

func parseSymvers(line string) (string, Symbol, bool) {
	crc, rest, _ := strings.Cut(line, "\t")
	name, rest, _ := strings.Cut(rest, "\t")
	exporter, rest, ok := strings.Cut(rest, "\t")
	if !ok || name == "" || !strings.HasPrefix(crc, "0x") {
		return "", Symbol{}, false
	}
	kind, namespace, _ := strings.Cut(rest, "\t")
	value, err := strconv.ParseUint(crc[2:], 16, 32)
	if err != nil {
		return "", Symbol{}, false
	}
	sym := Symbol{
		CRC: uint32(value), HasCRC: true, TermsKnown: kind != "UNKNOWN",
		GPLOnly: strings.HasSuffix(kind, "_GPL"), Namespace: namespace, Module: "vmlinux",
	}
	if exporter != "vmlinux" {
		sym.Module = module.NameOf(exporter)
	}
	return name, sym, true
}
