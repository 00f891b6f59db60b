// Package tui is the wizard: a root model that owns the stack of pages, the
// frame and the terminal, and line mode where no screen can be drawn. Its only
// product is an answers file; the engine makes a plan of it and a process of its
// own runs that. The wizard may die at any moment without harm.
package tui

import (
	"context"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/tui/pages"
	"fitout/tui/term"
	"fitout/workflow"
)

// How long a job may take before it is shown, and how often that is redrawn.
const (
	busyAfter = 100 * time.Millisecond
	busyBeat  = time.Second
	// deaf is how long Enter is ignored after a page appeared, and every key on
	// pages where a typed word acts.
	deaf = 300 * time.Millisecond
	// calm is the pause that must come before a word that acts: text that is
	// closer to it belongs to the same paste.
	calm = 300 * time.Millisecond
)

// model is the root.
type model struct {
	c       *pages.Common
	profile term.Profile
	stack   []pages.Page
	width   int
	height  int
	notice  string
	asked   bool // q was pressed once
	shown   time.Time
	job     *job
	jobs    int // ids given out
	outcome *Outcome
	session Terminal
	// typed is when the last key of text came, and streak how many came with no
	// pause between them.
	typed  time.Time
	streak int
	// remember keeps the mode that Ctrl-T chose for the next start; nil: it is
	// not kept.
	remember func(term.Mode) error
}

// Terminal is what the root needs of the terminal it draws on.
type Terminal interface {
	// Flush throws away what was typed ahead.
	Flush()
	// Quiet says that nothing came in for that long, and nothing waits.
	Quiet(d time.Duration) bool
	// Shell is a command that gives the terminal to a shell for a while.
	Shell() tea.Cmd
}

// newModel starts with the look at the node.
func newModel(c *pages.Common, p term.Profile, width, height int, t Terminal) *model {
	m := &model{c: c, profile: p, width: width, height: height, session: t, shown: c.Now()}
	m.stack = []pages.Page{pages.NewLooking(c)}
	return m
}

// watch makes the page of a run the first one.
func (m *model) watch(run string) {
	if run != "" {
		m.stack = []pages.Page{pages.NewRunning(m.c, run, nil)}
	}
}

func (m *model) Init() tea.Cmd { return m.top().Appear() }

func (m *model) top() pages.Page { return m.stack[len(m.stack)-1] }

// Update routes: keys to the top page, messages to the page they are for.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if m.width == msg.Width && m.height == msg.Height {
			return m, nil
		}
		m.width, m.height = msg.Width, msg.Height
		return m, tea.ClearScreen
	case tea.KeyMsg:
		return m, m.key(msg)
	case interruptMsg:
		return m, m.interrupt()
	case pages.To:
		return m, m.deliver(msg)
	case pages.Notice:
		m.notice = string(msg)
		return m, nil
	case pages.Work:
		return m, m.start(msg)
	case jobDone:
		return m, m.finished(msg)
	case jobTick:
		return m, m.beat(msg)
	case pages.Quit:
		m.outcome = &Outcome{Exit: msg.Exit, Text: msg.Text}
		return m, tea.Quit
	case pages.ShellMsg:
		return m, m.session.Shell()
	case shellDone:
		m.notice = "Back from the shell."
		if msg.err != nil {
			m.notice = "The shell could not be started: " + msg.err.Error()
		}
		return m, tea.ClearScreen
	}
	return m, m.navigate(msg)
}

// navigate changes the stack.
func (m *model) navigate(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case pages.Push:
		m.stack = append(m.stack, msg.Page)
	case pages.Pop:
		if len(m.stack) > 1 {
			m.stack = m.stack[:len(m.stack)-1]
		}
	case pages.Replace:
		m.stack[len(m.stack)-1] = msg.Page
	case pages.Home:
		m.stack = []pages.Page{msg.Page}
	default:
		return m.top().Update(msg)
	}
	m.notice, m.asked, m.shown = "", false, m.c.Now()
	if _, acts := m.top().(pages.Acts); acts {
		m.session.Flush()
	}
	return m.top().Appear()
}

// deliver takes a message to its page; results are kept even when the page has
// gone, everything else ends there.
func (m *model) deliver(to pages.To) tea.Cmd {
	if r, ok := to.Msg.(interface{ Apply() }); ok {
		r.Apply()
	}
	if c, ok := to.Msg.(pages.Confirmed); ok && (m.streak > c.Keys || !m.session.Quiet(pages.Settle)) {
		to.Msg = pages.Confirmed{}
	}
	for _, p := range m.stack {
		if p == to.Page {
			return p.Update(to.Msg)
		}
	}
	return nil
}

// key handles the keys that mean the same everywhere and gives the rest to the
// page.
func (m *model) key(k tea.KeyMsg) tea.Cmd {
	top := m.top()
	if k.Type == tea.KeyRunes && len(k.Runes) > 1 && !k.Paste {
		return m.each(k)
	}
	m.count(k)
	if cmd, done := m.control(k); done {
		return cmd
	}
	_, acts := top.(pages.Acts)
	if m.c.Now().Sub(m.shown) < deaf && (acts || (pages.Means(k) == pages.Go && !top.Typing())) {
		return nil
	}
	if m.job != nil {
		if pages.Means(k) == pages.Back {
			m.job.cancel()
			m.job = nil
			m.notice = "Given up: nothing was changed."
			return top.Update(pages.Cancelled{})
		}
		return nil
	}
	if k.Paste && !top.Typing() && !acts {
		m.notice = "Pasted text does nothing here: it is taken in text fields only."
		return nil
	}
	asked := m.asked
	m.asked, m.notice = false, ""
	if !top.Typing() {
		switch pages.Means(k) {
		case pages.Help:
			return func() tea.Msg { return pages.Push{Page: pages.NewHelp(m.c, top)} }
		case pages.Shell:
			return m.session.Shell()
		case pages.Leave:
			if !pages.OwnsQuit(top) {
				return m.leave(asked)
			}
		}
	}
	return top.Update(k)
}

// count keeps how many keys of text came with no pause between them.
func (m *model) count(k tea.KeyMsg) {
	if !k.Paste && !pages.IsText(k) {
		return
	}
	now := m.c.Now()
	if now.Sub(m.typed) >= calm {
		m.streak = 0
	}
	m.typed, m.streak = now, m.streak+max(len(k.Runes), 1)
}

// each takes characters that came in one block, one by one, unless the page has
// a field for them.
func (m *model) each(k tea.KeyMsg) tea.Cmd {
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: k.Alt}))
	}
	return tea.Batch(cmds...)
}

// control handles control keys, which are never text.
func (m *model) control(k tea.KeyMsg) (tea.Cmd, bool) {
	switch pages.Means(k) {
	case pages.Redraw:
		m.notice = ""
		return tea.ClearScreen, true
	case pages.Toggle:
		return m.toggle(), true
	case pages.Stop:
		return m.interrupt(), true
	case pages.Suspend:
		m.notice = "Ctrl-Z does nothing here: a stopped program would leave the line unusable. ! opens a shell."
		return nil, true
	case pages.Help:
		if k.Type == tea.KeyF1 {
			top := m.top()
			return func() tea.Msg { return pages.Push{Page: pages.NewHelp(m.c, top)} }, true
		}
	}
	return nil, false
}

// interrupt is Ctrl-C and SIGINT: before the run it leaves, in the run it stops.
func (m *model) interrupt() tea.Cmd {
	for _, p := range m.stack {
		if i, ok := p.(pages.Interrupter); ok {
			return i.Interrupt()
		}
	}
	return m.quit()
}

// leave quits; beyond the first page it asks once.
func (m *model) leave(asked bool) tea.Cmd {
	if len(m.stack) > 1 && !asked {
		m.asked = true
		m.notice = "q once more quits. Nothing was changed on the node."
		return nil
	}
	return m.quit()
}

func (m *model) quit() tea.Cmd {
	if m.job != nil {
		m.job.cancel()
	}
	m.outcome = &Outcome{Exit: workflow.ExitStopped, Text: []string{"Nothing was changed on the node."}}
	return tea.Quit
}

// toggle changes between rich and basic.
func (m *model) toggle() tea.Cmd {
	if m.profile.Mode == term.Rich {
		m.profile.Mode, m.notice = term.Basic, "Basic screen: ASCII, no colour. Ctrl-T goes back."
	} else {
		m.profile.Mode, m.notice = term.Rich, "Rich screen. Ctrl-T goes back to the basic one."
	}
	m.c.Theme = look.New(m.profile)
	keep := m.keep(m.profile.Mode)
	if m.profile.Mode == term.Rich {
		return tea.Sequence(tea.EnterAltScreen, keep)
	}
	return tea.Sequence(tea.ExitAltScreen, tea.ClearScreen, keep)
}

// keep remembers a mode; a failure is said and changes nothing.
func (m *model) keep(mode term.Mode) tea.Cmd {
	if m.remember == nil {
		return nil
	}
	return func() tea.Msg {
		if err := m.remember(mode); err != nil {
			return pages.Notice("This holds until you quit: " + err.Error())
		}
		return nil
	}
}

// View is pure: it depends on the model alone.
func (m *model) View() string {
	top := m.top()
	w, h := look.Inner(m.width, m.height)
	s := m.c.Choices
	head := look.Head{Program: m.c.Program, Page: top.Title()}
	if s != nil {
		head.Node = s.Survey.NodeName
		head.Maint = pages.MaintWord(s.Survey.Maintenance.State)
		if len(s.Survey.Kernels) > 0 {
			head.Kernel = "kernel " + s.Survey.Kernels[0].Release
		}
		if s.Survey.Simulated {
			head.Note = "SIMULATED NODE"
		}
		if s.Survey.CatalogDate != "" {
			head.Catalog = "catalog " + s.Survey.CatalogDate
		}
	}
	return m.c.Theme.Draw(look.Frame{Head: head, Body: top.Body(w, h), Notice: m.line(), Keys: top.Keys()}, m.width, m.height)
}

// line is the notice, or what is being worked on.
func (m *model) line() string {
	if m.job != nil && m.job.visible {
		text := "Working: " + m.job.label
		if done, total := m.job.done.Load(), m.job.total.Load(); total > 0 {
			text += fmt.Sprintf(", %d%%", done*100/total)
		}
		return text + fmt.Sprintf(", %s  (Esc gives up)", look.Clock(m.job.spent))
	}
	if m.notice == "" && (m.width < term.DefaultWidth || m.height < term.DefaultHeight) {
		return m.c.Theme.Paint(look.Faint, fmt.Sprintf("(this terminal is %dx%d; 80x24 shows more)", m.width, m.height))
	}
	return look.Line(m.notice)
}

// newCommon is what pages share at the start.
func newCommon(ctx context.Context, w workflow.Wizard, o Options, theme *look.Theme) *pages.Common {
	return &pages.Common{
		Wizard: w, Theme: theme, Now: time.Now, Context: ctx, AnswersPath: o.AnswersPath,
		Begin: o.Begin, SaveDir: o.saveDir(), Program: "fitout " + o.Version, Choices: (*choice.Choices)(nil),
	}
}
