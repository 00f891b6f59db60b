package pages

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/journal"
)

// Looking is shown while the node is looked at for the first time.
type Looking struct {
	*Common
	err error
}

// NewLooking is the first page of all.
func NewLooking(c *Common) *Looking { return &Looking{Common: c} }

func (l *Looking) Typing() bool  { return false }
func (l *Looking) Title() string { return "1/7 Hardware" }

// looked is the first look: the node, and a run that was cut short before, by a
// power cut for example.
type looked struct {
	survey *workflow.Survey
	broken string // id, "" for none
	tale   Tale
	err    error
}

func (l *Looking) Appear() tea.Cmd {
	return work("looking at the node", func(ctx context.Context, _ image.Progress) tea.Msg {
		s, err := l.Wizard.Survey(ctx)
		m := looked{survey: s, err: err}
		if err == nil {
			m.broken, m.tale = cutShort(ctx, l.Wizard)
		}
		return m
	})
}

// cutShort finds the newest run that has neither a runner nor an end.
func cutShort(ctx context.Context, w workflow.Wizard) (id string, t Tale) {
	h, ok := w.(Historian)
	if !ok {
		return "", t
	}
	runs, err := h.History(ctx)
	if err != nil {
		return "", t
	}
	for _, r := range runs {
		if r.Broken {
			id = r.ID
		}
	}
	if id == "" {
		return "", t
	}
	t = NewTale()
	events, _ := journal.Read(w.RunDir(id))
	for _, e := range events {
		t.Add(e)
	}
	return id, t
}

func (l *Looking) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case looked:
		if l.err = msg.err; msg.err != nil {
			return nil
		}
		l.Common.Choices = choice.New(l.Wizard, msg.survey, l.Program)
		if l.Begin != nil {
			l.Choices.Begin(l.Wizard, l.Begin)
		}
		if run := l.Wizard.Current(); run != "" {
			return send(Home{NewInProgress(l.Common, run)})
		}
		if msg.broken != "" {
			return send(Home{NewFailure(l.Common, msg.broken, nil, msg.tale)})
		}
		return send(Home{NewHardware(l.Common)})
	case Cancelled:
		l.err = errCancelled
	case tea.KeyMsg:
		if letter(msg) == 'r' {
			l.err = nil
			return l.Appear()
		}
	}
	return nil
}

func (l *Looking) Body(w, h int) []string {
	if l.err == nil {
		return []string{"Looking at the node: devices, drivers, kernels, maintenance."}
	}
	t := NewTrouble(l.Common, "Looking at the node", l.err, nil)
	return append(t.Body(w, max(h-2, 1)), "", "r tries again, ! opens a shell, q quits.")
}

func (l *Looking) Keys() []look.Key {
	return []look.Key{{Keys: "r", Does: "try again"}, {Keys: "!", Does: "shell"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (l *Looking) Help() []string {
	return []string{"The node is looked at: its devices from sysfs, the drivers they have, the kernels that may boot, its maintenance state. Nothing is changed."}
}
