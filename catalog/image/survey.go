package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
)

// survey remembers, in bounded memory, what an image holds besides what is
// wanted: it names other layouts and the kernels that were not asked for.
type survey struct {
	releases map[string]bool // kernel releases seen in module trees, wanted or not
	modules  map[string]int  // directories with modules outside any known place, and how many
	debs     map[string]int  // directories with Debian packages of kernel modules
	rpms     map[string]int  // directories with RPM packages of kernel modules
	raws     []string        // system extension images
	runfiles []string        // self-extracting installers
	entries  int64
}

// surveyDoc is a survey as it is kept.
type surveyDoc struct {
	Releases            map[string]bool
	Modules, Debs, RPMs map[string]int
	Raws, Runfiles      []string
}

// MarshalJSON keeps a survey for a fetch that goes on later.
func (s survey) MarshalJSON() ([]byte, error) {
	return json.Marshal(surveyDoc{s.releases, s.modules, s.debs, s.rpms, s.raws, s.runfiles})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *survey) UnmarshalJSON(raw []byte) error {
	var d surveyDoc
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	if d.Releases == nil || d.Modules == nil || d.Debs == nil || d.RPMs == nil {
		return errors.New("a table of the survey is missing")
	}
	*s = survey{d.Releases, d.Modules, d.Debs, d.RPMs, d.Raws, d.Runfiles, 0}
	return nil
}

// surveyed bounds each table of a survey.
const surveyed = 256

func newSurvey() survey {
	return survey{releases: map[string]bool{}, modules: map[string]int{}, debs: map[string]int{}, rpms: map[string]int{}}
}

// notable says whether file would remember anything of p.
func notable(p string) bool {
	base := path.Base(p)
	for _, suffix := range []string{".deb", ".rpm", ".raw", ".run"} {
		if strings.HasSuffix(base, suffix) {
			return true
		}
	}
	return isModule(base)
}

func (s *survey) file(p string) {
	base := path.Base(p)
	switch {
	case isModule(base):
		s.module(p)
	case strings.HasSuffix(base, ".deb") && kernelDeb(base):
		count(s.debs, path.Dir(p))
	case strings.HasSuffix(base, ".rpm") && carriesModules(p):
		count(s.rpms, path.Dir(p))
	case strings.HasSuffix(base, ".raw") && len(s.raws) < surveyed:
		s.raws = append(s.raws, p)
	case strings.HasSuffix(base, ".run") && len(s.runfiles) < surveyed:
		s.runfiles = append(s.runfiles, p)
	}
}

func (s *survey) module(p string) {
	if at, ok := moduleTree(p); ok && at.rest != "" {
		if len(s.releases) < surveyed {
			s.releases[at.release] = true
		}
		return
	}
	for _, d := range looseDirs {
		if below(p, d) {
			return
		}
	}
	count(s.modules, path.Dir(p))
}

func count(m map[string]int, dir string) {
	if _, ok := m[dir]; ok || len(m) < surveyed {
		m[dir]++
	}
}

// kernelDeb says by its name whether a Debian package brings kernel modules
// (Canonical's precompiled drivers come as three such packages).
func kernelDeb(base string) bool {
	for _, p := range []string{"linux-modules-", "linux-objects-", "linux-signatures-"} {
		if strings.HasPrefix(base, p) {
			return true
		}
	}
	return false
}

// sortedReleases lists every kernel seen.
func (s *survey) sortedReleases() []string {
	out := make([]string, 0, len(s.releases))
	for r := range s.releases {
		out = append(out, r)
	}
	sort.Strings(out)
	return out
}

// describe says in a sentence what lies outside the known places.
func (s *survey) describe() string {
	var parts []string
	byParent := map[string][2]int{}
	for dir, n := range s.modules {
		c := byParent[path.Dir(dir)]
		byParent[path.Dir(dir)] = [2]int{c[0] + 1, c[1] + n}
	}
	for parent, c := range byParent {
		parts = append(parts, fmt.Sprintf("%d module files in %d directories of /%s", c[1], c[0], strings.TrimPrefix(parent, ".")))
	}
	for dir, n := range s.rpms {
		parts = append(parts, fmt.Sprintf("%d packages in /%s", n, dir))
	}
	sort.Strings(parts)
	if len(parts) == 0 {
		return fmt.Sprintf("no module file among %d entries", s.entries)
	}
	return "found " + strings.Join(parts[:min(len(parts), 6)], ", ")
}
