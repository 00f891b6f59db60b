package pages

import (
	"context"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/look"
	"fitout/workflow/journal"
	"fitout/workflow/run"
)

// History lists past runs; Enter shows the journal of one.
type History struct {
	*Common
	runs []run.Listed // newest first
	err  error
	read bool
	list List
	rows int
}

// NewHistory lists past runs.
func NewHistory(c *Common) *History { return &History{Common: c, rows: 10} }

// listed is the list of past runs, narrated the journal of one.
type (
	listed struct {
		runs []run.Listed
		err  error
	}
	narrated struct {
		run    string
		events []journal.Event
		err    error
	}
)

func (y *History) Typing() bool  { return false }
func (y *History) Title() string { return "Past runs" }

func (y *History) Appear() tea.Cmd {
	h, ok := y.Wizard.(Historian)
	if !ok || y.read {
		y.read = true
		return nil
	}
	return work("reading the history", func(ctx context.Context, _ image.Progress) tea.Msg {
		runs, err := h.History(ctx)
		return listed{runs, err}
	})
}

func (y *History) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case listed:
		slices.Reverse(msg.runs)
		y.runs, y.err, y.read = msg.runs, msg.err, true
	case narrated:
		if msg.err != nil {
			return notice("The journal cannot be read: " + msg.err.Error())
		}
		return send(Push{NewPager(y.Common, "Run "+msg.run, strings.Join(Narrate(msg.events), "\n"), false)})
	case tea.KeyMsg:
		if y.list.Move(Means(msg), len(y.runs), y.rows) {
			return nil
		}
		switch Means(msg) {
		case Back:
			return send(Pop{})
		case Go, Select:
			return y.show()
		}
	}
	return nil
}

func (y *History) show() tea.Cmd {
	if len(y.runs) == 0 {
		return send(Pop{})
	}
	id := y.runs[y.list.Cur].ID
	dir := y.Wizard.RunDir(id)
	return work("reading the journal", func(context.Context, image.Progress) tea.Msg {
		events, err := journal.Read(dir)
		return narrated{id, events, err}
	})
}

// outcomeOf is how a run ended, in a word.
func outcomeOf(r run.Listed) string {
	switch {
	case r.InProgress:
		return "RUNNING"
	case r.Damaged != "":
		return "DAMAGED"
	case r.Broken:
		return "CUT SHORT"
	}
	return look.Upper(string(r.Summary.Outcome))
}

func driversOf(r run.Listed) string {
	var names []string
	for _, d := range r.Drivers {
		names = append(names, strings.TrimSpace(d.Name+" "+d.Version))
	}
	return strings.Join(names, ", ")
}

// Narrate is a journal as lines for people.
func Narrate(events []journal.Event) []string {
	var lines []string
	for _, e := range events {
		if l := Line(e); l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

func (y *History) Body(w, h int) []string {
	switch {
	case y.err != nil:
		return look.Wrap("The past runs cannot be listed: "+y.err.Error(), w)
	case !y.read:
		return []string{"Reading the history."}
	case len(y.runs) == 0:
		return look.Wrap("No past runs are known here. In a shell (!):  fitout history", w)
	}
	t := look.NewTable(w-2, look.Column{Head: "Run", Width: 16}, look.Column{Head: "Began", Width: 16, Drop: 1}, look.Column{Head: "Outcome", Width: 18}, look.Column{Head: "What", Drop: 2})
	list := y.list.draw(y.Theme, h-1, len(y.runs), func(at int) string {
		r := y.runs[at]
		return t.Row(r.ID, r.Summary.Began.Local().Format("2006-01-02 15:04"), outcomeOf(r), y.Theme.Text(driversOf(r)))
	})
	y.rows = list.rows
	return look.Fit(h, look.Block{Lines: append([]string{y.Theme.Paint(look.Faint, "  "+t.Heads())}, list.text...), Keep: look.Need})
}

func (y *History) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down", Does: "move"}, {Keys: "Enter", Does: "show the run"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (y *History) Help() []string {
	return []string{"The runs on this node, the newest first. Enter shows what one did, from its journal. Undo a run with:  fitout rollback RUN"}
}
