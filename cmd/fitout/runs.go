package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fitout/workflow"
	"fitout/workflow/journal"
	"fitout/workflow/run"
)

func (a *app) readVerbs() []*cobra.Command {
	return []*cobra.Command{a.devicesVerb(), a.deviceVerb(), a.imagesVerb(), a.whyVerb(), a.imageVerb(),
		a.statusVerb(), a.needsRebootVerb(), a.checkVerb(), a.historyVerb(), a.logsVerb(), a.attachVerb(), a.bundleVerb()}
}

func (a *app) statusVerb() *cobra.Command {
	var exit bool
	c := &cobra.Command{
		Use: "status", Short: "What is loaded, kept and pending: measured, not remembered", Args: cobra.NoArgs,
		RunE: a.reads(func(cmd *cobra.Command, _ []string, e *workflow.Engine) error {
			st, err := e.Status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON("Status", st)
			} else {
				a.lines(a.out, st.Text())
			}
			if err == nil && exit && st.Drifted() {
				return exitCode(workflow.ExitDrift)
			}
			return err
		}),
	}
	c.Flags().BoolVar(&exit, "exit-code", false, "end with 20 when the node is not as recorded")
	return c
}

func (a *app) needsRebootVerb() *cobra.Command {
	return &cobra.Command{
		Use: "needs-reboot", Short: "Say whether a reboot is needed, and why (exit 0 yes, 20 no)", Args: cobra.NoArgs,
		RunE: a.reads(func(cmd *cobra.Command, _ []string, e *workflow.Engine) error {
			st, err := e.Status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON("NeedsReboot", map[string]any{"needed": st.RebootNeeded, "reasons": list(st.Why)}); err != nil {
					return err
				}
			} else if st.RebootNeeded {
				a.lines(a.out, st.Why)
			} else {
				a.printf("No reboot is needed.\n")
			}
			if !st.RebootNeeded {
				return exitCode(workflow.ExitDrift)
			}
			return nil
		}),
	}
}

func (a *app) historyVerb() *cobra.Command {
	return &cobra.Command{
		Use: "history [RUN]", Short: "List past runs, or the steps of one", Args: cobra.MaximumNArgs(1),
		RunE: a.reads(func(_ *cobra.Command, args []string, e *workflow.Engine) error {
			if len(args) == 1 {
				return a.showRun(args[0])
			}
			runs, err := run.List(e.Node, e.StateDir())
			if err != nil {
				return err
			}
			if a.json {
				items := []map[string]any{}
				for _, r := range runs {
					items = append(items, historyItem(r))
				}
				return a.printJSON("History", map[string]any{"items": items})
			}
			for _, r := range runs {
				h := historyItem(r)
				began := "                "
				if !r.Summary.Began.IsZero() {
					began = r.Summary.Began.Format("2006-01-02 15:04")
				}
				a.printf("%s  %-20s %s  %s\n", r.ID, h["outcome"], began, strings.Join(h["drivers"].([]string), " "))
			}
			if len(runs) == 0 {
				a.printf("There was no run on this node.\n")
			}
			return nil
		}),
	}
}

// historyItem is a past run as --json prints it.
func historyItem(r run.Listed) map[string]any {
	drivers := []string{}
	for _, d := range r.Drivers {
		drivers = append(drivers, strings.TrimSpace(d.Name+" "+d.Version))
	}
	outcome := string(r.Summary.Outcome)
	switch {
	case r.InProgress:
		outcome = "in-progress"
	case r.Damaged != "":
		outcome = "damaged"
	case r.Broken:
		outcome = "cut-short"
	}
	return map[string]any{"run": r.ID, "outcome": outcome, "exit": r.Summary.Exit, "drivers": drivers, "began": r.Summary.Began, "inEffect": r.InEffect}
}

func (a *app) showRun(id string) error {
	events, err := a.events(id)
	if err != nil {
		return err
	}
	sum := journal.Summarise(events)
	if a.json {
		return a.printJSON("Run", map[string]any{"run": id, "outcome": sum.Outcome, "exit": sum.Exit, "message": sum.Message, "steps": sum.Steps, "devices": sum.Devices})
	}
	for _, s := range sum.Steps {
		a.printf("%2d  %-10s %-10s %s  %s\n", s.N, s.ID, s.State, s.Title, s.Message)
	}
	a.resultText(id, sum)
	return nil
}

func (a *app) events(id string) ([]journal.Event, error) {
	if err := a.knownRun(id); err != nil {
		return nil, err
	}
	return journal.Read(a.engine.RunDir(id))
}

// knownRun says that a run of that id is not on this node.
func (a *app) knownRun(id string) error {
	runs, err := run.List(a.engine.Node, a.engine.StateDir())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(runs, func(r run.Listed) bool { return r.ID == id }) {
		return &workflow.Error{Exit: workflow.ExitNoMatch, Code: "no-run", Message: "there is no run " + id + " on this node", Hint: "see: fitout history"}
	}
	return nil
}

// latest is the run in progress, or the last one.
func (a *app) latest(args []string) (string, error) {
	e, err := a.open()
	if err != nil {
		return "", err
	}
	if len(args) == 1 {
		return args[0], a.knownRun(args[0])
	}
	if id := e.Current(); id != "" {
		return id, nil
	}
	runs, err := run.List(e.Node, e.StateDir())
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		return "", &workflow.Error{Exit: workflow.ExitNoMatch, Code: "no-run", Message: "there was no run on this node"}
	}
	return runs[len(runs)-1].ID, nil
}

func (a *app) logsVerb() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "logs [RUN]", Short: "Print the log of a run (the newest, when none is named)", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.latest(args)
			if err != nil {
				return err
			}
			if follow {
				a.applyOptions.progress = "plain"
				return a.followRun(cmd.Context(), id, false)
			}
			events, err := a.events(id)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON("Log", map[string]any{"run": id, "items": events})
			}
			for _, ev := range events {
				if line := eventLine(ev, true); line != "" {
					a.printf("%s\n", line)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	return c
}

func (a *app) attachVerb() *cobra.Command {
	return &cobra.Command{
		Use: "attach [RUN]", Short: "Watch the run in progress from its beginning", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.latest(args)
			if err != nil {
				return err
			}
			a.applyOptions.progress = "plain"
			return a.followRun(cmd.Context(), id, false)
		},
	}
}

func (a *app) cancelVerb() *cobra.Command {
	return &cobra.Command{
		Use: "cancel [RUN]", Short: "Stop the run in progress and undo what it did", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.latest(args)
			if err != nil {
				return err
			}
			if a.engine.Current() != id {
				return &workflow.Error{Exit: workflow.ExitNoMatch, Code: "no-run", Message: fmt.Sprintf("run %s is not in progress", id)}
			}
			if err := run.Cancel(a.engine.Node, a.engine.StateDir(), id); err != nil {
				return err
			}
			a.applyOptions.progress = "plain"
			return a.followRun(cmd.Context(), id, false)
		},
	}
}
