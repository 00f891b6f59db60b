package tui

import (
	"context"
	"fmt"
	"os"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/internal/fake"
	"fitout/tui/term"
	"fitout/workflow"
)

// runChild is the program that tests start on a pty: this test binary, started
// again with a mode in its environment.
func runChild(mode string) int {
	engine := fake.New(os.Getenv("FITOUT_TEST_DIR"))
	o := Options{Version: "0.1.0", AnswersPath: engine.Dir + "/answers.yaml", Direct: true, Shell: "/bin/sh"}
	var w workflow.Wizard = engine
	switch mode {
	case "version": // what a verb that draws nothing costs
		fmt.Println("fitout 0.1.0")
		return 0
	case "keys":
		return countKeys()
	case "supervised":
		o.Direct = false
	case "goroutine": // a panic nobody can catch, under the supervisor
		o.Direct = false
		w = panics{Engine: engine, raw: true}
	case "command": // a panic in a command
		w = panics{Engine: engine}
	case "many":
		engine.Many(300)
	case "line":
		o.Line = true
	case "stays": // a run that does not end
		engine.Play = fake.Vanish
	}
	out, err := Run(context.Background(), w, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fitout:", err)
	}
	return out.Exit
}

// panics is an engine with a bug.
type panics struct {
	*fake.Engine
	raw bool
}

func (p panics) Examine(ctx context.Context, s *workflow.Survey, k workflow.Kind, o workflow.Offer, _ image.Progress) (*workflow.Examined, error) {
	if p.raw {
		go func() { panic("a bug in a goroutine") }()
		select {}
	}
	panic("a bug in a command")
}

// counter counts what keys a terminal reader makes of bytes.
type counter struct{ down, other int }

func (c *counter) Init() tea.Cmd { return nil }
func (c *counter) View() string  { return fmt.Sprintf("down %d other %d", c.down, c.other) }
func (c *counter) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if k, ok := msg.(tea.KeyMsg); ok {
		switch k.String() {
		case "down":
			c.down++
		case "q":
			return c, tea.Quit
		default:
			c.other++
		}
	}
	return c, nil
}

func countKeys() int {
	c := &counter{}
	session, ctx := term.Begin(context.Background(), os.Stdin, os.Stdout, nil)
	_, err := tea.NewProgram(c, tea.WithContext(ctx), tea.WithInput(term.NewReader(os.Stdin)), tea.WithOutput(session.Out), tea.WithoutSignalHandler()).Run()
	session.End()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("\r\ntotal down %d other %d\r\n", c.down, c.other)
	return 0
}
