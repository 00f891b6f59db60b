package pages

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/hostops/host"
	"fitout/tui/choice"
	"fitout/tui/look"
)

// When asks when a driver is loaded, whether it is kept, and what an OS upgrade
// does when the new kernel has none. What is impossible here is shown with the
// reason.
type When struct {
	*Common
	q    choice.Question
	list List
}

// NewWhen is the page for q.Kind.
func NewWhen(c *Common, q choice.Question) *When {
	p := &When{Common: c, q: q}
	for i, o := range p.options() {
		if (p.kind().When == "" && o.Recommended) || (o.When == p.kind().When && o.Impossible == "") {
			p.list.Cur = i
			break
		}
	}
	return p
}

func (p *When) kind() *choice.Kind           { return &p.Choices.Kinds[p.q.Kind] }
func (p *When) options() []choice.WhenOption { return p.Choices.WhenOptions(p.q.Kind) }
func (p *When) Appear() tea.Cmd              { return nil }
func (p *When) Typing() bool                 { return false }

func (p *When) Title() string {
	if p.q.Of > 1 {
		return fmt.Sprintf("5/7 When (%d of %d)", p.q.Nth, p.q.Of)
	}
	return "5/7 When"
}

func (p *When) Update(msg tea.Msg) tea.Cmd {
	k, ok := msg.(tea.KeyMsg)
	if !ok {
		return nil
	}
	opts := p.options()
	if d := digit(k); d >= 1 && d <= len(opts) {
		p.list.Cur = d - 1
		return nil
	}
	if letter(k) == 'o' {
		if p.kind().OnMissing == "continue" {
			p.kind().OnMissing = "stop"
		} else {
			p.kind().OnMissing = "continue"
		}
		return nil
	}
	if p.list.Move(Means(k), len(opts), len(opts)) {
		return nil
	}
	switch {
	case onward(k), Means(k) == Select:
		o := opts[p.list.Cur]
		if o.Impossible != "" {
			return notice("Not possible here: " + o.Impossible)
		}
		p.kind().When = o.When
		return next(p.Common, p.q)
	case Means(k) == Back:
		return send(Pop{})
	}
	return nil
}

// Body draws the ways and what an upgrade does.
func (p *When) Body(w, h int) []string {
	k := p.Choices.Survey.Kinds[p.q.Kind]
	head := look.Cut(fmt.Sprintf("%s for %dx %s", look.Line(p.kind().Chosen().Name()), len(k.Devices), look.Line(k.Name)), w)
	var list, small, against []string
	for i, o := range p.options() {
		text := fmt.Sprintf("%d %s", i+1, o.Title)
		mark := "  "
		switch {
		case o.Recommended:
			text += "   " + p.Theme.Marks.Recommended + " recommended"
		case o.Impossible != "":
			text += "   NOT POSSIBLE"
			against = append(against, look.Wrap(fmt.Sprintf("%d is not possible here: %s", i+1, o.Impossible), w)...)
		}
		if i == p.list.Cur {
			mark, text = "", p.Theme.Focus(p.Theme.Marks.Cursor+" "+text)
		}
		list = append(list, mark+text)
		small = append(small, mark+text, p.Theme.Paint(look.Faint, "    "+o.Means))
	}
	upgrade := p.upgrade(w)
	rows := list
	if len(small)+len(upgrade)+len(against)+4 <= h {
		rows = small
	}
	return look.Fit(h,
		look.Block{Lines: []string{head}, Keep: look.Info},
		look.Block{Lines: rows, Keep: look.Need},
		look.Block{Lines: upgrade, Keep: look.Detail},
		look.Block{Lines: against, Keep: look.Hint},
		look.Block{Lines: p.costs(w), Keep: look.Hint})
}

// upgrade says what an OS upgrade will do, for ways that keep the driver.
func (p *When) upgrade(w int) []string {
	var kept bool
	for _, o := range p.options() {
		kept = kept || (strings.Contains(string(o.When), "persist") && o.Impossible == "")
	}
	if !kept {
		return nil
	}
	lines := []string{"When an OS upgrade brings a kernel without this driver (o changes it):"}
	text := "  stop: the upgrade is held up and says why"
	gate := p.Choices.Survey.Host.Gate
	switch {
	case p.kind().OnMissing == "continue":
		text = "  go on: the upgrade is done, and the device may be without a driver"
	case gate == host.NoGate:
		text = "  stop is asked for, but fitout cannot stop an upgrade of this system yet"
	case gate == host.Advisory:
		text = "  stop is asked for, but this system can only warn"
	}
	return append(lines, look.Cut(text, w))
}

// costs says where the prices are, which have no room here.
func (p *When) costs(w int) []string {
	if len(p.Help()) == len(whenHelp) {
		return nil
	}
	return []string{p.Theme.Paint(look.Faint, look.Cut("? says what each way costs: reboot, space, what survives", w))}
}

func (p *When) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down or 1-5", Does: "choose"}, {Keys: "o", Does: "on missing module"}, {Keys: "Enter or n", Does: "next"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

var whenHelp = []string{
	"When the driver is loaded and whether it stays. Keeping it over OS upgrades uses the host system's own hook: at every upgrade the new kernel is checked for a build of the driver.",
	"o changes what happens when there is none: stop the upgrade, or go on without the driver.",
}

func (p *When) Help() []string {
	out := slices.Clone(whenHelp)
	price := p.Choices.Survey.Host.Price
	for _, way := range []struct{ key, title string }{
		{"at-boot", "Load at every boot costs"},
		{"side-tree", "Keep beside the OS (persistIn: side-tree) costs"},
		{"os-image", "Keep in the OS image (persistIn: os-image) costs"},
	} {
		if len(price[way.key]) > 0 {
			out = append(out, way.title+": "+strings.Join(price[way.key], "; ")+".")
		}
	}
	return out
}
