package pages

import (
	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
)

// Maintenance says what is known of the node's maintenance state, gives the
// commands, and asks how to go on where that is not settled.
type Maintenance struct {
	*Common
	ask  bool // part of the road to the plan; otherwise just a look
	list List
}

// NewMaintenance is the page; ask is false when it is only looked at.
func NewMaintenance(c *Common, ask bool) *Maintenance {
	m := &Maintenance{Common: c, ask: ask}
	for i, o := range m.options() {
		if o.answer == c.Choices.Maintenance && o.answer != "" {
			m.list.Cur = i
		}
	}
	return m
}

// maintStates explain the states; one that is not here is shown bare.
var maintStates = map[string]string{
	"not-a-cluster-node": "This node is in no cluster; nothing has to be moved away.",
	"in-maintenance":     "This node is in maintenance.",
	"entering":           "This node is on its way into maintenance; workloads are still leaving.",
	"cordoned":           "This node takes no new workloads, and those that run have not left.",
	"in-service":         "This node is in service: workloads run on it.",
	"upgrading":          "This node is being upgraded. Wait for the end of it.",
	"unknown":            "Whether this node is in maintenance could not be found out.",
}

// MaintWord is the state in the words of the title line.
func MaintWord(state string) string {
	switch state {
	case "":
		return ""
	case "in-maintenance":
		return "maintenance"
	case "not-a-cluster-node":
		return "no cluster"
	case "unknown":
		return "maintenance unknown"
	}
	return look.Line(state)
}

type maintOption struct {
	answer     string // "" : look again
	text, note string
	impossible string
}

func (m *Maintenance) options() []maintOption {
	state := m.Choices.Survey.Maintenance
	enter := maintOption{answer: "enter", text: "fitout empties the node before the run and gives it back after it",
		note: "cordon and drain are steps of the plan, each with its undo", impossible: choice.CannotEnter(state)}
	return []maintOption{
		{text: "I have emptied it, or will now: look again", note: "in another session, or in a shell here (!)"},
		enter,
		{answer: "skip", text: "go on without maintenance", note: "needs the risk not-in-maintenance, typed on a later page"},
	}
}

func (m *Maintenance) Appear() tea.Cmd { return nil }
func (m *Maintenance) Typing() bool    { return false }
func (m *Maintenance) Title() string   { return "2/7 Maintenance" }

func (m *Maintenance) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case surveyed:
		return m.looked(msg)
	case tea.KeyMsg:
		a := Means(msg)
		switch {
		case letter(msg) == 'r':
			return resurvey(m.Common, "looking at the node again")
		case a == Back:
			return send(Pop{})
		case !m.asking():
			if onward(msg) && !m.ask {
				return send(Pop{})
			} else if onward(msg) {
				return next(m.Common, choice.Question{Asked: choice.Maintenance})
			}
			return nil
		}
		if d := digit(msg); d >= 1 && d <= len(m.options()) {
			m.list.Cur = d - 1
			return nil
		}
		if m.list.Move(a, len(m.options()), len(m.options())) {
			return nil
		}
		if onward(msg) || a == Select {
			return m.take()
		}
	}
	return nil
}

// asking says that there is something to choose.
func (m *Maintenance) asking() bool {
	return m.ask && !choice.MaintenanceKnown(m.Choices.Survey.Maintenance.State)
}

func (m *Maintenance) looked(msg surveyed) tea.Cmd {
	if msg.err != nil {
		return send(Push{NewTrouble(m.Common, "Looking at the node", msg.err, nil)})
	}
	m.Common.Choices = m.Common.Choices.Renew(m.Wizard, msg.survey)
	if m.ask && choice.MaintenanceKnown(msg.survey.Maintenance.State) {
		m.Choices.Maintenance = "required"
		return tea.Sequence(notice("The node is in maintenance."), next(m.Common, choice.Question{Asked: choice.Maintenance}))
	}
	return notice("Looked again: " + look.Line(msg.survey.Maintenance.State))
}

func (m *Maintenance) take() tea.Cmd {
	o := m.options()[m.list.Cur]
	switch {
	case o.impossible != "":
		return notice("Not possible: " + o.impossible + ".")
	case o.answer == "":
		return resurvey(m.Common, "looking at the node again")
	}
	m.Choices.Maintenance = o.answer
	return next(m.Common, choice.Question{Asked: choice.Maintenance})
}

// Body draws state, evidence, commands and the choice.
func (m *Maintenance) Body(w, h int) []string {
	s := m.Choices.Survey.Maintenance
	means, known := maintStates[s.State]
	if !known {
		means = s.State
	}
	head := look.Wrap(means, w)
	if s.Why != "" {
		head = append(head, look.Wrap(s.Why, w)...)
	}
	var commands []string
	if len(s.Enter) > 0 {
		commands = append(commands, "To empty it by hand:")
		commands = append(commands, indent(2, s.Enter)...)
	}
	if len(s.Leave) > 0 {
		commands = append(commands, "To give it back afterwards:")
		commands = append(commands, indent(2, s.Leave)...)
	}
	var list []string
	if m.asking() {
		for i, o := range m.options() {
			mark, text := "  ", string(rune('1'+i))+" "+o.text
			if i == m.list.Cur {
				mark, text = "", m.Theme.Focus(m.Theme.Marks.Cursor+" "+text)
			}
			list = append(list, mark+text)
			note := o.note
			if o.impossible != "" {
				note = "not possible: " + o.impossible
			}
			list = append(list, m.Theme.Paint(look.Faint, "    "+note))
		}
	}
	evidence := clip(indent(2, s.Evidence), 5, "fitout status shows all")
	return look.Fit(h,
		look.Block{Lines: head, Keep: look.Need},
		look.Block{Lines: evidence, Keep: look.Hint},
		look.Block{Lines: commands, Keep: look.Detail},
		look.Block{Lines: list, Keep: look.Need})
}

func (m *Maintenance) Keys() []look.Key {
	keys := []look.Key{{Keys: "r", Does: "look again"}, {Keys: "b", Does: "back"}, {Keys: "!", Does: "shell"}, {Keys: "?", Does: "help"}}
	if m.asking() {
		keys = append([]look.Key{{Keys: "Up/Down or 1-3", Does: "choose"}, {Keys: "Enter or n", Does: "take it"}}, keys...)
	}
	return keys
}

func (m *Maintenance) Help() []string {
	return []string{
		"Drivers are exchanged on a node that nobody uses. The page shows what is known of that and how it was found out.",
		"Empty the node yourself with the commands shown and look again, or let fitout do it as the first steps of the plan. Going on without is a risk that has to be named.",
	}
}
