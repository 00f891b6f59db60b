package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/run"
)

// pull is how often a journal is read again.
const pull = 200 * time.Millisecond

// followRun prints a run's journal until the run ends and returns its exit code
// as an error. An interrupt asks the run to stop and undo when mine says that
// this process started it; watching alone never stops a run.
func (a *app) followRun(ctx context.Context, id string, mine bool) error {
	dir := a.engine.RunDir(id)
	r := journal.Open(dir)
	defer r.Close()
	sum := journal.NewSummary()
	p := a.progressPrinter()
	stopped := ctx.Done()
	for {
		events, err := r.Next(500)
		if err != nil {
			return err
		}
		for _, e := range events {
			sum.Add(e)
			p(e)
		}
		if sum.Ended {
			return a.ended(id, sum)
		}
		if len(events) > 0 {
			continue
		}
		if a.engine.Current() != id {
			// One more look: the end may have been written in between.
			if more, _ := r.Next(500); len(more) > 0 {
				for _, e := range more {
					sum.Add(e)
					p(e)
				}
				continue
			}
			if sum.Rebooting {
				return a.restarts(id)
			}
			return a.cutShort(id)
		}
		select {
		case <-stopped:
			if !mine {
				return exitCode(workflow.ExitStopped)
			}
			fmt.Fprintln(a.errOut, "stopping: the step under way ends or is given up, then what was done is undone")
			if err := run.Cancel(a.engine.Node, a.engine.StateDir(), id); err != nil {
				say(a.errOut, "fitout: %v\n", err)
			}
			stopped = nil
		case <-time.After(pull):
		}
	}
}

// restarts is the end of following a run that goes on after the boot.
func (a *app) restarts(id string) error {
	if a.json {
		if err := a.printJSON("Run", map[string]any{"run": id, "outcome": "rebooting", "exit": workflow.ExitNeedsReboot}); err != nil {
			return err
		}
	} else {
		a.printf("The node restarts now. Run %s goes on by itself after the boot; watch it there with: fitout attach %s\n", id, id)
	}
	return exitCode(workflow.ExitNeedsReboot)
}

func (a *app) cutShort(id string) error {
	return &workflow.Error{Exit: workflow.ExitNotUndone, Code: "run-cut-short", Message: "run " + id + " ended without finishing: its process is gone",
		Hint: "go on with: fitout apply --resume, or undo with: fitout rollback " + id}
}

// ended prints the result of a run and gives its exit code.
func (a *app) ended(id string, sum journal.Summary) error {
	code := sum.Exit
	if a.json {
		devices := sum.Devices
		if devices == nil {
			devices = []journal.DeviceResult{}
		}
		if err := a.printJSON("Run", map[string]any{"run": id, "outcome": sum.Outcome, "exit": sum.Exit, "message": sum.Message, "code": sum.Cause.Code,
			"devices": devices, "notUndone": list(sum.NotUndone)}); err != nil {
			return err
		}
	} else if a.applyOptions.progress != "json" && !a.quiet {
		a.resultText(id, sum)
	}
	if code == workflow.ExitDone && a.applyOptions.detailed {
		code = a.detailedCode()
	}
	if code == workflow.ExitDone {
		return nil
	}
	return exitCode(code)
}

func (a *app) resultText(id string, sum journal.Summary) {
	for _, d := range sum.Devices {
		a.printf("%s\n", d.Text)
	}
	a.printf("run %s: %s\n", id, sum.Outcome)
	if sum.Message != "" {
		a.printf("%s\n", sum.Message)
	}
	if e, ok := finding.Explain(finding.Code(sum.Cause.Code)); ok {
		a.printf("Cure:  %s\n", e.Cure)
		a.printf("Help:  fitout explain %s\n", e.Code)
	}
	for _, l := range sum.NotUndone {
		a.printf("  not undone: %s\n", l)
	}
	if run.CanRollback(a.engine.Node, a.engine.StateDir(), id) == nil && sum.Exit == workflow.ExitDone && sum.Outcome != journal.OutcomeRolledBack {
		a.printf("Undo:  fitout rollback %s\n", id)
	}
	a.printf("Log:   fitout logs %s\n", id)
}

// detailedCode tells apart, for --detailed-exitcode, what a plain 0 hides.
func (a *app) detailedCode() int {
	st, err := a.engine.Status(context.Background())
	if err != nil {
		return workflow.ExitDone
	}
	for _, d := range st.Drivers {
		if !d.Loaded {
			return workflow.ExitNotLoadedYet
		}
	}
	if st.RebootNeeded {
		return workflow.ExitNeedsReboot
	}
	return workflow.ExitDone
}

// progressPrinter prints events in the form that --progress asks for. Text goes
// to standard error when standard output holds a document.
func (a *app) progressPrinter() func(journal.Event) {
	w := a.out
	if a.json {
		w = a.errOut
	}
	switch a.applyOptions.progress {
	case "none":
		return func(journal.Event) {}
	case "json":
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(e journal.Event) { _ = enc.Encode(e) }
	}
	if a.quiet {
		return func(journal.Event) {}
	}
	return func(e journal.Event) {
		if line := eventLine(e, a.verbose); line != "" {
			say(w, "%s\n", line)
		}
	}
}

// eventLine is an event as one line of text; "" for those that only screens
// show.
func eventLine(e journal.Event, verbose bool) string {
	at := e.Time.Format("15:04:05")
	switch e.Event {
	case journal.StepEv:
		if e.State == journal.Prepared && !verbose {
			return ""
		}
		return fmt.Sprintf("%s [%d/%d] %-10s %-8s %s", at, e.N, e.Of, e.Step, e.State, e.Message)
	case journal.Log:
		return fmt.Sprintf("%s         %s", at, e.Message)
	case journal.Question, journal.FindingT:
		return fmt.Sprintf("%s %s: %s", at, e.Event, e.Message)
	case journal.Start:
		return fmt.Sprintf("%s run %s on kernel %s", at, e.Run, e.Kernel)
	}
	return ""
}
