// Package pages holds the wizard's screens, one file a screen. A page is a
// small model: it owns its keys, its help and its view; the root model owns the
// stack, the frame and the terminal. Views are pure: they depend on the page and
// the shared Common alone, and all work with the engine is a command.
package pages

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	_ "fitout/tui/term/guard" // before Bubble Tea asks the terminal

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/run"
)

// Page is one screen.
type Page interface {
	// Appear is called when the page comes to the top, also on coming back.
	Appear() tea.Cmd
	// Update takes keys and the messages addressed to the page.
	Update(msg tea.Msg) tea.Cmd
	// Body is at most h lines of at most w cells.
	Body(w, h int) []string
	// Title is the page's place and name ("1/7 Hardware").
	Title() string
	Keys() []look.Key
	// Help says what the page is for, a paragraph a string.
	Help() []string
	// Typing says that letters go into a text field.
	Typing() bool
}

// Acts is implemented by pages on which a typed word changes the node: what was
// typed ahead is thrown away when they appear.
type Acts interface{ Acts() }

// Interrupter is implemented by pages on which Ctrl-C does not leave.
type Interrupter interface{ Interrupt() tea.Cmd }

// Common is what all pages share.
type Common struct {
	Wizard  workflow.Wizard
	Choices *choice.Choices
	Theme   *look.Theme
	Now     func() time.Time
	// Timer makes messages that come later; nil: tea.Tick.
	Timer   func(d time.Duration, m tea.Msg) tea.Cmd
	Context context.Context
	// AnswersPath is where the answers are saved when a run starts.
	AnswersPath string
	// SaveDir is where texts are saved when no other path is typed.
	SaveDir string
	// Begin is the answers file that the choices begin from, nil for none.
	Begin *answers.Answers
	// Program is "fitout 0.1.0".
	Program string
	// Run is the run that was started or watched, "" for none.
	Run string
	// Saved is where the answers were saved; SaveNote why they were not.
	Saved, SaveNote string

	drafts map[string]*Draft // what was typed for other images, by kind
}

// Basic says that frames are dear.
func (c *Common) Basic() bool { return !c.Theme.Rich }

// Messages of pages to the root model.
type (
	// Push puts a page on the stack, Pop takes the top one off, Replace swaps it.
	Push    struct{ Page Page }
	Pop     struct{}
	Replace struct{ Page Page }
	// Home leaves the first page alone on the stack, or makes Page the first.
	Home struct{ Page Page }
	// Notice is one line for the operator.
	Notice string
	// Quit ends the wizard with an exit code and lines for the scrollback.
	Quit struct {
		Exit int
		Text []string
	}
	// To carries a message to one page, wherever it is on the stack.
	To struct {
		Page Page
		Msg  tea.Msg
	}
	// Work starts a job that the operator waits for. It is shown as busy after
	// 0.1 s; Esc gives it up.
	Work struct {
		Label string
		Do    func(ctx context.Context, p image.Progress) tea.Msg
	}
)

// send makes a command of a message.
func send(m tea.Msg) tea.Cmd { return func() tea.Msg { return m } }

// notice is a command that shows one line.
func notice(text string) tea.Cmd { return send(Notice(text)) }

// work is a command that starts a job; its message comes to the page on top.
func work(label string, do func(ctx context.Context, p image.Progress) tea.Msg) tea.Cmd {
	return send(Work{Label: label, Do: do})
}

// After is a command whose message comes after a while.
func (c *Common) After(d time.Duration, m tea.Msg) tea.Cmd {
	if c.Timer != nil {
		return c.Timer(d, m)
	}
	return tea.Tick(d, func(time.Time) tea.Msg { return m })
}

// later addresses a message to a page after a while.
func (c *Common) later(p Page, d time.Duration, m tea.Msg) tea.Cmd { return c.After(d, To{p, m}) }

// The extras are what an engine may offer beyond workflow.Wizard. A page whose
// extra is missing names the command that does the same.
type (
	// Resumer goes on with a run that was cut short, or undoes one; the run's
	// journal tells how it goes.
	Resumer interface {
		Resume(ctx context.Context, run string) error
		Rollback(ctx context.Context, run string) error
		// RollbackText says what undoing would do, one a line.
		RollbackText(ctx context.Context, run string) ([]string, error)
	}
	// Canceller asks a run to stop after its step.
	Canceller interface {
		Cancel(ctx context.Context, run string) error
	}
	// Bundler writes a support archive, secrets left out, and returns its path.
	Bundler interface {
		Bundle(ctx context.Context, run string) (string, error)
	}
	// Historian lists past runs, the oldest first.
	Historian interface {
		History(ctx context.Context) ([]run.Listed, error)
	}
	// KernelLogger returns the kernel's lines about a device.
	KernelLogger interface {
		KernelLog(ctx context.Context, address string) ([]string, error)
	}
	// Forgetter takes an image that was only read out of the store again.
	Forgetter interface {
		Forget(x *workflow.Examined) error
	}
	// Registrar keeps registry credentials in a file and returns its path: a
	// volatile one unless keep is set.
	Registrar interface {
		Login(ctx context.Context, reference, user string, password []byte, keep bool) (string, error)
	}
)

// New makes the page for a question.
func New(c *Common, q choice.Question) Page {
	switch q.Asked {
	case choice.Maintenance:
		return NewMaintenance(c, true)
	case choice.Image:
		return NewImages(c, q)
	case choice.Licence:
		return NewLicence(c, q)
	case choice.When:
		return NewWhen(c, q)
	case choice.Plan:
		return NewPlanning(c)
	}
	return NewHardware(c)
}

// next goes on to the question after q.
func next(c *Common, q choice.Question) tea.Cmd {
	return send(Push{New(c, c.Choices.Next(q))})
}

// errCancelled is the reason when the operator gave a job up.
var errCancelled = errors.New("it was given up")

// OwnsQuit says that q means something of its own on a page.
func OwnsQuit(p Page) bool {
	switch p.(type) {
	case *Running, *Result, *Failure, *InProgress:
		return true
	}
	return false
}
