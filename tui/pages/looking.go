package pages

import (
	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
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

func (l *Looking) Appear() tea.Cmd { return resurvey(l.Common, "looking at the node") }

func (l *Looking) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case surveyed:
		if l.err = msg.err; msg.err != nil {
			return nil
		}
		l.Common.Choices = choice.New(l.Wizard, msg.survey, l.Program)
		if run := l.Wizard.Current(); run != "" {
			return send(Home{NewInProgress(l.Common, run)})
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
