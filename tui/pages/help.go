package pages

import (
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
)

// HelpPage is the help of the page below it, and the table of keys.
type HelpPage struct {
	*Common
	of     Page
	scroll Scroll
	n      int
	rows   int
}

// NewHelp helps with a page.
func NewHelp(c *Common, of Page) *HelpPage { return &HelpPage{Common: c, of: of, rows: 10} }

func (p *HelpPage) Appear() tea.Cmd { return nil }
func (p *HelpPage) Typing() bool    { return false }
func (p *HelpPage) Title() string   { return "Help: " + p.of.Title() }

func (p *HelpPage) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok || p.scroll.Move(Means(k), p.n, p.rows) {
		return nil
	}
	return send(Pop{})
}

func (p *HelpPage) Body(w, h int) []string {
	var lines []string
	for _, text := range p.of.Help() {
		lines = append(lines, look.Wrap(text, w)...)
		lines = append(lines, "")
	}
	lines = append(lines, p.Theme.Paint(look.Title, "Keys on this page"))
	for _, k := range p.of.Keys() {
		lines = append(lines, look.Cut(fmt.Sprintf("  %-22s %s", k.Keys, k.Does), w))
	}
	lines = append(lines, "", p.Theme.Paint(look.Title, "Keys on every page"))
	for _, row := range KeyTable {
		lines = append(lines, look.Cut(fmt.Sprintf("  %-22s %s", row.Shown, row.Does), w))
	}
	p.n, p.rows = len(lines), h-1
	p.scroll.Clamp(p.n, p.rows)
	end := min(p.scroll.Top+p.rows, len(lines))
	body := append([]string(nil), lines[p.scroll.Top:end]...)
	for len(body) < p.rows {
		body = append(body, "")
	}
	return append(body, p.Theme.Paint(look.Faint, fmt.Sprintf("lines %d-%d of %d", p.scroll.Top+1, end, len(lines))))
}

func (p *HelpPage) Keys() []look.Key {
	return []look.Key{{Keys: "PgUp/PgDn", Does: "read"}, {Keys: "any other key", Does: "back"}}
}

func (p *HelpPage) Help() []string { return []string{"Any key goes back to the page."} }
