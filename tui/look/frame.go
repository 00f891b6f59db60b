package look

import "strings"

// The frame never uses the last column, where a terminal may wrap, nor the last
// row, which the kernel may print on, beyond 79x23 of an 80x24 screen.
const (
	margin   = 1
	maxWidth = 120 // longer lines are hard to read; wide screens keep a margin
)

// Head is what the title line says on every screen.
type Head struct {
	Program string // "fitout 0.1.0"
	Node    string
	Kernel  string // the running release
	Maint   string // "maintenance", "in service", …
	Catalog string // the catalog's date
	Note    string // what must be on every screen ("SIMULATED NODE")
	Page    string // "1/7 Hardware"
}

// Key is one entry of the key line.
type Key struct {
	Keys, Does string
}

// Frame is one whole screen.
type Frame struct {
	Head   Head
	Body   []string
	Notice string // one line above the lower rule, "" for none
	Keys   []Key
}

// Inner is the size of a page's body on a screen of the given size.
func Inner(width, height int) (w, h int) {
	w = min(width-margin, maxWidth) - 2
	h = height - margin - chrome(height)
	return max(w, 1), max(h, 1)
}

// chrome is how many rows the frame itself takes: title, rule, notice, rule and
// keys, or title, notice and keys on a small screen.
func chrome(height int) int {
	if height < 16 {
		return 3
	}
	return 5
}

// Draw draws the frame for a screen of the given size: never wider, never
// higher, trailing blanks left out because a slow line has to carry them.
func (t *Theme) Draw(f Frame, width, height int) string {
	w := max(min(width-margin, maxWidth), 1)
	_, h := Inner(width, height)
	small := chrome(height) == 3
	if small && f.Head.Note != "" {
		f.Head.Maint = f.Head.Note // there is no rule to say it in
	}
	lines := []string{t.headLine(f.Head, w)}
	rule := t.Paint(Faint, strings.Repeat(t.Marks.Rule, max(w, 0)))
	if !small {
		lines = append(lines, t.Paint(Faint, t.infoRule(f.Head, w)))
	}
	for i := 0; i < h; i++ {
		line := ""
		if i < len(f.Body) {
			line = f.Body[i]
		}
		lines = append(lines, t.finish(" "+line, w))
	}
	lines = append(lines, t.finish(" "+f.Notice, w))
	if !small {
		lines = append(lines, rule)
	}
	lines = append(lines, t.keyLine(f.Keys, w))
	if limit := max(height-margin, 1); len(lines) > limit {
		lines = lines[:limit]
	}
	return strings.Join(lines, "\n")
}

// finish cuts a line and makes it fit the profile.
func (t *Theme) finish(line string, w int) string {
	if !t.Rich {
		line = ASCII(line)
	}
	if Width(line) > w {
		line = Cut(line, w)
	}
	if !strings.Contains(line, "\x1b") {
		line = strings.TrimRight(line, " ")
	}
	return line
}

// infoRule is the upper rule with the kernel and the catalog's date in it.
func (t *Theme) infoRule(h Head, w int) string {
	mark := t.Marks.Rule
	line := strings.Repeat(mark, 2)
	for _, part := range []string{h.Note, h.Kernel, h.Catalog} {
		if part = t.Text(part); part != "" {
			line += " " + part + " " + strings.Repeat(mark, 2)
		}
	}
	line = Cut(line, w)
	return line + strings.Repeat(mark, max(w-Width(line), 0))
}

// headLine says node and maintenance state on the left as far as they fit, the
// page on the right.
func (t *Theme) headLine(h Head, w int) string {
	page := Cut(t.Text(h.Page), w-2)
	room := w - 2 - Width(page) - 2
	left := ""
	for _, part := range []string{h.Program, h.Node, h.Maint} {
		part = t.Text(part)
		if part == "" {
			continue
		}
		sep := "  "
		if left == "" {
			sep = ""
		}
		if Width(left)+len(sep)+Width(part) > room {
			break
		}
		left += sep + part
	}
	fill := max(w-2-Width(left)-Width(page), 1)
	return t.finish(" "+left+strings.Repeat(" ", fill)+t.Paint(Title, page), w)
}

// keyLine shows as many keys as fit; help and quit are last and stay.
func (t *Theme) keyLine(keys []Key, w int) string {
	for n := len(keys); n > 0; n-- {
		shown := keys
		if n < len(keys) {
			// From the end towards the front, help (the last but quit) stays.
			tail := min(2, len(keys))
			cut := max(n-tail, 0)
			shown = append(append([]Key(nil), keys[:cut]...), keys[len(keys)-min(tail, n):]...)
		}
		line, plain := "", 0
		for i, k := range shown {
			if i > 0 {
				line += "  "
				plain += 2
			}
			line += t.Paint(KeyName, k.Keys) + " " + k.Does
			plain += Width(k.Keys) + 1 + Width(k.Does)
		}
		if plain+1 <= w {
			return t.finish(" "+line, w)
		}
	}
	return ""
}
