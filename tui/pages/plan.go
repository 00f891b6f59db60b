package pages

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// Planning is shown while the answers are resolved to a plan.
type Planning struct{ *Common }

// NewPlanning makes a plan and goes on to it, or to the risks it needs, or to
// the reason why there is none.
func NewPlanning(c *Common) *Planning { return &Planning{c} }

// planned is the end of planning.
type planned struct {
	plan *plan.Plan
	err  error
}

// Cancelled is sent to a page whose job was given up by the operator.
type Cancelled struct{}

func (p *Planning) Typing() bool  { return false }
func (p *Planning) Title() string { return "6/7 Plan" }

func (p *Planning) Appear() tea.Cmd {
	a := p.Choices.Answers()
	return work("making the plan", func(ctx context.Context, progress image.Progress) tea.Msg {
		made, err := p.Wizard.Plan(ctx, a, progress)
		return planned{made, err}
	})
}

func (p *Planning) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case planned:
		switch {
		case msg.err != nil:
			return send(Replace{NewTrouble(p.Common, "Making a plan", msg.err, send(Push{NewPlanning(p.Common)}))})
		case len(msg.plan.Missing) > 0:
			return send(Replace{NewRisks(p.Common, msg.plan)})
		}
		return send(Replace{NewPlan(p.Common, msg.plan)})
	case Cancelled:
		return send(Pop{})
	case tea.KeyMsg:
		if Means(msg) == Back {
			return send(Pop{})
		}
	}
	return nil
}

func (p *Planning) Body(w, _ int) []string {
	return look.Wrap("The answers are being resolved to a plan: images are pinned by digest, and everything is judged once more. Esc goes back.", w)
}

func (p *Planning) Keys() []look.Key { return []look.Key{{Keys: "Esc", Does: "back"}} }
func (p *Planning) Help() []string   { return []string{"The plan is being made."} }

// Plan shows the steps with their exact text and undo. The word run, typed,
// starts it; nothing on the node is changed before.
type Plan struct {
	*Common
	plan  *plan.Plan
	list  List
	rows  int
	shown int // the step the text below is about
	word  Word
	path  Text
	named bool // the path of the answers file is being typed
}

// NewPlan is the page of a plan that needs nothing more.
func NewPlan(c *Common, p *plan.Plan) *Plan {
	return &Plan{Common: c, plan: p, rows: 8, word: Word{Want: "run"}}
}

// Acts says that a typed word counts here.
func (p *Plan) Acts() {}

func (p *Plan) Appear() tea.Cmd {
	p.word.Value = nil
	return nil
}
func (p *Plan) Typing() bool  { return p.word.Active() || p.named }
func (p *Plan) Title() string { return "6/7 Plan" }

// started is the end of starting a run.
type started struct {
	run string
	err error
}

func (p *Plan) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case Confirmed:
		if p.word.Holds(msg) {
			return p.run()
		}
	case started:
		if msg.err != nil {
			return send(Push{NewTrouble(p.Common, "Starting the run", msg.err, nil)})
		}
		return send(Home{NewRunning(p.Common, msg.run, p.plan)})
	case settled:
		if msg.at == p.list.Cur {
			p.shown = msg.at
		}
	case tea.KeyMsg:
		return p.key(msg)
	}
	return nil
}

// run starts the plan and saves the answers that made it.
func (p *Plan) run() tea.Cmd {
	if len(p.plan.Steps) == 0 {
		return notice("There is nothing to run.")
	}
	return work("starting the run", func(ctx context.Context, _ image.Progress) tea.Msg {
		run, err := p.Wizard.Start(ctx, p.plan)
		if err == nil {
			p.Saved, p.SaveNote = SaveAnswers(p.AnswersPath, p.plan.Answers)
		}
		return started{run, err}
	})
}

// SaveAnswers writes the answers file; the note says why it could not.
func SaveAnswers(path string, a *answers.Answers) (saved, note string) {
	if path == "" || a == nil {
		return "", ""
	}
	data, err := answers.Marshal(a)
	if err == nil {
		err = WriteFile(path, data, 0o640)
	}
	if err != nil {
		return "", err.Error()
	}
	return path, ""
}

func (p *Plan) key(k tea.KeyMsg) tea.Cmd {
	switch {
	case p.named:
		return p.name(k)
	case len(p.plan.Steps) > 0 && (p.word.Active() || p.word.Starts(k)) || k.Paste:
		if handled, cmd := p.word.Key(p.Common, p, k); handled {
			return cmd
		}
	}
	switch letter(k) {
	case 'v', 'f':
		return send(Push{NewPager(p.Common, "Plan, every step", strings.Join(choice.PlanLines(p.plan), "\n"), false)})
	case 'y':
		return p.yaml()
	case 't':
		return p.restart()
	case 'p':
		p.named, p.path = true, Text{Value: []rune(p.SaveDir + "/answers.yaml")}
		return nil
	}
	if d := digit(k); d >= 1 && d <= len(p.plan.Steps) {
		return p.move(d - 1)
	}
	before := p.list.Cur
	if p.list.Move(Means(k), len(p.plan.Steps), p.rows) {
		at := p.list.Cur
		p.list.Cur = before
		return p.move(at)
	}
	switch Means(k) {
	case Back:
		return send(Pop{})
	case Go:
		if len(p.plan.Steps) > 0 {
			return notice("To run it, type the word run; v shows every step in full.")
		}
	}
	return nil
}

// restart takes the restart of the node into the plan, or out of it again.
func (p *Plan) restart() tea.Cmd {
	if len(p.plan.Restart) == 0 && !p.Choices.Restart {
		return notice("This plan needs no restart, or the answers file forbids it (limits.reboot).")
	}
	p.Choices.Restart = !p.Choices.Restart
	return send(Replace{NewPlanning(p.Common)})
}

// offer says that the node can be restarted as a step, or that it will be.
func (p *Plan) offer(w int) []string {
	switch {
	case p.Choices.Restart:
		return look.Wrap("The node is restarted as a step of the run, where a driver needs it; t leaves that out.", w)
	case len(p.plan.Restart) > 0:
		return look.Wrap("t restarts the node as a step of the run. "+choice.RestartMeans(p.plan), w)
	}
	return nil
}

// move is as on the images page: the text follows when the cursor rests.
func (p *Plan) move(at int) tea.Cmd {
	p.list.Cur = at
	if !p.Basic() {
		p.shown = at
		return nil
	}
	return p.later(p, rest, settled{at})
}

// yaml shows the answers file that the plan was made from.
func (p *Plan) yaml() tea.Cmd {
	data, err := answers.Marshal(p.plan.Answers)
	if err != nil {
		return notice("The answers cannot be shown: " + err.Error())
	}
	return send(Push{NewPager(p.Common, "Answers file", string(data), false)})
}

// name takes the path to save the answers under, without running anything.
func (p *Plan) name(k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		p.named = false
	case enter(k):
		p.named = false
		data, err := answers.Marshal(p.plan.Answers)
		if err != nil {
			return notice("Not saved: " + err.Error())
		}
		return saveText(p.Common, p.path.String(), string(data))
	default:
		p.path.Key(k)
	}
	return nil
}

func (p *Plan) describe(at int) hostops.Description { return p.plan.Steps[at].Action.Describe() }

// Body draws the steps, the exact text of one, and the field.
func (p *Plan) Body(w, h int) []string {
	notes := choice.PlanNotes(p.plan)
	if len(p.plan.Steps) == 0 {
		lines := append([]string{"Nothing to do: what was asked for is in place already.", ""}, p.offer(w)...)
		for _, n := range notes {
			lines = append(lines, look.Wrap(n, w)...)
		}
		return look.Fit(h, look.Block{Lines: append(lines, "", "y shows the answers file, p saves it, q quits."), Keep: look.Need}, p.saveLine(w))
	}
	head := p.head(w)
	field := []string{repeat(p.Theme.Marks.Rule, w), look.Cut(p.word.Line(p.Theme, "To run it,", w), w)}
	if p.named {
		field = p.saveLine(w).Lines
	}
	if p.word.Note != "" {
		field = append(field, look.Cut(p.word.Note, w))
	}
	t := look.NewTable(w-2, look.Column{Head: "#", Width: 2, Right: true}, look.Column{Head: "Step", Width: 9, Drop: 2},
		look.Column{Head: "What"}, look.Column{Head: "Undo", Width: max(min(w/3, 34), 10), Drop: 1})
	n := len(p.plan.Steps)
	text := p.exactly(w)
	list := p.list.draw(p.Theme, share(h, len(head)+len(field)+1, n, min(len(text), 5)), n, func(at int) string {
		d := p.describe(at)
		undo := "-"
		if len(d.Undo) > 0 {
			undo = d.Undo[0]
		}
		return t.Row(fmt.Sprint(at+1), p.plan.Steps[at].ID, p.Theme.Text(d.Title), p.Theme.Text(undo))
	})
	p.rows = list.rows
	table := append([]string{p.Theme.Paint(look.Faint, "  "+t.Heads())}, list.text...)
	room := h - len(head) - len(table) - len(field)
	blocks := []look.Block{{Lines: head, Keep: look.Info}, {Lines: table, Keep: look.Need}}
	if room > 1 {
		blocks = append(blocks, look.Block{Lines: clip(text, room, "v shows every step in full"), Keep: look.Detail})
	}
	if left := room - len(text); left > len(notes)+1 && len(notes) > 0 {
		blocks = append(blocks, look.Block{Lines: cutAll(notes, w), Keep: look.Hint})
	}
	return look.Fit(h, append(blocks, look.Block{Lines: field, Keep: look.Need})...)
}

// head is what is said of the plan as a whole.
func (p *Plan) head(w int) []string {
	head := []string{look.Cut(choice.PlanSize(p.plan), w)}
	if p.Choices.Survey.Simulated {
		head = append(head, "SIMULATED: this is not the live node; kernel calls have no effect.")
	}
	head = append(head, p.offer(w)...)
	if len(p.plan.Risks) > 0 {
		head = append(head, look.Cut("Risks taken: "+strings.Join(p.plan.Risks, ", "), w))
	}
	return head
}

func (p *Plan) saveLine(w int) look.Block {
	if !p.named {
		return look.Block{}
	}
	return look.Block{Lines: []string{"Save the answers as: " + p.path.View(p.Theme, max(min(w-21, 50), 8)), "Enter saves, Esc leaves"}, Keep: look.Need}
}

// exactly is the exact text of the step the cursor rests on.
func (p *Plan) exactly(w int) []string {
	at := min(p.shown, len(p.plan.Steps)-1)
	d := p.describe(at)
	lines := []string{fmt.Sprintf("Step %d does exactly  (about %s)", at+1, plan.About(d.Estimate))}
	for _, t := range d.Text {
		lines = append(lines, look.Cut("  "+look.Line(t), w))
	}
	for _, u := range d.Undo {
		lines = append(lines, look.Cut("  undo: "+look.Line(u), w))
	}
	return lines
}

func cutAll(lines []string, w int) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = look.Cut(l, w)
	}
	return out
}

func (p *Plan) Keys() []look.Key {
	keys := []look.Key{{Keys: "Up/Down", Does: "step"}, {Keys: "v", Does: "all in full"}, {Keys: "y", Does: "answers"}, {Keys: "p", Does: "save them"}}
	if p.Choices.Restart || len(p.plan.Restart) > 0 {
		keys = append(keys, look.Key{Keys: "t", Does: "restart"})
	}
	return append(keys, look.Key{Keys: "b", Does: "back"}, look.Key{Keys: "?", Does: "help"}, look.Key{Keys: "q", Does: "quit"})
}

func (p *Plan) Help() []string {
	return []string{
		"What will be done, step by step: the exact files, system calls and commands, and what undoes each. v shows all of it in full, y the answers file it was made from, p saves that file without running anything. Where a driver comes into use with a restart only, t makes the restart a step of the run, which goes on after the boot.",
		"Type the word run and press Enter to start. Nothing on the node has been changed so far, and b goes back with all answers kept.",
	}
}
