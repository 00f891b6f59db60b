package pages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/finding"
)

// Device shows one kind slot by slot.
type Device struct {
	*Common
	kind int
	list List
	rows int
}

// NewDevice shows the kind at an index of Survey.Kinds.
func NewDevice(c *Common, kind int) *Device { return &Device{Common: c, kind: kind, rows: 4} }

func (d *Device) Appear() tea.Cmd { return nil }
func (d *Device) Typing() bool    { return false }
func (d *Device) Title() string {
	return "1/7 Hardware > " + look.Cut(look.Line(d.name()), 28)
}

func (d *Device) name() string {
	k := d.group()
	if k.Name == "" {
		return k.ID
	}
	return k.Name
}

func (d *Device) group() workflow.Kind { return d.Choices.Survey.Kinds[d.kind] }

// slot is the device under the cursor.
func (d *Device) slot() workflow.Device {
	return d.Choices.Survey.Devices[d.group().Devices[d.list.Cur]]
}

// kernelLog is the answer to m.
type kernelLog struct {
	address string
	lines   []string
	err     error
}

func (d *Device) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case kernelLog:
		switch {
		case msg.err != nil:
			return notice("The kernel log cannot be read: " + msg.err.Error())
		case len(msg.lines) == 0:
			return notice("The kernel log says nothing about " + msg.address + ".")
		}
		return send(Push{NewPager(d.Common, "Kernel messages of "+msg.address, strings.Join(msg.lines, "\n"), false)})
	case tea.KeyMsg:
		return d.key(msg)
	}
	return nil
}

func (d *Device) key(k tea.KeyMsg) tea.Cmd {
	switch letter(k) {
	case 'i':
		return d.images()
	case 'm':
		return d.messages()
	case 'H':
		return send(Push{NewHistory(d.Common)})
	case 'f':
		return send(Push{NewPager(d.Common, "Findings of "+d.slot().Address, strings.Join(d.findings(76), "\n"), true)})
	}
	a := Means(k)
	if d.list.Move(a, len(d.group().Devices), d.rows) {
		return nil
	}
	switch a {
	case Select:
		return d.except()
	case Go:
		return d.images()
	case Back:
		return send(Pop{})
	}
	return nil
}

// images selects the kind and goes to its images.
func (d *Device) images() tea.Cmd {
	if why := notSelectable(d.group()); why != "" {
		return notice(why)
	}
	d.Choices.Kinds[d.kind].Selected = true
	return send(Push{NewImages(d.Common, choice.Question{Asked: choice.Image, Kind: d.kind, Nth: 1, Of: 1})})
}

func (d *Device) messages() tea.Cmd {
	l, ok := d.Wizard.(KernelLogger)
	if !ok {
		return notice("In a shell (!):  dmesg | grep " + d.slot().Address)
	}
	address := d.slot().Address
	return work("reading the kernel log", func(ctx context.Context, _ image.Progress) tea.Msg {
		lines, err := l.KernelLog(ctx, address)
		return kernelLog{address, lines, err}
	})
}

// except leaves one of several equal cards alone, or takes it in again.
func (d *Device) except() tea.Cmd {
	if len(d.group().Devices) < 2 {
		return notice("There is one such card only; b goes back, Space there leaves it alone.")
	}
	k := &d.Choices.Kinds[d.kind]
	address := d.slot().Address
	if i := slices.Index(k.Except, address); i >= 0 {
		k.Except = slices.Delete(slices.Clone(k.Except), i, i+1)
		return nil
	}
	if len(k.Except) == len(d.group().Devices)-1 {
		return notice("That would leave all of them alone; b goes back, Space there does that.")
	}
	k.Except = append(slices.Clone(k.Except), address)
	return notice("This card is left alone. The answers file is bound to this node then.")
}

// Body draws the facts, the slots, and what was found of the one under the
// cursor.
func (d *Device) Body(w, h int) []string {
	d.list.Clamp(len(d.group().Devices))
	s := d.slot()
	head := labelled(w, 13,
		"Name", d.name(),
		"Class", strings.TrimSpace(s.ClassCode+"  "+s.ClassName),
		"Vendor:dev", s.ID()+"   subsystem "+s.SubsystemID()+revision(s.Revision),
		"modalias", s.Modalias)
	found := d.findings(w)
	n := len(d.group().Devices)
	t := look.NewTable(w-2,
		look.Column{Width: 3, Drop: 1}, look.Column{Head: "Slot", Width: 13}, look.Column{Head: "NUMA", Width: 4, Drop: 3}, look.Column{Head: "IOMMU", Width: 5, Drop: 4},
		look.Column{Head: "Driver", Width: 13}, look.Column{Head: "In use as", Drop: 2}, look.Column{Head: "State", Width: 16})
	room := share(h, len(head)+1, n, min(len(found), 6))
	list := d.list.draw(d.Theme, room, n, func(at int) string { return d.line(t, at) })
	d.rows = list.rows
	table := append([]string{d.Theme.Paint(look.Faint, "  "+t.Heads())}, list.text...)
	return look.Fit(h,
		look.Block{Lines: head, Keep: look.Info},
		look.Block{Lines: table, Keep: look.Need},
		look.Block{Lines: clip(found, h-len(head)-len(table)-2, "f shows all findings"), Keep: look.Detail})
}

// clip shortens a block and says how to see all of it.
func clip(lines []string, n int, more string) []string {
	if len(lines) <= n || n < 1 {
		return lines
	}
	return append(slices.Clone(lines[:max(n-1, 0)]), "("+more+")")
}

func (d *Device) line(t *look.Table, at int) string {
	s := d.Choices.Survey.Devices[d.group().Devices[at]]
	mark := d.Theme.Marks.Chosen
	if !d.Choices.Kinds[d.kind].Selected || slices.Contains(d.Choices.Kinds[d.kind].Except, s.Address) {
		mark = d.Theme.Marks.Free
	}
	numa := "-"
	if s.NUMANode >= 0 {
		numa = fmt.Sprint(s.NUMANode)
	}
	state := d.Theme.Paint(look.StateRole(s.State), look.State(s.State))
	return t.Row(mark, s.Address, numa, dash(s.IOMMUGroup), dash(s.Driver), dash(strings.Join(uses(s), " ")), state)
}

func uses(s workflow.Device) []string {
	return slices.Concat(s.NetDevs, s.BlockDevs, s.DRMNodes)
}

func revision(r string) string {
	if r == "" {
		return ""
	}
	return "   revision " + r
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// findings are what was found of the slot under the cursor, with candidates and
// near misses.
func (d *Device) findings(w int) []string {
	s := d.slot()
	var lines []string
	for _, f := range s.Findings {
		lines = append(lines, findingLines(w, f)...)
	}
	for _, c := range s.Candidates {
		where := "in an image of the catalog"
		if c.Source == "in-tree" {
			where = "among the kernel's own modules"
		}
		lines = append(lines, look.Cut("can be driven by "+c.Module+", "+where, w))
	}
	if len(s.NearMisses) > 0 {
		lines = append(lines, look.Cut("near misses: "+strings.Join(s.NearMisses, ", "), w))
	}
	if len(lines) == 0 && s.State == finding.StateOK {
		lines = append(lines, "Nothing is wrong with it.")
	}
	return lines
}

func (d *Device) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down", Does: "slot"}, {Keys: "i", Does: "images"}, {Keys: "Space", Does: "leave"},
		{Keys: "m", Does: "messages"}, {Keys: "f", Does: "findings"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (d *Device) Help() []string {
	return []string{
		"One kind of device, slot by slot: where it sits, which driver holds it, what it is used as, and what was found wrong with it.",
		"i goes to the images for it. Space leaves one of several equal cards alone. m shows what the kernel said of the card, H the past runs on this node.",
		"The same as text:  fitout device " + d.group().ID,
	}
}
