package main

import (
	"context"
	"errors"
	"path"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"fitout/tui"
	"fitout/workflow"
)

// noVerb is fitout alone: headless with an answers file, the wizard on a
// terminal, else one sentence that names both ways.
func (a *app) noVerb(cmd *cobra.Command, _ []string) error {
	if a.answersFile != "" {
		return a.apply(cmd.Context(), a.answersFile)
	}
	return a.wizard(cmd.Context(), tui.Options{})
}

func (a *app) wizardVerb() *cobra.Command {
	var o tui.Options
	var file string
	c := &cobra.Command{
		Use: "wizard", Short: "The screens: choose, look at the plan, run it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if file == "-" {
				return usageError{errors.New("the wizard reads keys from the terminal: give the answers as a file, not on standard input")}
			}
			if file != "" {
				if o.Begin, err = a.readAnswers(file); err != nil {
					return err
				}
			}
			return a.wizard(cmd.Context(), o)
		},
	}
	c.Flags().StringVarP(&file, "answers-file", "a", "", "begin from this answers file: what it says is preselected, and every page still asks")
	c.Flags().BoolVar(&o.Basic, "basic", false, "plain ASCII screens without colour")
	c.Flags().BoolVar(&o.Line, "line", false, "ask line by line")
	return c
}

// terminal says that a person sits at both ends.
func (a *app) terminal() bool {
	return term.IsTerminal(int(a.out.Fd())) && (term.IsTerminal(int(a.in.Fd())) || tui.HasTTY())
}

func (a *app) wizard(ctx context.Context, o tui.Options) error {
	if !a.terminal() {
		return &workflow.Error{Exit: workflow.ExitPerson, Code: "no-terminal",
			Message: "there is no terminal: use ssh -t for the wizard, or run headless with: fitout --answers-file FILE"}
	}
	if err := a.needRoot(); err != nil {
		return err
	}
	e, err := a.open()
	if err != nil {
		return err
	}
	if o.Begin != nil {
		e.OSTag = o.Begin.OSTag
	}
	return a.screens(ctx, e, o)
}

func (a *app) screens(ctx context.Context, e *workflow.Engine, o tui.Options) error {
	o.In, o.Out, o.NoColor, o.Version = a.in, a.out, a.noColor, version
	o.AnswersPath = e.Node.Path(path.Join(e.StateDir(), "answers.yaml"))
	out, err := tui.Run(ctx, e, o)
	if err != nil {
		return err
	}
	return exitCode(out.Exit)
}
