package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/line"
	"fitout/tui/look"
	"fitout/tui/term"
	_ "fitout/tui/term/guard" // before Bubble Tea asks the terminal
	"fitout/workflow"
	"fitout/workflow/answers"
)

// Options say how the wizard is started.
type Options struct {
	// Basic, Line and NoColor force a profile (--basic, --line, --no-color).
	Basic, Line, NoColor bool
	// In and Out are the terminal; nil: standard input and output. When In is
	// no terminal, keys are read from /dev/tty.
	In, Out *os.File
	// Version of the program.
	Version string
	// AnswersPath is where the answers are saved when a run starts.
	AnswersPath string
	// Shell is what ! opens; "": the operator's own.
	Shell string
	// Begin is the answers file that the choices begin from, nil for none.
	Begin *answers.Answers
	// Watch is a run to follow instead of asking anything.
	Watch string
	// Direct draws in this process. Otherwise the screen runs in a child, and
	// this process gives the terminal back even when that is killed.
	Direct bool
	// Notes takes stacks of panics and of SIGQUIT; nil: standard error.
	Notes func(text string)
}

// saveDir is where texts are saved when no other path is typed.
func (o Options) saveDir() string {
	if o.AnswersPath == "" {
		return "."
	}
	return filepath.Dir(o.AnswersPath)
}

// screens is the file that remembers which kind of screen was chosen where.
func (o Options) screens() string { return filepath.Join(o.saveDir(), "screens.json") }

// HasTTY says that keys can be read from a controlling terminal although
// standard input is none.
func HasTTY() bool {
	tty, opened, err := term.Input(nil)
	if opened {
		tty.Close()
	}
	return err == nil
}

// Outcome is how the wizard ended.
type Outcome struct {
	// Exit is the exit code of the process.
	Exit int
	// Run is the id of the run that was started or watched, "" for none.
	Run string
	// Text is the result as plain lines; it has been printed.
	Text []string
}

// Run asks the questions on the terminal at hand, on a screen or line by line,
// and follows the run. It always gives the terminal back, and prints the result
// once more as plain lines for the scrollback.
func Run(ctx context.Context, w workflow.Wizard, o Options) (Outcome, error) {
	if o.In == nil {
		o.In = os.Stdin
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	in, opened, err := term.Input(o.In)
	if err != nil || !term.IsTerminal(o.Out) {
		return Outcome{Exit: workflow.ExitPerson}, term.ErrNoTerminal
	}
	if opened {
		defer in.Close()
	}
	width, height, known := term.Size(o.Out, os.Getenv)
	tty := term.Name(o.Out)
	facts := term.Facts{TTY: tty, Env: os.Getenv, Width: width, Height: height, WantBasic: o.Basic, WantLine: o.Line, NoColor: o.NoColor}
	place := term.Place(tty, os.Getenv("TERM"))
	facts.Chosen = term.Recall(o.screens(), place)
	if term.IsSerial(tty) {
		facts.Speed = term.Speed(in)
	}
	profile := term.Detect(facts)
	if profile.Mode == term.Line {
		out, err := line.Run(ctx, w, line.Options{In: in, Out: o.Out, Reason: profile.Reason, Version: o.Version, AnswersPath: o.AnswersPath, Begin: o.Begin, Watch: o.Watch})
		return Outcome{Exit: out.Exit, Run: out.Run}, err
	}
	if !o.Direct && !term.Supervised() {
		exit, err := term.Supervise(in, o.Out)
		return Outcome{Exit: exit}, err
	}
	return screen(ctx, w, o, in, place, profile, width, height, known)
}

// screen runs the wizard on a screen.
func screen(ctx context.Context, w workflow.Wizard, o Options, in *os.File, place string, profile term.Profile, width, height int, known bool) (Outcome, error) {
	var program *tea.Program
	session, ctx := term.Begin(ctx, in, o.Out, func() {
		if program != nil {
			go program.Send(interruptMsg{})
		}
	})
	session.Notes = o.Notes
	reader := term.NewReader(in)
	reader.Hangup = session.Hangup
	m := newModel(newCommon(ctx, w, o, look.New(profile)), profile, width, height, &terminal{session: session, in: in, reader: reader, out: o.Out, shell: o.shell()})
	m.watch(o.Watch)
	m.remember = func(mode term.Mode) error { return term.Remember(o.screens(), place, mode) }
	if !known {
		reader.Cursor = func(row, col int) { go program.Send(tea.WindowSizeMsg{Width: col, Height: row}) }
	}
	program = tea.NewProgram(m, programOptions(ctx, profile, reader, session.Out, width, height)...)
	if profile.Mode == term.Basic {
		_, _ = session.Out.WriteString("\x1b[2J\x1b[H")
	}
	if !known {
		session.Go(func() { askSize(ctx, session.Out) })
	}
	_, err := program.Run()
	cause := session.End()
	out := m.result()
	if m.outcome == nil || cause != (term.Cause{}) {
		out = ended(cause, err, out.Run)
	}
	printPlain(session.Out, profile, out.Text)
	return out, failure(cause, err)
}

// frames is how often a second the screen may be drawn at most.
const (
	framesBasic = 20
	framesRich  = 30
)

func programOptions(ctx context.Context, p term.Profile, in *term.Reader, out *term.Writer, width, height int) []tea.ProgramOption {
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithFilter(term.SizeFilter(width, height)),
	}
	if p.Mode == term.Rich {
		return append(opts, tea.WithAltScreen(), tea.WithFPS(framesRich))
	}
	// A plain terminal may not know how to mark a paste.
	return append(opts, tea.WithoutBracketedPaste(), tea.WithFPS(framesBasic))
}

// askSize asks a terminal whose size is unknown, once, after the first frame:
// the cursor is sent far away and asked where it came to rest. An answer comes
// as a key sequence; no answer is waited for.
func askSize(ctx context.Context, out *term.Writer) {
	select {
	case <-time.After(300 * time.Millisecond):
		_, _ = out.WriteString("\x1b7\x1b[999;999H\x1b[6n\x1b8")
	case <-ctx.Done():
	}
}

// interruptMsg is SIGINT.
type interruptMsg struct{}

// result is what the model ended with.
func (m *model) result() Outcome {
	out := Outcome{Exit: workflow.ExitStopped}
	if m.outcome != nil {
		out = *m.outcome
	}
	out.Run = m.c.Run
	return out
}

// ended is the outcome of a screen that did not end by itself.
func ended(cause term.Cause, err error, run string) Outcome {
	out := Outcome{Exit: cause.Exit(), Run: run}
	if out.Exit < 0 {
		out.Exit = workflow.ExitBug
		if err == nil || errors.Is(err, context.Canceled) {
			out.Exit = workflow.ExitStopped
		}
	}
	switch {
	case run != "":
		out.Text = []string{"The screen was ended. The run " + run + " goes on; come back with:  fitout attach " + run}
	default:
		out.Text = []string{"The screen was ended. Nothing was changed on the node."}
	}
	return out
}

// failure is an error for ends that are a bug; signals are no errors.
func failure(cause term.Cause, err error) error {
	switch {
	case cause.Panic != "":
		return fmt.Errorf("the screen stopped because of a bug: %s", cause.Panic)
	case cause.Signal != 0, err == nil, errors.Is(err, context.Canceled):
		return nil
	}
	return fmt.Errorf("drawing the screen: %w", err)
}

// printPlain prints lines below the last frame, for the scrollback and for a
// serial logger's file. A terminal that does not read is not waited for.
func printPlain(out *term.Writer, p term.Profile, text []string) {
	if len(text) == 0 || out.Stuck() {
		return
	}
	all := "\n" + strings.Join(text, "\n") + "\n"
	if p.Mode != term.Rich {
		all = look.ASCII(all)
	}
	_, _ = out.WriteString(all)
}

// shell is the shell that ! opens.
func (o Options) shell() string {
	if o.Shell != "" {
		return o.Shell
	}
	return term.ShellPath(os.Getenv)
}

// terminal is the terminal as the root model needs it.
type terminal struct {
	session *term.Session
	reader  *term.Reader
	in, out *os.File
	shell   string
}

func (t *terminal) Flush() { term.Flush(t.in) }

func (t *terminal) Quiet(d time.Duration) bool { return t.reader.Quiet(d) }

// shellDone is the return from a shell.
type shellDone struct{ err error }

func (t *terminal) Shell() tea.Cmd {
	sh := &term.Shell{Path: t.shell, TTY: t.in, Out: t.out, Modes: t.session.Modes(),
		Before: "\r\nThis is a shell on the node; exit comes back to fitout.\r\n"}
	return tea.Exec(sh, func(err error) tea.Msg { return shellDone{err} })
}
