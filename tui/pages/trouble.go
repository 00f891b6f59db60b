package pages

import (
	"errors"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
	"fitout/workflow"
)

// Trouble shows why something could not be done, with what to do about it. It
// is never the end: there is a way back, a way to try again, a shell.
type Trouble struct {
	*Common
	doing       string
	err         error
	again       tea.Cmd // nil: nothing to try again
	scroll      Scroll
	lines, rows int
}

// NewTrouble is the page for an error.
func NewTrouble(c *Common, doing string, err error, again tea.Cmd) *Trouble {
	return &Trouble{Common: c, doing: doing, err: err, again: again, rows: 10}
}

func (t *Trouble) Appear() tea.Cmd { return nil }
func (t *Trouble) Typing() bool    { return false }
func (t *Trouble) Title() string   { return "Not possible" }

func (t *Trouble) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok {
		return nil
	}
	if letter(k) == 'r' && t.again != nil {
		return tea.Sequence(send(Pop{}), t.again)
	}
	if t.scroll.Move(Means(k), t.lines, t.rows) {
		return nil
	}
	if a := Means(k); a == Back || a == Go {
		return send(Pop{})
	}
	return nil
}

// Body draws the sentence, the cure and the evidence.
func (t *Trouble) Body(w, h int) []string {
	lines := []string{look.Cut(look.Line(t.doing)+" was not possible.", w), ""}
	var e *workflow.Error
	if errors.As(t.err, &e) {
		lines = append(lines, paragraph(w, 8, "Why", e.Message)...)
		if e.Hint != "" {
			lines = append(lines, paragraph(w, 8, "Cure", e.Hint)...)
		}
		if e.Code != "" {
			lines = append(lines, look.Cut("Help    fitout explain "+e.Code, w))
		}
		for _, f := range e.Findings {
			lines = append(lines, "")
			lines = append(lines, findingLines(w, f)...)
		}
	} else {
		lines = append(lines, paragraph(w, 8, "Why", t.err.Error())...)
	}
	lines = append(lines, "", "Nothing on the node was changed.")
	t.lines, t.rows = len(lines), h
	t.scroll.Clamp(t.lines, h)
	return lines[t.scroll.Top:min(t.scroll.Top+h, len(lines))]
}

func (t *Trouble) Keys() []look.Key {
	keys := []look.Key{{Keys: "b", Does: "back"}, {Keys: "!", Does: "shell"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
	if t.again != nil {
		keys = append([]look.Key{{Keys: "r", Does: "try again"}}, keys...)
	}
	return keys
}

func (t *Trouble) Help() []string {
	return []string{"Something could not be done; nothing was changed. The page says why and what to do about it. b goes back, r tries again, ! opens a shell."}
}
