package kmod

import (
	"slices"
	"strings"

	"fitout/catalog/module"
)

// The text tables that depmod writes, each a line of facts (depmod.d(5),
// modules.dep(5)). Lines of another form are passed over.

// depLine is a line of modules.dep: a path relative to the directory and, in
// modprobe's order, what must be loaded before it.
type depLine struct{ path, needs string }

// parseDeps reads modules.dep by module name.
func parseDeps(text string) map[string]depLine {
	lines := make(map[string]depLine, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		file, needs, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		if ok {
			lines[module.NameOf(file)] = depLine{file, needs}
		}
	}
	return lines
}

type softDep struct{ pre, post []string }

// parseSoftdeps merges all lines of a module. Words outside "pre:" and "post:"
// are ignored, as modprobe does (kmod, libkmod-config.c,
// kmod_config_add_softdep).
func parseSoftdeps(text string) map[string]softDep {
	all := map[string]softDep{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "softdep" {
			continue
		}
		name := module.Normalize(f[1])
		d, into := all[name], (*[]string)(nil)
		for _, w := range f[2:] {
			switch {
			case w == "pre:":
				into = &d.pre
			case w == "post:":
				into = &d.post
			case into != nil && !slices.Contains(*into, w):
				*into = append(*into, w)
			}
		}
		all[name] = d
	}
	return all
}

// parseWeakdeps reads modules.weakdep (kmod 33 and later).
func parseWeakdeps(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "weakdep" {
			name := module.Normalize(f[1])
			all[name] = append(all[name], f[2:]...)
		}
	}
	return all
}

// parseSymbols reads modules.symbols: the exporter of each symbol.
func parseSymbols(text string) map[string]string {
	all := make(map[string]string, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "alias symbol:")
		if !ok {
			continue
		}
		if symbol, mod, ok := strings.Cut(rest, " "); ok {
			all[symbol] = mod
		}
	}
	return all
}
