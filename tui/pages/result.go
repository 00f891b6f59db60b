package pages

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/hostops/host"
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// Result says per device what was measured, and what happens after a reboot and
// an upgrade.
type Result struct {
	*Common
	run    string
	plan   *plan.Plan
	sum    Tale
	scroll Scroll
	n      int
	rows   int
}

// NewResult is the page of a run that ended well.
func NewResult(c *Common, run string, p *plan.Plan, s Tale) *Result {
	return &Result{Common: c, run: run, plan: p, sum: s, rows: 10}
}

func (r *Result) Appear() tea.Cmd { return nil }
func (r *Result) Typing() bool    { return false }
func (r *Result) Title() string   { return "Done  " + look.Clock(r.sum.Finished.Sub(r.sum.Began)) }

func (r *Result) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case surveyed:
		return fresh(r.Common, msg)
	case tea.KeyMsg:
		switch letter(msg) {
		case 'q':
			return send(Quit{Exit: r.sum.Exit, Text: r.Text(79)})
		case 'l':
			return send(Push{NewLog(r.Common, func() []string { return r.sum.Log })})
		case 'c':
			return r.show()
		case 'm':
			return resurvey(r.Common, "looking at the node again")
		}
		if r.scroll.Move(Means(msg), r.n, r.rows) {
			return nil
		}
		if Means(msg) == Back {
			return notice("The run is over; m goes to more devices, q quits.")
		}
	}
	return nil
}

// fresh starts again from a new survey, with nothing chosen.
func fresh(c *Common, msg surveyed) tea.Cmd {
	if msg.err != nil {
		return send(Push{NewTrouble(c, "Looking at the node", msg.err, nil)})
	}
	who := c.Choices.Who
	c.Choices = choice.New(c.Wizard, msg.survey, c.Choices.SavedBy)
	c.Choices.Who = who
	return send(Home{NewHardware(c)})
}

// show is the answers file, to be copied from the screen.
func (r *Result) show() tea.Cmd {
	if r.plan == nil || r.plan.Answers == nil {
		return notice("The answers of that run are in its directory: " + r.Wizard.RunDir(r.run))
	}
	data, err := answers.Marshal(r.plan.Answers)
	if err != nil {
		return notice("The answers cannot be shown: " + err.Error())
	}
	return send(Push{NewPager(r.Common, "Answers file", string(data), false)})
}

// Text is the result as plain lines, also for the scrollback.
func (r *Result) Text(w int) []string {
	good := 0
	for _, d := range r.sum.Devices {
		if d.OK {
			good++
		}
	}
	what := fmt.Sprintf("%d of %s as wanted", good, plan.Count(len(r.sum.Devices), "device"))
	switch {
	case r.sum.Outcome == journal.OutcomeRolledBack:
		what = "the run was undone"
	case len(r.sum.Devices) == 0:
		what = "every step was done; no device was to change now"
	}
	lines := []string{look.Cut("DONE  "+what+"   run "+r.run, w), ""}
	for _, d := range r.sum.Devices {
		lines = append(lines, DeviceLines(w, d)...)
	}
	if len(r.sum.Devices) > 0 {
		lines = append(lines, "")
	}
	if r.sum.Failed >= 0 && r.sum.Outcome == journal.OutcomeDone {
		lines = append(append(lines, paragraph(w, 8, "WARNING", r.sum.Message)...), "")
	}
	for pair := range slices.Chunk(r.after(), 2) {
		lines = append(lines, paragraph(w, 15, pair[0], pair[1])...)
	}
	lines = append(lines, "")
	if r.Saved != "" {
		lines = append(lines, "Same on other nodes, without questions:", look.Cut("  fitout apply --answers-file "+r.Saved, w))
	}
	if r.SaveNote != "" {
		lines = append(lines, look.Wrap("The answers file was not saved: "+r.SaveNote, w)...)
	}
	return append(lines, labelled(w, 6, "Undo:", "fitout rollback "+r.run, "Log:", strings.TrimSuffix(r.Wizard.RunDir(r.run), "/")+"/"+journal.File)...)
}

// DeviceLines is one device as measured.
func DeviceLines(w int, d journal.DeviceResult) []string {
	word := "OK  "
	if !d.OK {
		word = "NOT "
	}
	text := d.Text
	if text == "" {
		text = fmt.Sprintf("driver %s %s, wanted %s", dash(d.Driver), d.Version, d.Want)
	}
	lines := []string{look.Cut(fmt.Sprintf("  %s%s  %s  %s %s", word, d.Address, look.Line(d.Name), dash(d.Driver), d.Version), w),
		look.Cut("      "+look.Line(text), w)}
	for _, l := range d.Log {
		lines = append(lines, look.Cut("      | "+look.Line(l), w))
	}
	return lines
}

// after says what happens now, at the next boot and at the next upgrade.
func (r *Result) after() []string {
	if r.plan == nil || r.sum.Outcome == journal.OutcomeRolledBack {
		return nil
	}
	restarted := slices.ContainsFunc(r.plan.Steps, func(s plan.Step) bool { return s.Action.Kind() == "reboot" })
	var now, boot, upgrade []string
	for _, d := range r.plan.Drivers {
		when := string(d.When)
		now = append(now, says(d.Name, strings.Contains(when, "load-now") || restarted, "yes", "no, only from the next boot on"))
		kept := strings.Contains(when, "persist") || strings.Contains(when, "at-boot")
		boot = append(boot, says(d.Name, kept, "yes"+nextBoot(d), "no, gone after a reboot"))
		gate := r.gate(d)
		upgrade = append(upgrade, says(d.Name, strings.Contains(when, "persist"), gate, "not checked"))
	}
	reboot := "no"
	for _, d := range r.plan.Drivers {
		if restarted {
			reboot = "no, the run has restarted the node"
		} else if d.When == answers.Persist || d.When == answers.AtBoot {
			reboot = "yes, to load what was kept"
		}
	}
	return []string{"Loaded now", strings.Join(now, "; "), "Reboot needed", reboot, "After reboot", strings.Join(boot, "; "), "After upgrade", strings.Join(upgrade, "; ")}
}

// gate says what an upgrade does when the new kernel has no build of a driver
// that is kept over upgrades: what was asked for, as far as this system can.
func (r *Result) gate(d plan.Driver) string {
	if d.OnMissing == "continue" {
		return "where the new kernel has a build; the upgrade goes on without"
	}
	if r.Choices != nil {
		switch r.Choices.Survey.Host.Gate {
		case host.NoGate:
			return "where the new kernel has a build; nothing here can stop an upgrade"
		case host.Advisory:
			return "where the new kernel has a build; this system can only warn"
		}
	}
	return "yes, a kernel without it stops the upgrade"
}

func says(name string, yes bool, a, b string) string {
	if yes {
		return name + ": " + a
	}
	return name + ": " + b
}

// nextBoot names the kernel that boots next and its verdict.
func nextBoot(d plan.Driver) string {
	for _, k := range d.Kernels {
		if k.Role == string(host.Next) || k.Role == string(host.Staged) {
			return " (" + k.Release + ", " + look.Verdict(k.Verdict) + ")"
		}
	}
	return ""
}

func (r *Result) Body(w, h int) []string {
	lines := r.Text(w)
	if len(lines) > 0 {
		lines[0] = r.Theme.Paint(look.Good, lines[0])
	}
	r.n, r.rows = len(lines), h
	r.scroll.Clamp(r.n, h)
	return lines[r.scroll.Top:min(r.scroll.Top+h, len(lines))]
}

func (r *Result) Keys() []look.Key {
	return []look.Key{{Keys: "c", Does: "show answers"}, {Keys: "l", Does: "log"}, {Keys: "m", Does: "more devices"}, {Keys: "!", Does: "shell"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (r *Result) Help() []string {
	return []string{
		"The run is over. Done is said of a device because it was measured: it is bound to the driver that was wanted, the loaded module is the one that was staged, and the kernel log of the device is clean.",
		"c shows the answers file that does the same on other nodes without questions. The lines of this page are printed once more when you quit.",
	}
}
