package pages

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
)

// Log is the whole log of a run: it follows the end until it is moved or
// frozen, and is searched and saved like any text.
type Log struct {
	*Common
	source func() []string
	follow bool
	wrap   bool
	text   string // as it was when it was frozen
	reader Reader
}

// NewLog shows lines; source returns them as they are now.
func NewLog(c *Common, source func() []string) *Log {
	l := &Log{Common: c, source: source, follow: true}
	l.reader.SaveAs = c.SaveDir + "/fitout-log.txt"
	return l
}

func (l *Log) Appear() tea.Cmd { return nil }
func (l *Log) Typing() bool    { return l.reader.Asking() }
func (l *Log) Title() string   { return "7/7 Running > log" }

// current is the text that is shown.
func (l *Log) current() string {
	if l.follow {
		return strings.Join(l.source(), "\n")
	}
	return l.text
}

func (l *Log) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok {
		return nil
	}
	if !l.reader.Asking() {
		switch letter(k) {
		case 'f':
			l.freeze(l.follow)
			return nil
		case 'w':
			l.wrap = !l.wrap
			return nil
		}
		switch Means(k) {
		case Up, PageUp, First, Search:
			l.freeze(true)
		case Last:
			l.freeze(false)
			return nil
		case Back, Go:
			return send(Pop{})
		}
	}
	_, cmd := l.reader.Key(l.Common, k, l.current())
	return cmd
}

func (l *Log) freeze(on bool) {
	l.text = l.current()
	l.follow = !on
}

func (l *Log) Body(w, h int) []string {
	l.reader.Lay(l.current(), w, l.wrap)
	if l.follow {
		l.reader.Top = len(l.reader.lines)
	}
	body := l.reader.View(l.Theme, w, h-1)
	status := l.reader.Status(l.Theme, w)
	if l.follow && !l.reader.Asking() {
		status += "   follows the end"
	}
	return append(body, status)
}

func (l *Log) Keys() []look.Key {
	return []look.Key{{Keys: "PgUp/PgDn", Does: "read"}, {Keys: "End", Does: "follow"}, {Keys: "f", Does: "freeze"}, {Keys: "w", Does: "wrap"}, {Keys: "/", Does: "search"},
		{Keys: "s", Does: "save"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (l *Log) Help() []string {
	return []string{"The log of the run. It follows the end; moving up or f holds it still, End follows again. / searches, n goes to the next place, s saves it. Lines that are too long end in ~; w wraps them."}
}
