package pages

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
)

// Risks takes the named risks that a plan needs, one by one, each by typing its
// name. There is no "all".
type Risks struct {
	*Common
	plan *plan.Plan
	at   int
	word Word
}

// NewRisks asks for p.Missing.
func NewRisks(c *Common, p *plan.Plan) *Risks {
	r := &Risks{Common: c, plan: p}
	r.word.Want = p.Missing[0]
	return r
}

// Acts says that a typed word counts here.
func (r *Risks) Acts() {}

func (r *Risks) Appear() tea.Cmd {
	r.word.Value = nil
	return nil
}
func (r *Risks) Typing() bool { return r.word.Active() }
func (r *Risks) Title() string {
	return fmt.Sprintf("5/7 Risk (%d of %d)", r.at+1, len(r.plan.Missing))
}

func (r *Risks) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case Confirmed:
		if !r.word.Holds(msg) {
			return nil
		}
		r.Choices.AcceptRisk(r.plan.Missing[r.at])
		r.at++
		if r.at < len(r.plan.Missing) {
			r.word = Word{Want: r.plan.Missing[r.at], armed: r.word.armed}
			return nil
		}
		r.at--
		return send(Replace{NewPlanning(r.Common)})
	case tea.KeyMsg:
		if r.word.Active() || r.word.Starts(msg) || msg.Paste {
			if handled, cmd := r.word.Key(r.Common, r, msg); handled {
				return cmd
			}
		}
		switch Means(msg) {
		case Back:
			// Taken back: what was accepted on this page counts for nothing.
			r.Choices.Risks = slices.DeleteFunc(r.Choices.Risks, func(n string) bool { return slices.Contains(r.plan.Missing, n) })
			return send(Pop{})
		case Go:
			return notice("To take the risk, type its name; b goes back and takes none.")
		}
	}
	return nil
}

// Body draws what the risk is and the field.
func (r *Risks) Body(w, h int) []string {
	name := r.plan.Missing[r.at]
	var lines []string
	for _, f := range r.plan.Findings {
		if f.Risk == name {
			lines = append(lines, findingLines(w, f)...)
			lines = append(lines, "")
		}
	}
	if len(lines) == 0 {
		lines = []string{"The plan needs it."}
	}
	if means, ok := finding.RiskMeaning(name); ok {
		lines = append(look.Wrap(means, w), append([]string{""}, lines...)...)
	}
	field := []string{look.Cut(r.word.Line(r.Theme, "To take it,", w), w)}
	if r.word.Note != "" {
		field = append(field, look.Cut(r.word.Note, w))
	}
	head := []string{look.Cut("This plan goes on only with the risk  "+r.Theme.Paint(look.Word, name), w)}
	return look.Fit(h,
		look.Block{Lines: head, Keep: look.Need},
		look.Block{Lines: clip(lines, h-5, "fitout explain "+name+" tells more"), Keep: look.Detail},
		look.Block{Lines: look.Wrap("It is written into the answers file by its name. There is no way to accept all of them at once.", w), Keep: look.Hint},
		look.Block{Lines: field, Keep: look.Need})
}

func (r *Risks) Keys() []look.Key {
	return []look.Key{{Keys: "type the name", Does: "takes the risk"}, {Keys: "b", Does: "back, takes none"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (r *Risks) Help() []string {
	return []string{
		"Something about this plan may go wrong in a way that only a person can decide on. The page says what, and what was measured.",
		"Type the name of the risk to take it. b goes back, and nothing was taken. fitout explain NAME tells more about each.",
	}
}
