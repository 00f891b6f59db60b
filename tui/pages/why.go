package pages

import (
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow/judge"
)

// Why shows the checks behind a verdict, one kernel at a time.
type Why struct {
	*Common
	offer  *choice.Offer
	kernel int
	scroll Scroll
	lines  int
	rows   int
}

// NewWhy explains the verdicts of an examined offer.
func NewWhy(c *Common, o *choice.Offer) *Why { return &Why{Common: c, offer: o, rows: 10} }

func (y *Why) Appear() tea.Cmd { return nil }
func (y *Why) Typing() bool    { return false }
func (y *Why) Title() string   { return "3/7 Image > why" }

func (y *Why) judgement() (judge.Judgement, bool) {
	list := y.offer.Examined.Judgements
	if y.kernel >= len(list) {
		return judge.Judgement{}, false
	}
	return list[y.kernel], true
}

func (y *Why) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok {
		return nil
	}
	if letter(k) == 'n' || Means(k) == Field {
		y.kernel = (y.kernel + 1) % max(len(y.offer.Examined.Judgements), 1)
		y.scroll.Top = 0
		return nil
	}
	if y.scroll.Move(Means(k), y.lines, y.rows) {
		return nil
	}
	if a := Means(k); a == Back || a == Go {
		return send(Pop{})
	}
	return nil
}

// Body draws checks and findings.
func (y *Why) Body(w, h int) []string {
	j, ok := y.judgement()
	if !ok {
		return []string{"No kernel was judged."}
	}
	head := []string{
		look.Cut(fmt.Sprintf("%s on %s", look.Line(y.offer.Name()), j.Release), w),
		fmt.Sprintf("Verdict %s   kernel %d of %d", y.Theme.Paint(look.VerdictRole(j.Verdict), look.Verdict(j.Verdict)), y.kernel+1, len(y.offer.Examined.Judgements)),
	}
	t := look.NewTable(w, look.Column{Head: "Check", Width: min(22, w/3)}, look.Column{Head: "Result", Width: 12}, look.Column{Head: "Detail"})
	var lines []string
	if len(j.Checks) > 0 {
		lines = append(lines, y.Theme.Paint(look.Faint, t.Heads()))
	}
	for _, c := range j.Checks {
		lines = append(lines, t.Row(y.Theme.Text(c.Name), y.Theme.Text(c.Result), y.Theme.Text(c.Detail)))
	}
	for _, f := range j.Findings {
		lines = append(lines, "")
		lines = append(lines, findingLines(w, f)...)
		if f.Risk != "" {
			lines = append(lines, look.Cut("        goes on only with the risk "+f.Risk+" accepted", w))
		}
	}
	if len(j.Load) > 0 {
		lines = append(lines, "", "Would load, in this order:")
		for _, l := range j.Load {
			text := "  " + l.Module + "  from the " + l.From + "  " + l.Path
			if l.Loaded {
				text += "  (loaded already)"
			}
			lines = append(lines, look.Cut(look.Line(text), w))
		}
	}
	y.rows = max(h-len(head)-2, 1)
	y.lines = len(lines)
	y.scroll.Clamp(y.lines, y.rows)
	end := min(y.scroll.Top+y.rows, len(lines))
	body := append(head, "")
	body = append(body, lines[y.scroll.Top:end]...)
	if len(lines) > y.rows {
		body = append(body, y.Theme.Paint(look.Faint, fmt.Sprintf("lines %d-%d of %d", y.scroll.Top+1, end, len(lines))))
	}
	return look.Fit(h, look.Block{Lines: body, Keep: look.Need})
}

func (y *Why) Keys() []look.Key {
	return []look.Key{{Keys: "n", Does: "next kernel"}, {Keys: "PgUp/PgDn", Does: "read"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (y *Why) Help() []string {
	return []string{
		"What was checked to judge this image for a kernel, what came out, and what was found, with the evidence and a cure.",
		"The same as text:  fitout why " + y.offer.Name() + ".  fitout explain CODE explains a finding.",
	}
}
