package pages

import (
	"context"
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/journal"
)

// InProgress is the first page while a run is going on: watch it, or leave.
type InProgress struct {
	*Common
	run  string
	sum  journal.Summary
	list List
}

// NewInProgress is the page for the run in progress.
func NewInProgress(c *Common, run string) *InProgress {
	return &InProgress{Common: c, run: run, sum: journal.NewSummary()}
}

// summarised is the journal of the run, read once.
type summarised struct{ events []journal.Event }

func (p *InProgress) Typing() bool  { return false }
func (p *InProgress) Title() string { return "A run is in progress" }

func (p *InProgress) Appear() tea.Cmd {
	dir := p.Wizard.RunDir(p.run)
	return work("reading the journal", func(context.Context, image.Progress) tea.Msg {
		events, _ := journal.Read(dir)
		return summarised{events}
	})
}

var progressWays = []string{"watch it", "see past runs", "leave it alone and quit"}

func (p *InProgress) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case summarised:
		p.sum = journal.Summarise(msg.events)
	case tea.KeyMsg:
		if d := digit(msg); d >= 1 && d <= len(progressWays) {
			p.list.Cur = d - 1
			return nil
		}
		if p.list.Move(Means(msg), len(progressWays), len(progressWays)) {
			return nil
		}
		if letter(msg) == 'q' {
			return p.quit()
		}
		switch Means(msg) {
		case Go, Select:
			return []func() tea.Cmd{p.watch, p.past, p.quit}[p.list.Cur]()
		case Back:
			return notice("This is the first page; q quits.")
		}
	}
	return nil
}

func (p *InProgress) watch() tea.Cmd { return send(Home{NewRunning(p.Common, p.run, nil)}) }
func (p *InProgress) past() tea.Cmd  { return send(Push{NewHistory(p.Common)}) }
func (p *InProgress) quit() tea.Cmd {
	return send(Quit{Exit: workflow.ExitLocked, Text: []string{"The run " + p.run + " goes on. Watch it with:  fitout attach " + p.run}})
}

func (p *InProgress) Body(w, h int) []string {
	text := "Run " + p.run + " is going on"
	if !p.sum.Began.IsZero() {
		text += " since " + p.sum.Began.Local().Format("15:04")
	}
	if i := p.sum.Current; i >= 0 {
		text += fmt.Sprintf(" and is at step %d of %d", i+1, len(p.sum.Steps))
	}
	list := p.list.draw(p.Theme, len(progressWays), len(progressWays), func(at int) string {
		return fmt.Sprintf("%d %s", at+1, progressWays[at])
	})
	return look.Fit(h, look.Block{Lines: look.Wrap(text+".", w), Keep: look.Need}, look.Block{Lines: list.text, Keep: look.Need},
		look.Block{Lines: look.Wrap("A second run is not started beside it. Any number of screens may watch.", w), Keep: look.Hint})
}

func (p *InProgress) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down or 1-3", Does: "choose"}, {Keys: "Enter", Does: "do it"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (p *InProgress) Help() []string {
	return []string{"Another run is going on, started here or on another console. It can be watched by any number of screens; a second one is not started beside it."}
}
