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
	"fitout/workflow/plan"
)

// Hardware lists the kinds of devices with the driver each has and its state.
type Hardware struct {
	*Common
	list   List
	all    bool
	filter Text
	asking bool // the filter is being typed
	rows   int  // lines on a page, as last drawn
}

// NewHardware is the first page.
func NewHardware(c *Common) *Hardware {
	h := &Hardware{Common: c, rows: 10}
	for at, i := range h.shown() {
		if c.Choices.Kinds[i].Selected {
			h.list.Cur = at
			break
		}
	}
	return h
}

// surveyed is the message of a new look at the node.
type surveyed struct {
	survey *workflow.Survey
	err    error
}

// resurvey looks at the node again.
func resurvey(c *Common, label string) tea.Cmd {
	return work(label, func(ctx context.Context, _ image.Progress) tea.Msg {
		s, err := c.Wizard.Survey(ctx)
		return surveyed{s, err}
	})
}

func (h *Hardware) Appear() tea.Cmd { return nil }
func (h *Hardware) Typing() bool    { return h.asking }
func (h *Hardware) Title() string   { return "1/7 Hardware" }

// shown are the indexes of the kinds that the filter lets through.
func (h *Hardware) shown() []int {
	var at []int
	want := strings.ToLower(h.filter.String())
	for i, k := range h.Choices.Survey.Kinds {
		if !h.all && !choice.Listed(k.State) {
			continue
		}
		text := strings.ToLower(strings.Join([]string{k.Name, k.ID, k.Driver, look.State(k.State)}, " "))
		if want == "" || strings.Contains(text, want) {
			at = append(at, i)
		}
	}
	return at
}

func (h *Hardware) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case surveyed:
		if msg.err != nil {
			return send(Push{NewTrouble(h.Common, "Looking at the node", msg.err, nil)})
		}
		h.Common.Choices = h.Common.Choices.Renew(h.Wizard, msg.survey)
		h.list.Clamp(len(h.shown()))
		return notice("The node was looked at again.")
	case tea.KeyMsg:
		if h.asking {
			return h.typed(msg)
		}
		return h.key(msg)
	}
	return nil
}

// typed takes keys while the filter is typed.
func (h *Hardware) typed(k tea.KeyMsg) tea.Cmd {
	if enter(k) || Means(k) == Field {
		h.asking = false
		return nil
	}
	if k.Type == tea.KeyEsc {
		h.asking, h.filter = false, Text{}
	} else {
		h.filter.Key(k)
	}
	h.list.Cur = 0
	return nil
}

func (h *Hardware) key(k tea.KeyMsg) tea.Cmd {
	shown := h.shown()
	switch letter(k) {
	case 'n':
		return h.goOn()
	case 'r':
		return resurvey(h.Common, "looking at the node again")
	case 'a':
		h.all = !h.all
		h.list.Clamp(len(h.shown()))
		return nil
	case 'm':
		return send(Push{NewMaintenance(h.Common, false)})
	case 'H':
		return send(Push{NewHistory(h.Common)})
	}
	if d := digit(k); d >= 1 && d <= len(shown) {
		h.list.Cur = d - 1
		return nil
	}
	a := Means(k)
	if h.list.Move(a, len(shown), h.rows) {
		return nil
	}
	switch a {
	case Search:
		h.asking = true
	case Select:
		if len(shown) > 0 {
			return h.toggle(shown[h.list.Cur])
		}
	case Go:
		if len(shown) > 0 {
			return send(Push{NewDevice(h.Common, shown[h.list.Cur])})
		}
	case Back:
		if h.filter.String() != "" {
			h.filter = Text{}
			return nil
		}
		return notice("This is the first page; q quits.")
	}
	return nil
}

// toggle selects a kind or says why it cannot be.
func (h *Hardware) toggle(i int) tea.Cmd {
	k := h.Choices.Survey.Kinds[i]
	if why := notSelectable(k); why != "" {
		return notice(why)
	}
	h.Choices.Kinds[i].Selected = !h.Choices.Kinds[i].Selected
	return nil
}

func notSelectable(k workflow.Kind) string {
	switch k.State {
	case finding.StateVirtualFunction:
		return "A virtual function is served through its physical function."
	case finding.StateNotNeeded:
		return "This device needs no driver of its own."
	}
	return ""
}

func (h *Hardware) goOn() tea.Cmd {
	if len(h.Choices.Selected()) == 0 && !h.Choices.Extras() {
		return notice("Nothing is selected: Space selects the device under the cursor.")
	}
	return next(h.Common, choice.Question{Asked: choice.Hardware})
}

// Body draws the list and what its words mean.
func (h *Hardware) Body(w, rows int) []string {
	shown := h.shown()
	info := h.facts(w)
	if len(shown) == 0 {
		return look.Fit(rows, look.Block{Lines: info, Keep: look.Info}, look.Block{Lines: h.nothing(), Keep: look.Need}, h.filterLine(w))
	}
	t := h.table(w-2, shown)
	hints := h.hints(w, shown)
	lines := h.list.draw(h.Theme, rows-len(info)-2, len(shown), func(at int) string {
		return h.line(t, shown[at])
	})
	h.rows = lines.rows
	blocks := []look.Block{
		{Lines: info, Keep: look.Info},
		{Lines: append([]string{h.Theme.Paint(look.Faint, "  "+t.Heads())}, lines.text...), Keep: look.Need},
		{Lines: []string{h.summary(len(shown))}, Keep: look.Detail},
		{Lines: hints, Keep: look.Hint},
		h.filterLine(w),
	}
	return look.Fit(rows, blocks...)
}

// table makes driver and state as wide as what is in them, and leaves the rest
// to the name.
func (h *Hardware) table(w int, shown []int) *look.Table {
	driver, state := len("Driver now"), len("State")
	for _, i := range shown {
		k := h.Choices.Survey.Kinds[i]
		driver = max(driver, min(look.Width(k.Driver), 16))
		state = max(state, look.Width(look.State(k.State)))
	}
	return look.NewTable(w, look.Column{Head: "Sel", Width: 3}, look.Column{Head: "Device"}, look.Column{Head: "Vendor:dev", Width: 10, Drop: 1},
		look.Column{Head: "Driver now", Width: driver, Drop: 2}, look.Column{Head: "State", Width: state})
}

func (h *Hardware) filterLine(w int) look.Block {
	if !h.asking && h.filter.String() == "" {
		return look.Block{}
	}
	line := "Filter: " + h.filter.String()
	if h.asking {
		line = "Filter: " + h.filter.View(h.Theme, min(w-8, 40)) + "  Enter keeps, Esc clears"
	}
	return look.Block{Lines: []string{line}, Keep: look.Need}
}

func (h *Hardware) facts(w int) []string {
	s := h.Choices.Survey
	var lines []string
	for i, k := range s.Kernels {
		if i > 0 && len(lines) < 3 {
			lines = append(lines, fmt.Sprintf("May boot next    %s (%s)", k.Release, roles(k)))
		} else if i == 0 {
			lines = append(lines, "Running kernel   "+k.Release)
		}
	}
	without := 0
	for _, k := range s.Kinds {
		if k.Driver == "" && choice.Listed(k.State) {
			without++
		}
	}
	drivers := "every device has a driver"
	if without > 0 {
		drivers = plan.Count(without, "kind") + " without a driver"
	}
	return append(lines, look.Cut(fmt.Sprintf("%s   %s   %s", secureBoot(s.SecureBoot), drivers, h.Theme.Text(s.Host.Title)), w))
}

// secureBoot is the firmware's state in words.
func secureBoot(s string) string {
	switch s {
	case "":
		return "Secure Boot unknown"
	case "no-efi":
		return "No Secure Boot"
	}
	return "Secure Boot " + s
}

func (h *Hardware) line(t *look.Table, i int) string {
	k, c := h.Choices.Survey.Kinds[i], h.Choices.Kinds[i]
	sel := h.Theme.Marks.Free
	switch {
	case c.Selected:
		sel = h.Theme.Marks.Chosen
	case notSelectable(k) != "":
		sel = h.Theme.Marks.Fixed
	case k.State == finding.StateNoImage || k.State == finding.StateFailed:
		sel = h.Theme.Marks.Problem
	}
	name := h.Theme.Text(k.Name)
	if name == "" {
		name = "(unnamed) class " + k.Class
	}
	driver := k.Driver
	if driver == "" {
		driver = "(none)"
	}
	state := h.Theme.Paint(look.StateRole(k.State), look.State(k.State))
	return t.Row(sel, fmt.Sprintf("%dx %s", len(k.Devices), name), k.ID, driver, state)
}

func (h *Hardware) summary(n int) string {
	return fmt.Sprintf("%d/%d   %d selected   %s in all", h.list.Cur+1, n, len(h.Choices.Selected()), plan.Count(len(h.Choices.Survey.Devices), "device"))
}

// nothing is the page of a node on which nothing is to be done.
func (h *Hardware) nothing() []string {
	if h.filter.String() != "" {
		return []string{"No device matches this filter. / changes it, b clears it."}
	}
	return []string{
		"Nothing to fit out.",
		"",
		"Every device of this node has a driver, or needs none.",
		"a  shows all functions, bridges too     r  looks again     q  quits",
	}
}

// hints explain the state words that are on the screen.
func (h *Hardware) hints(w int, shown []int) []string {
	var lines []string
	seen := map[finding.State]bool{}
	for _, i := range shown {
		s := h.Choices.Survey.Kinds[i].State
		if !seen[s] && s != finding.StateOK {
			seen[s] = true
			lines = append(lines, paragraph(w, 18, look.State(s), finding.StateSentence(s))...)
		}
	}
	return lines
}

func (h *Hardware) Keys() []look.Key {
	return []look.Key{
		{Keys: "Up/Down", Does: "move"}, {Keys: "Space", Does: "select"}, {Keys: "n", Does: "next"}, {Keys: "Enter", Does: "detail"},
		{Keys: "/", Does: "filter"}, {Keys: "r", Does: "look again"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"},
	}
}

func (h *Hardware) Help() []string {
	return []string{
		"The devices of this node, equal ones grouped by vendor and device number, those without a working driver first. Selected are the ones that will be served; n goes on with them.",
		"a shows all functions, bridges and virtual functions too. m shows the maintenance state. H shows past runs. / filters by name, number, driver or state.",
		"Nothing on the node is changed before you type the word run on the plan page.",
	}
}
