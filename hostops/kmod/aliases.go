package kmod

import (
	"slices"
	"strings"
	"sync"

	"fitout/catalog/module"
)

// aliasTable holds the alias lines of one kernel. Lines are indexed by bus (the
// first three bytes of an alias), each bus at the first question about it: a
// node that only has PCI devices never pays for the USB lines.
type aliasTable struct {
	text    string       // modules.alias
	builtin []aliasEntry // of modules.builtin.modinfo
	scanned []aliasEntry // of module files, where modules.alias is missing

	mu    sync.Mutex
	buses map[string]*bus
}

type aliasEntry struct {
	pattern, module string
	builtin         bool
	piece           string // must be in the modalias; "" when not looked for
}

// bus indexes entries by a hash of the pattern's literal beginning, up to its
// first wild card. A modalias is hashed once, byte by byte; only at lengths
// that some pattern's beginning has is the map asked.
type bus struct {
	entries []aliasEntry
	next    []int32          // the next entry with the same hash, -1 at the end
	heads   map[uint64]int32 // the first
	lengths [4]uint64        // bit set: lengths of beginnings, 0 to 255
}

// busKey is the length of what tells a bus.
const busKey = 3

func (t *Tables) readAliases() *aliasTable {
	a := &aliasTable{text: t.read("modules.alias"), buses: map[string]*bus{}}
	if a.text == "" {
		for _, m := range t.scanned() {
			for _, alias := range m.Aliases {
				a.scanned = append(a.scanned, aliasEntry{pattern: alias, module: m.Name})
			}
		}
	}
	a.builtin = builtinAliases(t.read("modules.builtin.modinfo"))
	return a
}

// builtinAliases picks "MODULE.alias=PATTERN" out of modules.builtin.modinfo,
// whose entries end with NUL bytes (kernel, Documentation/kbuild/kbuild.rst).
func builtinAliases(text string) []aliasEntry {
	var found []aliasEntry
	for text != "" {
		entry, rest, _ := strings.Cut(text, "\x00")
		text = rest
		name, entry, ok := strings.Cut(entry, ".")
		if !ok {
			continue
		}
		if pattern, ok := strings.CutPrefix(entry, "alias="); ok {
			found = append(found, aliasEntry{pattern: pattern, module: module.Normalize(name), builtin: true})
		}
	}
	return found
}

// onBus says whether a pattern may match a modalias that begins with key.
func onBus(pattern, key string) bool {
	if strings.HasPrefix(pattern, key) {
		return true
	}
	for i := range min(len(pattern), len(key)) {
		switch c := pattern[i]; {
		case strings.IndexByte(`*?[\`, c) >= 0:
			return true
		case c != key[i]:
			return false
		}
	}
	return false
}

func (a *aliasTable) bus(key string) *bus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b, ok := a.buses[key]; ok {
		return b
	}
	b := &bus{entries: make([]aliasEntry, 0, 1024)}
	for text := a.text; text != ""; {
		line := text
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		line, ok := strings.CutPrefix(line, "alias ")
		if !ok || !onBus(line, key) {
			continue
		}
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			b.entries = append(b.entries, aliasEntry{pattern: line[:i], module: line[i+1:]})
		}
	}
	for _, list := range [][]aliasEntry{a.scanned, a.builtin} {
		for _, e := range list {
			if onBus(e.pattern, key) {
				b.entries = append(b.entries, e)
			}
		}
	}
	b.index()
	a.buses[key] = b
	return b
}

// FNV-1a, 64 bits.
const fnvStart, fnvPrime = 0xcbf29ce484222325, 0x100000001b3

func hashByte(h uint64, c byte) uint64 {
	if c == '-' {
		c = '_'
	}
	return (h ^ uint64(c)) * fnvPrime
}

func (b *bus) index() {
	b.heads = make(map[uint64]int32, len(b.entries))
	b.next = make([]int32, len(b.entries))
	depth := make([]int32, len(b.entries))
	for i := range b.entries {
		e := &b.entries[i]
		h, n := uint64(fnvStart), 0
		for n < min(len(e.pattern), 255) {
			c := e.pattern[n]
			if c == '*' || c == '?' || c == '[' || c == '\\' {
				break
			}
			h = hashByte(h, c)
			n++
		}
		b.lengths[n/64] |= 1 << (n % 64)
		b.next[i] = -1
		if first, ok := b.heads[h]; ok {
			b.next[i] = first
			if depth[i] = depth[first] + 1; depth[i] >= longChain {
				e.piece = longestPiece(e.pattern)
			}
		}
		b.heads[h] = int32(i)
	}
}

// longChain is from where on an entry is asked for its longest piece first.
const longChain = 8

// longestPiece is the longest run of a pattern that stands in every modalias it
// matches, byte for byte. On buses whose patterns all begin alike
// ("of:N*T*C…", "hid:b0003g*v…", "dmi*…") searching for it tells nearly all
// others apart, much quicker than matching.
func longestPiece(pattern string) string {
	longest, from := "", 0
	for i := 0; i <= len(pattern); i++ {
		if i < len(pattern) && strings.IndexByte(`*?[\-_`, pattern[i]) < 0 {
			continue
		}
		if i-from > len(longest) {
			longest = pattern[from:i]
		}
		from = i + 1
		if i < len(pattern) && pattern[i] == '[' {
			return longest // inside of brackets nothing stands for itself
		}
	}
	return longest
}

// match returns the positions of the entries that match, in file order.
func (b *bus) match(modalias string) []int32 {
	var found []int32
	h := uint64(fnvStart)
	for n := 0; n <= min(len(modalias), 255); n++ {
		if b.lengths[n/64]&(1<<(n%64)) != 0 {
			i, ok := b.heads[h]
			for ; ok && i >= 0; i = b.next[i] {
				if e := &b.entries[i]; strings.Contains(modalias, e.piece) && module.MatchAlias(e.pattern, modalias) {
					found = append(found, i)
				}
			}
		}
		if n < len(modalias) {
			h = hashByte(h, modalias[n])
		}
	}
	slices.Sort(found)
	return found
}

// Match lists the modules whose alias lists have a modalias, each once, in the
// order of modules.alias, built-in ones last.
func (t *Tables) Match(modalias string) []Candidate {
	if !t.ready() || len(modalias) < busKey {
		return nil
	}
	b := t.aliases().bus(modalias[:busKey])
	var found []Candidate
	for _, i := range b.match(modalias) {
		e := b.entries[i]
		if slices.ContainsFunc(found, func(c Candidate) bool { return c.Module == e.module }) {
			continue
		}
		c := Candidate{Module: e.module, Builtin: e.builtin}
		if !e.builtin {
			c.Path, _ = t.Path(e.module)
		}
		found = append(found, c)
	}
	return found
}
