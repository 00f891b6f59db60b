package strict

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Line, Column int    // from 1
	Path         string // "devices[0].match", "" for the file's root
	Message      string // a sentence without the place
	Source       string // the line itself
}

// Errors is everything that is wrong with a file, in the order of its lines.
type Errors struct {
	File     string
	Problems []Problem
}

// Error shows every problem as file:line:column, with the line below it.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, p.Line, p.Column, p.Message)
		if strings.TrimSpace(p.Source) != "" {
			fmt.Fprintf(&b, "\n%5d | %s", p.Line, p.Source)
		}
	}
	return b.String()
}

func (e *Errors) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return e
}

// Report collects problems while a file is read.
type Report struct {
	errs  *Errors
	lines []string
	root  *yaml.Node
	// elsewhere holds the keys of every table of the format by its path.
	elsewhere map[string][]string
}

// Bad reports the value at path, which is made of keys (string) and indexes
// (int). A path that is not in the file is reported at its nearest part that is.
// Nothing is added where a problem was reported before.
func (r *Report) Bad(path []any, format string, args ...any) {
	n, at := r.find(path)
	if r.reported(at) || r.reported(pathText(path)) {
		return
	}
	r.add(n.Line, n.Column, path, fmt.Sprintf(format, args...))
}

// Has says whether the file has a value at path.
func (r *Report) Has(path ...any) bool {
	_, at := r.find(path)
	return at == pathText(path)
}

func (r *Report) find(path []any) (*yaml.Node, string) {
	n, depth := walk(r.root, path)
	return n, pathText(path[:depth])
}

// Find returns the node at path below a document's root, or the last one on the
// way to it.
func Find(root *yaml.Node, path []any) *yaml.Node {
	n, _ := walk(root, path)
	return n
}

// walk returns the last node on the way of path, and how many steps lead to it.
func walk(n *yaml.Node, path []any) (*yaml.Node, int) {
	for i, step := range path {
		next := child(n, step)
		if next == nil {
			return n, i
		}
		n = next
	}
	return n, len(path)
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch s := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && s < len(n.Content) {
			return n.Content[s]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == s {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// reported says whether a value at exactly that path has a problem already.
func (r *Report) reported(path string) bool {
	return path != "" && slices.ContainsFunc(r.errs.Problems, func(p Problem) bool { return p.Path == path })
}

func (r *Report) add(line, column int, path []any, message string) {
	p := Problem{Line: line, Column: column, Path: pathText(path), Message: message}
	if line >= 1 && line <= len(r.lines) {
		p.Source = shown(r.lines[line-1])
	}
	r.errs.Problems = append(r.errs.Problems, p)
}

// mostShown is how much of a line is shown: what is no answers file at all may be
// one line of megabytes, and the console a slow one.
const mostShown = 160

// shown is a line of a file as a terminal may have it.
func shown(line string) string {
	line, more := strings.TrimRight(line, "\r"), ""
	if len(line) > mostShown {
		line, more = strings.ToValidUTF8(line[:mostShown], ""), " ..."
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\t':
			return ' '
		case unicode.IsControl(c) || c == utf8.RuneError:
			return '?'
		}
		return c
	}, line) + more
}

// pathText writes a path as people do: devices[0].match.
func pathText(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		}
	}
	return b.String()
}
