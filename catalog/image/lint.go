package image

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"fitout/catalog/module"
)

// Lint is something about a module that a packer should look at before others
// have to.
type Lint struct {
	// Code is stable: vermagic-release, duplicate-module, mixed-machine,
	// unsigned, dependency-outside.
	Code    string `json:"code"`
	Release string `json:"release"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// moduleFiles is the modules of one release, read.
type moduleFiles struct {
	release string
	modules []*moduleFile
	byName  map[string]*moduleFile
	twice   [][2]string
}

type moduleFile struct {
	file packFile
	info *module.Info
}

// readSet reads every module; one that cannot be read is an error, for it would
// be one on every node.
func readSet(release string, files []packFile) (*moduleFiles, error) {
	s := &moduleFiles{release: release, byName: map[string]*moduleFile{}}
	sort.Slice(files, func(i, j int) bool { return files[i].name < files[j].name })
	for _, f := range files {
		info, err := module.ReadFile(filepath.FromSlash(f.from))
		if err != nil {
			return nil, fail(Corrupt, "packing %s", f.from).because(err)
		}
		m := &moduleFile{f, info}
		if other := s.byName[info.Name]; other != nil {
			s.twice = append(s.twice, [2]string{other.file.name, f.name})
		} else {
			s.byName[info.Name] = m
		}
		s.modules = append(s.modules, m)
	}
	return s, nil
}

// lint lists what is odd about the set.
func (s *moduleFiles) lint() []Lint {
	var out []Lint
	add := func(code, p, format string, args ...any) {
		out = append(out, Lint{Code: code, Release: s.release, Path: p, Message: fmt.Sprintf(format, args...)})
	}
	for _, t := range s.twice {
		add("duplicate-module", t[1], "the same module as %s", t[0])
	}
	for _, m := range s.modules {
		if word, _, _ := strings.Cut(m.info.Vermagic, " "); word != s.release {
			add("vermagic-release", m.file.name, "built for %q, packed for %s", word, s.release)
		}
		if m.info.Machine != s.modules[0].info.Machine {
			add("mixed-machine", m.file.name, "made for %v, %s for %v", m.info.Machine, s.modules[0].file.name, s.modules[0].info.Machine)
		}
		if m.info.Signature == nil {
			add("unsigned", m.file.name, "not signed: nodes with Secure Boot will refuse it")
		}
		for _, d := range m.info.Depends {
			if s.byName[d] == nil {
				add("dependency-outside", m.file.name, "needs %s, which is not packed: the node's own kernel must have it", d)
			}
		}
	}
	return out
}
