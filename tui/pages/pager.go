package pages

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
)

// Pager shows a text with scrolling, search and saving. Licences, plans, logs
// and answers are read in it.
type Pager struct {
	*Common
	title string
	text  string
	// Wrapped breaks long lines (prose); otherwise they are cut (logs, YAML).
	wrapped bool
	reader  Reader
}

// NewPager shows text under a title.
func NewPager(c *Common, title, text string, wrapped bool) *Pager {
	p := &Pager{Common: c, title: title, text: text, wrapped: wrapped}
	p.reader.SaveAs = c.SaveDir + "/" + strings.ReplaceAll(strings.ToLower(strings.Fields(title + " text")[0]), "/", "-") + ".txt"
	return p
}

func (p *Pager) Appear() tea.Cmd { return nil }
func (p *Pager) Typing() bool    { return p.reader.Asking() }
func (p *Pager) Title() string   { return p.title }

func (p *Pager) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok {
		return nil
	}
	if letter(k) == 'w' && !p.reader.Asking() {
		p.wrapped = !p.wrapped
		return nil
	}
	if handled, cmd := p.reader.Key(p.Common, k, p.text); handled {
		return cmd
	}
	if a := Means(k); a == Back || a == Go {
		return send(Pop{})
	}
	return nil
}

func (p *Pager) Body(w, h int) []string {
	p.reader.Lay(p.text, w, p.wrapped)
	body := p.reader.View(p.Theme, w, h-1)
	return append(body, p.reader.Status(p.Theme, w))
}

func (p *Pager) Keys() []look.Key {
	return []look.Key{{Keys: "PgUp/PgDn", Does: "read"}, {Keys: "/", Does: "search"}, {Keys: "w", Does: "wrap"}, {Keys: "s", Does: "save"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (p *Pager) Help() []string {
	return []string{"A text. PgUp, PgDn, Home and End move in it, / searches, n goes to the next place found, s saves it to a file, w wraps lines that are too long, b goes back."}
}

// Reader is the part of a page in which a text is read.
type Reader struct {
	Scroll
	SaveAs string

	lines []string
	width int
	from  string // the text that was laid out
	wraps bool
	rows  int

	find   Text
	path   Text
	asking string // "find" or "path"
	hit    int    // line of the last hit, -1 none
}

// Asking says that one of its text fields is open.
func (r *Reader) Asking() bool { return r.asking != "" }

// Lay lays the text out for a width; the same text is laid out once.
func (r *Reader) Lay(text string, w int, wrapped bool) {
	if r.lines != nil && r.width == w && r.wraps == wrapped && r.from == text {
		return
	}
	r.from, r.width, r.wraps = text, w, wrapped
	if wrapped {
		r.lines = look.Wrap(text, w)
	} else {
		r.lines = strings.Split(look.Clean(text), "\n")
	}
	for len(r.lines) > 1 && r.lines[len(r.lines)-1] == "" {
		r.lines = r.lines[:len(r.lines)-1]
	}
}

// View is the window on the text, h lines.
func (r *Reader) View(th *look.Theme, w, h int) []string {
	r.rows = max(h, 1)
	r.Clamp(len(r.lines), r.rows)
	end := min(r.Top+r.rows, len(r.lines))
	out := make([]string, 0, r.rows)
	for i := r.Top; i < end; i++ {
		line := look.Cut(r.lines[i], w)
		if r.find.String() != "" && i == r.hit {
			line = th.Paint(look.Cursor, line)
		}
		out = append(out, line)
	}
	for len(out) < h {
		out = append(out, "")
	}
	return out
}

// Position says which lines of how many are on the screen.
func (r *Reader) Position() string {
	n := len(r.lines)
	end := min(r.Top+r.rows, n)
	percent := 100
	if n > 0 {
		percent = end * 100 / n
	}
	return fmt.Sprintf("lines %d-%d of %d (%d%%)", min(r.Top+1, n), end, n, percent)
}

// Status is the position, or the field that is open.
func (r *Reader) Status(th *look.Theme, w int) string {
	switch r.asking {
	case "find":
		return "Search for: " + r.find.View(th, min(w-12, 40)) + "  Enter searches, Esc leaves"
	case "path":
		return "Save as: " + r.path.View(th, min(w-9, 50)) + "  Enter saves"
	}
	return th.Paint(look.Faint, r.Position())
}

// Key takes a key; text is what s saves.
func (r *Reader) Key(c *Common, k tea.KeyMsg, text string) (bool, tea.Cmd) {
	if r.asking != "" {
		return true, r.typed(c, k, text)
	}
	switch letter(k) {
	case 's':
		r.asking, r.path = "path", Text{Value: []rune(r.SaveAs)}
		return true, nil
	case 'n':
		return true, r.search()
	}
	if Means(k) == Search {
		r.asking, r.find = "find", Text{}
		return true, nil
	}
	return r.Move(Means(k), len(r.lines), r.rows), nil
}

func (r *Reader) typed(c *Common, k tea.KeyMsg, text string) tea.Cmd {
	field := &r.find
	if r.asking == "path" {
		field = &r.path
	}
	switch {
	case k.Type == tea.KeyEsc:
		if r.asking == "find" {
			r.find = Text{}
		}
		r.asking = ""
	case enter(k):
		was := r.asking
		r.asking = ""
		if was == "path" {
			return saveText(c, r.path.String(), text)
		}
		r.hit = r.Top - 1
		return r.search()
	default:
		field.Key(k)
		if field.Note != "" {
			return notice(field.Note)
		}
	}
	return nil
}

// search goes to the next line that has the text, from the top again after the
// end.
func (r *Reader) search() tea.Cmd {
	want := strings.ToLower(r.find.String())
	if want == "" {
		return notice("/ searches first; then n goes to the next place.")
	}
	n := len(r.lines)
	for step := 1; step <= n; step++ {
		at := ((r.hit+step)%n + n) % n
		if strings.Contains(strings.ToLower(r.lines[at]), want) {
			wrapped := at <= r.hit
			r.hit = at
			r.Top = at
			r.Clamp(n, r.rows)
			if wrapped {
				return notice("Searched on from the top.")
			}
			return nil
		}
	}
	return notice("Not found: " + r.find.String())
}
