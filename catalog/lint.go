package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fitout/catalog/image"
	"fitout/catalog/strict"
)

// Problem is something about a catalog file. An error makes the file unusable; a
// warning is what its author should look at.
type Problem struct {
	Severity string `json:"severity"` // "error" or "warning"
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Message  string `json:"message"`
	Source   string `json:"source,omitempty"` // the line itself
}

func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Severity, p.Message)
	if p.Source != "" {
		s += fmt.Sprintf("\n%5d | %s", p.Line, p.Source)
	}
	return s
}

// Check reads a catalog file and looks for what is wrong and for what is
// probably not meant: patterns that match no known kernel release, or parts of
// releases they should not. Problems are in the order of lines; a file that is
// not valid is no error of Check's.
func Check(file string, data []byte) ([]Problem, error) {
	f := &File{}
	l := &lint{file: file, lines: strings.Split(string(data), "\n")}
	var invalid *strict.Errors
	err := strict.Decode(file, data, f)
	switch {
	case errors.As(err, &invalid):
		for _, p := range invalid.Problems {
			l.found = append(l.found, Problem{"error", file, p.Line, p.Column, p.Message, p.Source})
		}
	case err != nil:
		return nil, err
	}
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) == nil && len(doc.Content) == 1 {
		l.root = doc.Content[0]
		for i := range f.Drivers {
			l.driver(i, &f.Drivers[i])
		}
	}
	slices.SortStableFunc(l.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return l.found, nil
}

type lint struct {
	file  string
	lines []string
	root  *yaml.Node
	found []Problem
}

func (l *lint) warn(path []any, format string, args ...any) {
	n := strict.Find(l.root, path)
	p := Problem{"warning", l.file, n.Line, n.Column, fmt.Sprintf(format, args...), ""}
	if n.Line >= 1 && n.Line <= len(l.lines) {
		p.Source = l.lines[n.Line-1]
	}
	l.found = append(l.found, p)
}

func (l *lint) driver(i int, d *Driver) {
	matched := map[string]int{} // release → the mapping that takes it
	for k := range d.Images {
		m := &d.Images[k]
		at := func(key string) []any { return []any{"drivers", i, "images", k, key} }
		if m.Literal != "" {
			matched[m.Literal] = k
		} else if re, err := regexp.Compile(m.Kernel); err == nil && m.Kernel != "" {
			l.pattern(at("kernel"), k, re, matched)
		}
		l.reference(at("reference"), m)
	}
	if len(d.Match) == 0 && len(d.Modules) == 0 {
		l.warn([]any{"drivers", i}, "%s names no devices and no modules: it is only found by its name", d.Name)
	}
}

// pattern tries a pattern on the corpus.
func (l *lint) pattern(at []any, number int, re *regexp.Regexp, matched map[string]int) {
	text := re.String()
	if strings.Contains(text, `\f`) {
		l.warn(at, `%s has \f, which is a form feed; \.f was probably meant`, text)
	}
	if !strings.HasPrefix(text, "^") || !strings.HasSuffix(text, "$") {
		l.warn(at, "%s is not anchored: it also matches in the middle of a release (5.14 matches 6.5.14-200); write ^ and $ around it", text)
	}
	if dot := bareDot().FindStringSubmatch(text); dot != nil {
		l.warn(at, "%s: the dot in %q stands for any character; write \\. for a dot", text, dot[1])
	}
	var hits, fresh int
	for _, r := range releases {
		if !re.MatchString(matchRelease(r)) {
			continue
		}
		hits++
		if _, taken := matched[r]; !taken {
			matched[r] = number
			fresh++
		}
	}
	switch {
	case hits == 0:
		l.warn(at, "%s matches none of %d kernel releases of all families; if it is meant for a kernel of your own, ignore this", text, len(releases))
	case fresh == 0:
		l.warn(at, "%s is never reached: what it matches is taken by earlier mappings (the first match wins)", text)
	}
}

// bareDot finds an unescaped dot between digits, where a dot was meant.
var bareDot = lazy(`(?:^|[^\\])(\d\.\d)`)

// reference warns of references that are legal but not meant.
func (l *lint) reference(at []any, m *Mapping) {
	ref, err := image.ParseReference(sample(m.Reference))
	if err != nil || ref.Transport != image.Registry {
		return
	}
	_, tag := splitPath(m.Reference)
	last := tag[strings.LastIndexByte(tag, '/')+1:]
	if !strings.ContainsAny(last, ":@") {
		l.warn(at, "%s has neither tag nor digest: it would be the tag latest, whatever kernel that is for", m.Reference)
	}
	if m.Literal == "" && !strings.Contains(m.Reference, "KERNEL_") && !strings.Contains(m.Reference, "@") {
		l.warn(at, "%s is the same for every kernel that the pattern matches: right only for an image that holds several", m.Reference)
	}
}

// sample puts the values of one real node into a template.
func sample(template string) string {
	m := Mapping{Reference: template}
	ref, _, err := m.expand(Vars{Machine: "x86_64", OSTag: "rhel9", release: "5.14.0-427.18.1.el9_4.x86_64"})
	if err != nil {
		return ""
	}
	return ref
}

// checkTemplate says whether a template gives a reference at all.
func checkTemplate(template string) error {
	if _, err := usedVariables(template); err != nil {
		return err
	}
	ref := sample(template)
	if c, ok := illegal(ref); ok {
		return fmt.Errorf("the reference %q has the character %q, which no reference can hold", template, c)
	}
	if _, err := image.ParseReference(ref); err != nil {
		return err
	}
	return nil
}
