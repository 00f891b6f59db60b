// Package ids answers which lines of the PCI name database are about given
// devices. A node has a few dozen of the database's 40,000 entries, and a parser
// that is given all of them takes longer than everything else a device list
// needs.
package ids

import (
	"bytes"
	"strings"
)

// Key names one device of the database, four lower-case hex digits each.
// Device "" asks for the vendor's name alone.
type Key struct{ Vendor, Device string }

// Date is the date in the head of a pci.ids text ("2023-04-10 20:08:02"), ""
// when it has none. Dates compare as strings.
func Date(text []byte) string {
	head := text[:min(len(text), 2048)]
	for line := range bytes.Lines(head) {
		if rest, ok := bytes.CutPrefix(line, []byte("#\tDate:")); ok {
			return strings.TrimSpace(string(rest))
		}
	}
	return ""
}

// device returns the lines of key: the vendor's own line and, when the vendor
// has the device, its line with those of its subsystems.
func device(text []byte, key Key) (vendor, lines []byte) {
	start := lineIndex(text, key.Vendor+"  ")
	if start < 0 {
		return nil, nil
	}
	rest := text[start:]
	vendor, rest = splitLine(rest)
	if key.Device == "" {
		return vendor, nil
	}
	// The block ends where a line starts with neither a tab nor a '#'.
	end := 0
	for end < len(rest) && (rest[end] == '\t' || rest[end] == '#') {
		end += lineLength(rest[end:])
	}
	block := rest[:end]
	at := lineIndex(block, "\t"+key.Device+"  ")
	if at < 0 {
		return vendor, nil
	}
	lines = block[at:]
	end = lineLength(lines)
	for end < len(lines) && (bytes.HasPrefix(lines[end:], []byte("\t\t")) || lines[end] == '#') {
		end += lineLength(lines[end:])
	}
	return vendor, lines[:end]
}

// classes returns the section that names device classes, which is the last.
func classes(text []byte) []byte {
	if at := lineIndex(text, "C "); at >= 0 {
		return text[at:]
	}
	return nil
}

// lineIndex finds the first line that starts so.
func lineIndex(text []byte, start string) int {
	if bytes.HasPrefix(text, []byte(start)) {
		return 0
	}
	if i := bytes.Index(text, []byte("\n"+start)); i >= 0 {
		return i + 1
	}
	return -1
}

func splitLine(text []byte) (line, rest []byte) {
	n := lineLength(text)
	return text[:n], text[n:]
}

// lineLength is the length of the first line, its newline included.
func lineLength(text []byte) int {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return len(text)
}
