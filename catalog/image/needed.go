package image

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"fitout/catalog/module"
)

// tables are the files of depmod that say which modules are needed; those not
// read are "".
type tables struct{ dep, softdep, alias string }

// tableNames are the files that are read to tell what a want needs.
func (w Want) tableNames() []string {
	if len(w.Modules) == 0 && len(w.Devices) > 0 {
		return []string{"modules.dep", "modules.softdep", "modules.alias"}
	}
	return []string{"modules.dep", "modules.softdep"}
}

// limited says whether the want is for some modules only.
func (w Want) limited() bool { return len(w.Modules) > 0 || len(w.Devices) > 0 }

// needed are the files, by their path in the tree, of the modules that a want
// names, or else of those whose aliases have its devices, with all that they
// depend on, softly too. nil means all: where nothing of the tree is known to
// serve, its reader is to see all of it.
func (w Want) needed(t tables) map[string]bool {
	// A name may be that of several files: a build and an older copy of it.
	files, deps := map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(t.dep) {
		if file, needs, ok := strings.Cut(line, ":"); ok {
			name := module.NameOf(path.Base(file))
			files[name] = append(files[name], file)
			deps[name] = append(deps[name], strings.Fields(needs)...)
		}
	}
	todo := w.roots(t.alias)
	soft := softdeps(t.softdep)
	out, seen := map[string]bool{}, map[string]bool{}
	for len(todo) > 0 {
		name := todo[0]
		if todo = todo[1:]; seen[name] {
			continue
		}
		seen[name] = true
		for _, file := range files[name] {
			out[file] = true
		}
		for _, d := range deps[name] {
			todo = append(todo, module.NameOf(path.Base(d)))
		}
		todo = append(todo, soft[name]...)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// roots are the modules that are wanted for their own sake.
func (w Want) roots(alias string) []string {
	var out []string
	for _, m := range w.Modules {
		out = append(out, module.Normalize(m))
	}
	if len(out) > 0 {
		return out
	}
	for line := range strings.Lines(alias) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "alias" {
			continue
		}
		for _, d := range w.Devices {
			if module.MatchAlias(f[1], d) {
				out = append(out, module.Normalize(f[2]))
			}
		}
	}
	return out
}

// softdeps reads modules.softdep: "softdep A pre: B C post: D".
func softdeps(text string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "softdep" {
			continue
		}
		for _, word := range f[2:] {
			if !strings.HasSuffix(word, ":") {
				name := module.Normalize(f[1])
				out[name] = append(out[name], module.Normalize(word))
			}
		}
	}
	return out
}

// With is a want that has all of both, which are for the same place.
func (w Want) With(other Want) Want {
	both := w
	if len(w.Releases) == 0 || len(other.Releases) == 0 {
		both.Releases = nil
	} else {
		both.Releases = union(w.Releases, other.Releases)
	}
	if w.limited() && other.limited() {
		both.Modules, both.Devices = union(w.Modules, other.Modules), union(w.Devices, other.Devices)
	} else {
		both.Modules, both.Devices = nil, nil
	}
	both.Licences = w.Licences || other.Licences
	both.LicenceFile = or(w.LicenceFile, other.LicenceFile)
	both.OnlyLicences = w.OnlyLicences && other.OnlyLicences
	return both
}

// Place names the part of an image that a want is about, "" where the image has
// but one: of two flavours in one image each has its own directory in a store.
func (w Want) Place() string {
	where := []string{rooted(w.DirName), w.Firmware, ""}
	if usual := (Want{Licences: true}); w.LicenceFile != "" && !isLicence(rooted(w.LicenceFile), usual) {
		where[2] = rooted(w.LicenceFile)
	}
	if strings.Join(where, "") == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(where, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// Covers says that what was fetched for w has all that other wants. Wants of
// different places in an image never cover each other.
func (w Want) Covers(other Want) bool {
	return w.DirName == other.DirName && w.Firmware == other.Firmware && sameWant(w.With(other), w.With(w))
}

func union(a, b []string) []string {
	set := map[string]bool{}
	for _, s := range append(append([]string{}, a...), b...) {
		set[s] = true
	}
	return sortedKeys(set)
}
