package fake

import (
	"fmt"
	"time"

	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// titles are the steps as a start event names them.
func titles(p *plan.Plan) []journal.StepTitle {
	var list []journal.StepTitle
	for _, s := range p.Steps {
		list = append(list, journal.StepTitle{ID: s.ID, Title: s.Action.Describe().Title})
	}
	return list
}

// begin writes a start event; step one step's state.
func begin(w *journal.Writer, p *plan.Plan) {
	_ = w.Append(journal.Event{Event: journal.Start, Run: "2026-1130-01", Mode: journal.ModeRun, Of: len(p.Steps), Steps: titles(p), Kernel: Running})
}

func step(w *journal.Writer, p *plan.Plan, i int, s journal.State, message string) {
	_ = w.Append(journal.Event{Event: journal.StepEv, Step: p.Steps[i].ID, N: i + 1, Of: len(p.Steps), State: s, Message: message})
}

// Succeed writes a run that ends well.
func Succeed(w *journal.Writer, p *plan.Plan) { Paced(0, 0)(w, p) }

// Paced writes a run whose steps each take a while and log so many lines a
// second.
func Paced(each time.Duration, linesPerSecond int) func(*journal.Writer, *plan.Plan) {
	return func(w *journal.Writer, p *plan.Plan) {
		begin(w, p)
		for i := range p.Steps {
			step(w, p, i, journal.Running, "")
			end := time.Now().Add(each)
			for n := 0; time.Now().Before(end); n++ {
				_ = w.Append(journal.Event{Event: journal.Log, Step: p.Steps[i].ID, N: i + 1,
					Message: fmt.Sprintf("line %d of step %d: depmod and modprobe say something of about this length", n, i+1)})
				_ = w.Append(journal.Event{Event: journal.Progress, Step: p.Steps[i].ID, N: i + 1, Done: int64(n), Total: 1000})
				time.Sleep(time.Second / time.Duration(max(linesPerSecond, 1)))
			}
			_ = w.Append(journal.Event{Event: journal.Log, Step: p.Steps[i].ID, N: i + 1, Message: "modprobe " + p.Steps[i].ID})
			step(w, p, i, journal.OK, "")
		}
		yes := true
		for _, address := range []string{"0000:17:00.0", "0000:18:00.0"} {
			_ = w.Append(journal.Event{Event: journal.Result, Device: &journal.DeviceResult{Address: address, Name: "NVIDIA H100", OK: true, Driver: "nvidia",
				Want: "nvidia", Version: "580.65.06", SrcversionMatches: &yes, Text: "bound to nvidia 580.65.06, the staged module; kernel log clean for 5 s"}})
		}
		_ = w.Append(journal.Event{Event: journal.Done, Outcome: journal.OutcomeDone})
	}
}

// FailAt writes a run in which step n (from 1) fails and everything before it is
// undone, or is not.
func FailAt(n int, undone bool) func(*journal.Writer, *plan.Plan) {
	return func(w *journal.Writer, p *plan.Plan) {
		begin(w, p)
		for i := 0; i < n-1 && i < len(p.Steps); i++ {
			step(w, p, i, journal.Running, "")
			step(w, p, i, journal.OK, "")
		}
		i := min(n, len(p.Steps)) - 1
		step(w, p, i, journal.Running, "")
		_ = w.Append(journal.Event{Event: journal.Log, Message: "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\x1b[31m\ttab"})
		_ = w.Append(journal.Event{Event: journal.StepEv, Step: p.Steps[i].ID, N: i + 1, Of: len(p.Steps), State: journal.Failed, Code: "key-not-enrolled",
			Message: "loading nvidia: the kernel refused it (EKEYREJECTED): signed by \"Acme CA\", which is in no kernel keyring"})
		if undone {
			for ; i >= 0; i-- {
				step(w, p, i, journal.Undone, "")
			}
			_ = w.Append(journal.Event{Event: journal.Done, Outcome: journal.OutcomeUndone, Exit: 7, Message: "step " + fmt.Sprint(n) + " failed"})
			return
		}
		_ = w.Append(journal.Event{Event: journal.Done, Outcome: journal.OutcomeNotUndone, Exit: 8, NotUndone: []string{"0000:17:00.0 is not bound to nouveau again: ENODEV"}})
	}
}

// EndAs writes a run that ends with an outcome nobody knows.
func EndAs(outcome journal.Outcome, exit int) func(*journal.Writer, *plan.Plan) {
	return func(w *journal.Writer, p *plan.Plan) {
		begin(w, p)
		_ = w.Append(journal.Event{Event: journal.Done, Outcome: outcome, Exit: exit})
	}
}

// Vanish writes the beginning of a run and no end.
func Vanish(w *journal.Writer, p *plan.Plan) {
	begin(w, p)
	step(w, p, 0, journal.Running, "")
	_ = w.Append(journal.Event{Event: journal.Progress, Step: p.Steps[0].ID, N: 1, Done: 270_000_000, Total: 412_000_000})
	for i := 0; i < 12; i++ {
		_ = w.Append(journal.Event{Event: journal.Log, Step: p.Steps[0].ID, N: 1, Message: fmt.Sprintf("layer %d of 12 verified", i+1)})
	}
}
