package pages

import (
	"slices"
	"strings"

	"fitout/hostops/host"
	"fitout/tui/look"
	"fitout/workflow/finding"
)

// drawn is a list as it stands on the screen.
type drawn struct {
	text []string
	rows int // lines on a page
}

// draw draws the page of the list that the cursor is on, in at most rows lines.
func (l *List) draw(th *look.Theme, rows, n int, line func(at int) string) drawn {
	rows = max(rows, 1)
	l.Clamp(n)
	start, end := l.Window(n, rows)
	d := drawn{rows: rows}
	for at := start; at < end; at++ {
		text := line(at)
		if at == l.Cur {
			d.text = append(d.text, th.Focus(th.Marks.Cursor+" "+text))
		} else {
			d.text = append(d.text, "  "+text)
		}
	}
	return d
}

// share is how many of n list lines are shown in h rows beside fixed ones and a
// detail block: the block is kept only while the list has some lines to itself.
func share(h, fixed, n, detail int) int {
	const some = 5
	room := h - fixed
	if n+detail <= room {
		return n
	}
	if room-detail >= some {
		return room - detail
	}
	return max(min(n, room), 1)
}

// roles says what a kernel is to the next boots.
func roles(k host.Kernel) string {
	words := make([]string, len(k.Roles))
	for i, r := range k.Roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// kernelHead says what a kernel is to this node ("Running kernel").
func kernelHead(k host.Kernel) string {
	if slices.Contains(k.Roles, host.Running) {
		return "Running kernel"
	}
	if len(k.Roles) == 0 {
		return "Other kernel"
	}
	role := strings.ReplaceAll(string(k.Roles[0]), "-", " ")
	return strings.ToUpper(role[:1]) + role[1:]
}

// tail is the end of a kernel release that tells it from the others.
func tail(release string, w int) string {
	if len(release) <= w {
		return release
	}
	return ".." + release[len(release)-w+2:]
}

// indent puts blanks before lines.
func indent(n int, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.Repeat(" ", n) + l
	}
	return out
}

// labelled lays out label and value pairs; values are cut, not wrapped. Pairs
// without a value are left out.
func labelled(w, labelWidth int, pairs ...string) []string {
	var lines []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			lines = append(lines, look.Cut(look.Pad(pairs[i], labelWidth)+look.Line(pairs[i+1]), w))
		}
	}
	return lines
}

// paragraph is a labelled text that is wrapped under its own start.
func paragraph(w, labelWidth int, label, text string) []string {
	var lines []string
	for i, l := range look.Wrap(text, max(w-labelWidth, 10)) {
		if i == 0 {
			lines = append(lines, look.Pad(label, labelWidth)+l)
		} else {
			lines = append(lines, strings.Repeat(" ", labelWidth)+l)
		}
	}
	return lines
}

// findingLines are a finding as a person reads it: the sentence, its cure and
// what was measured.
func findingLines(w int, f finding.Finding) []string {
	lines := paragraph(w, 8, string(f.Severity), f.Message)
	if f.Hint != "" {
		lines = append(lines, paragraph(w, 8, "", "Cure: "+f.Hint)...)
	}
	for _, e := range f.Evidence {
		lines = append(lines, look.Cut("        | "+look.Line(e), w))
	}
	return lines
}

// repeat is a rule of n cells.
func repeat(mark string, n int) string { return strings.Repeat(mark, max(n, 0)) }
