package module

import (
	"path"
	"strings"
)

// Normalize is the kernel's spelling of a module name: '-' and '_' are equal,
// the kernel shows '_'. Nothing else is changed.
func Normalize(name string) string { return strings.ReplaceAll(name, "-", "_") }

// NameOf is the module name that a file's name stands for: the last element
// without .ko and without a compression suffix, normalised.
// "updates/snd-hda-intel.ko.xz" is "snd_hda_intel".
func NameOf(filename string) string {
	base := path.Base(filename)
	for _, suffix := range []string{".gz", ".xz", ".zst"} {
		if s, ok := strings.CutSuffix(base, suffix); ok && strings.HasSuffix(s, ".ko") {
			base = s
			break
		}
	}
	return Normalize(strings.TrimSuffix(base, ".ko"))
}

// IsModuleFile says whether a file is named like a module ("x.ko", "x.ko.xz").
// Its content may be something else.
func IsModuleFile(filename string) bool {
	for _, suffix := range []string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"} {
		if strings.HasSuffix(filename, suffix) {
			return true
		}
	}
	return false
}

// MatchAlias says whether an alias pattern of a module has a modalias, the way
// modprobe does: fnmatch(3) without flags ('*' matches any run, '/' included,
// '?' one byte, [a-z] and [!a-z] sets, '\' quotes), case sensitive, '-' and
// '_' equal outside of sets (kmod: alias_normalize, index searchwild).
// The work is bounded by len(pattern) * len(modalias).
func MatchAlias(pattern, modalias string) bool {
	p, s := 0, 0
	star, mark := -1, 0 // position after the last '*', and where it was tried
	for s < len(modalias) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, mark = p, s
			continue
		}
		if n, ok := matchOne(pattern[p:], modalias[s]); ok {
			p += n
			s++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, s = star, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte against the first element of a pattern and returns
// that element's length.
func matchOne(pattern string, c byte) (int, bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if n, in, ok := matchSet(pattern, c); ok {
			return n, in
		}
		return 1, c == '[' // an unclosed set is a plain bracket
	case '\\':
		if len(pattern) > 1 {
			return 2, same(pattern[1], c)
		}
		return 0, false
	}
	return 1, same(pattern[0], c)
}

func same(a, b byte) bool {
	return a == b || (a == '-' && b == '_') || (a == '_' && b == '-')
}

// matchSet matches c against the set that a pattern begins with; ok is false
// when the set is never closed.
func matchSet(pattern string, c byte) (n int, in, ok bool) {
	i := 1
	negate := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negate {
		i++
	}
	for first := true; i < len(pattern); first = false {
		lo := pattern[i]
		if lo == ']' && !first {
			return i + 1, in != negate, true
		}
		if lo == '\\' && i+1 < len(pattern) {
			i++
			lo = pattern[i]
		}
		i++
		hi := lo
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			hi = pattern[i+1]
			i += 2
		}
		in = in || (lo <= c && c <= hi)
	}
	return 0, false, false
}
