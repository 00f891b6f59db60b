package main

import (
	"context"

	"github.com/spf13/cobra"

	"fitout/workflow"
	"fitout/workflow/journal"
	"fitout/workflow/run"
)

// hiddenVerbs are what the program calls of itself, and what the OS calls.
func (a *app) hiddenVerbs() []*cobra.Command { return []*cobra.Command{a.runVerb(), a.hookVerb()} }

// runVerb is the runner: a process of its own whose only output is the journal.
func (a *app) runVerb() *cobra.Command {
	var mode string
	c := &cobra.Command{
		Use: "run RUN", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: a.reads(func(_ *cobra.Command, args []string, e *workflow.Engine) error {
			// The runner handles signals itself: a first one undoes, a second
			// one does not skip that.
			code := e.Execute(context.Background(), args[0], run.Options{Mode: journal.Mode(mode), Stderr: a.errOut})
			return exitCode(code)
		}),
	}
	c.Flags().StringVar(&mode, "mode", "", "run, resume or rollback")
	return c
}

// hookVerb is what the OS calls at boot and when it is upgraded.
func (a *app) hookVerb() *cobra.Command {
	return &cobra.Command{
		Use: "hook STAGE [ARG...]", Hidden: true, DisableFlagParsing: true,
		RunE: a.reads(func(cmd *cobra.Command, args []string, e *workflow.Engine) error {
			return e.Hook(cmd.Context(), args, a.errOut)
		}),
	}
}
