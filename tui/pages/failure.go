package pages

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// Failure says what failed, why, in what state the node is, and offers every way
// on from here.
type Failure struct {
	*Common
	run  string
	plan *plan.Plan
	sum  Tale
	list List
}

// NewFailure is the page of a run that did not end well.
func NewFailure(c *Common, run string, p *plan.Plan, s Tale) *Failure {
	return &Failure{Common: c, run: run, plan: p, sum: s}
}

// outcomes say in what state each outcome leaves the node. One that is not here
// is shown by its name.
var outcomes = map[journal.Outcome]struct{ word, state string }{
	journal.OutcomeUndone:    {"FAILED", "Everything was undone; the node is as it was before."},
	journal.OutcomeNotUndone: {"FAILED", "NOT everything could be undone:"},
	journal.OutcomeStopped:   {"STOPPED", "Stopped as asked; the old state is there."},
	journal.OutcomeHung:      {"HUNG", "A step hangs in the kernel; it cannot be ended. Reboot the node when you can."},
	"":                       {"INTERRUPTED", "The runner is gone without an end; steps may be half done."},
}

func (f *Failure) Appear() tea.Cmd { return nil }
func (f *Failure) Typing() bool    { return false }

func (f *Failure) Title() string {
	if i := f.sum.Failed; i >= 0 {
		return fmt.Sprintf("%s at step %d of %d", f.word(), i+1, len(f.sum.Steps))
	}
	return f.word()
}

func (f *Failure) word() string {
	if o, ok := outcomes[f.sum.Outcome]; ok {
		return o.word
	}
	return look.Upper(string(f.sum.Outcome))
}

// exit is the exit code of leaving now.
func (f *Failure) exit() int {
	if f.sum.Outcome == "" {
		return workflow.ExitNotUndone
	}
	return f.sum.Exit
}

// way is one way on.
type way struct {
	key  rune
	text string
	do   func() tea.Cmd
}

// ways are those that make sense now, the recommended one first.
func (f *Failure) ways() []way {
	var list []way
	undone := f.sum.Outcome == journal.OutcomeUndone || f.sum.Outcome == journal.OutcomeStopped
	if !undone {
		list = append(list, way{'u', "undo what is left of it", f.undo})
	}
	if f.sum.Outcome == "" {
		list = append(list, way{'r', "go on where it stopped", f.resume})
	}
	if f.plan != nil && undone {
		list = append(list, way{'r', "run the same plan again", f.again})
	}
	if undone {
		list = append(list, way{'i', "choose another image", f.other})
	}
	return append(list,
		way{'m', "go to the devices", f.more},
		way{'l', "show the log (" + plan.Count(len(f.sum.Log), "line") + ")", f.log},
		way{'s', "save a support bundle", f.bundle},
		way{'!', "a shell; exit comes back to this page", nil},
		way{'q', fmt.Sprintf("quit and leave it like this (exit code %d)", f.exit()), f.quit})
}

func (f *Failure) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case surveyed:
		return fresh(f.Common, msg)
	case bundled:
		if msg.err != nil {
			return send(Push{NewTrouble(f.Common, "Making a support bundle", msg.err, nil)})
		}
		return notice("The support bundle is " + msg.path)
	case tea.KeyMsg:
		return f.key(msg)
	}
	return nil
}

func (f *Failure) key(k tea.KeyMsg) tea.Cmd {
	ways := f.ways()
	for _, w := range ways {
		if letter(k) == w.key && w.do != nil {
			return w.do()
		}
	}
	if f.list.Move(Means(k), len(ways), len(ways)) {
		return nil
	}
	switch Means(k) {
	case Go, Select:
		if w := ways[f.list.Cur]; w.do != nil {
			return w.do()
		}
		return send(ShellMsg{})
	case Back:
		return notice("The run is over; i goes back to the images, q quits.")
	}
	return nil
}

// ShellMsg asks the root model for a shell.
type ShellMsg struct{}

// undo, resume and again change the node, so each asks for a typed word.
func (f *Failure) undo() tea.Cmd {
	u, ok := f.Wizard.(Resumer)
	if !ok {
		return notice("In a shell (!):  fitout rollback " + f.run)
	}
	return send(Push{&Confirm{Common: f.Common, title: "Undo", about: "Undoing what is left of run " + f.run + " would do this:", word: Word{Want: "undo"},
		read: func(ctx context.Context) ([]string, error) { return u.RollbackText(ctx, f.run) },
		do:   func(ctx context.Context) error { return u.Rollback(ctx, f.run) }, then: f.follow}})
}

func (f *Failure) resume() tea.Cmd {
	u, ok := f.Wizard.(Resumer)
	if !ok {
		return notice("In a shell (!):  fitout apply --resume")
	}
	return send(Push{&Confirm{Common: f.Common, title: "Go on", about: "The run " + f.run + " goes on with the step it was at.", word: Word{Want: "resume"},
		do: func(ctx context.Context) error { return u.Resume(ctx, f.run) }, then: f.follow}})
}

func (f *Failure) again() tea.Cmd { return send(Push{NewPlan(f.Common, f.plan)}) }

// follow shows the run that goes on.
func (f *Failure) follow() tea.Cmd {
	return send(Home{NewFollowing(f.Common, f.run, f.plan, f.sum.LastSeq)})
}

// other goes back to the images of the first kind, all answers kept.
func (f *Failure) other() tea.Cmd {
	kinds := f.Choices.Selected()
	if len(kinds) == 0 {
		return resurvey(f.Common, "looking at the node again")
	}
	q := choice.Question{Asked: choice.Image, Kind: kinds[0], Nth: 1, Of: len(kinds)}
	return tea.Sequence(send(Home{NewHardware(f.Common)}), send(Push{NewImages(f.Common, q)}))
}

func (f *Failure) log() tea.Cmd {
	return send(Push{NewLog(f.Common, func() []string { return f.sum.Log })})
}

func (f *Failure) more() tea.Cmd { return resurvey(f.Common, "looking at the node again") }

// bundled is the end of making a bundle.
type bundled struct {
	path string
	err  error
}

func (f *Failure) bundle() tea.Cmd {
	b, ok := f.Wizard.(Bundler)
	if !ok {
		return notice("In a shell (!):  fitout bundle")
	}
	return work("making a support bundle", func(ctx context.Context, _ image.Progress) tea.Msg {
		path, err := b.Bundle(ctx, f.run)
		return bundled{path, err}
	})
}

func (f *Failure) quit() tea.Cmd { return send(Quit{Exit: f.exit(), Text: f.Text(79)}) }

// Text is what failed and the state, as plain lines.
func (f *Failure) Text(w int) []string {
	head := f.word()
	lines := []string{}
	if i := f.sum.Failed; i >= 0 {
		s := f.sum.Steps[i]
		head += fmt.Sprintf("  step %d %s", i+1, s.ID)
		if !s.Began.IsZero() && f.sum.Cause.Time.After(s.Began) {
			head += ", after " + plan.About(f.sum.Cause.Time.Sub(s.Began))
		}
		lines = append(lines, indent(2, look.Wrap(f.sum.Cause.Message, w-2))...)
		if e, ok := finding.Explain(finding.Code(f.sum.Cause.Code)); ok && e.Cure != "" {
			lines = append(lines, paragraph(w, 7, "Cure", e.Cure)...)
		}
		if f.sum.Cause.Code != "" {
			lines = append(lines, look.Cut("Help   fitout explain "+f.sum.Cause.Code, w))
		}
	} else if f.sum.Message != "" {
		lines = append(lines, indent(2, look.Wrap(f.sum.Message, w-2))...)
	}
	head = look.Cut(head+"   run "+f.run, w)
	state, known := outcomes[f.sum.Outcome]
	if !known {
		state.state = "Outcome: " + string(f.sum.Outcome)
	}
	lines = append(lines, paragraph(w, 7, "State", state.state)...)
	for _, n := range f.sum.NotUndone {
		lines = append(lines, look.Cut("       - "+look.Line(n), w))
	}
	lines = append([]string{head}, lines...)
	return append(lines, look.Cut("Log    "+strings.TrimSuffix(f.Wizard.RunDir(f.run), "/")+"/"+journal.File, w))
}

// Body draws the failure and the ways on.
func (f *Failure) Body(w, h int) []string {
	text := f.Text(w)
	text[0] = f.Theme.Paint(look.Bad, text[0])
	ways := f.ways()
	list := f.list.draw(f.Theme, len(ways), len(ways), func(at int) string {
		line := fmt.Sprintf("%c  %s", ways[at].key, ways[at].text)
		if at == 0 {
			line += "   " + f.Theme.Marks.Recommended + " recommended"
		}
		return line
	})
	devices := []string{}
	for _, d := range f.sum.Devices {
		if !d.OK {
			devices = append(devices, DeviceLines(w, d)...)
		}
	}
	if len(list.text) > h-2 {
		list = f.list.draw(f.Theme, max(h-2, 1), len(ways), func(at int) string { return fmt.Sprintf("%c  %s", ways[at].key, ways[at].text) })
	}
	return look.Fit(h,
		look.Block{Lines: clip(text, h-len(list.text), "l shows the log"), Keep: look.Need},
		look.Block{Lines: clip(devices, 6, "l shows the log"), Keep: look.Detail},
		look.Block{Lines: list.text, Keep: look.Need})
}

func (f *Failure) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down or the letter", Does: "choose"}, {Keys: "Enter", Does: "do it"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (f *Failure) Help() []string {
	return []string{
		"The run did not reach its end. The page says which step failed, why, and in what state the node is now.",
		"A run that fails undoes what it did by itself; where that was not possible, what is left is listed, and u tries again. fitout explain CODE tells more about the cause.",
	}
}
