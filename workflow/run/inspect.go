package run

import (
	"context"
	"fmt"
	"path"
	"time"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// measureLimit bounds each measurement of an inspection.
const measureLimit = 10 * time.Second

// StepFact is a step as the journal has it and as the node has it now.
type StepFact struct {
	ID, Title string
	// Journal is what was written last.
	Journal journal.State
	// Now is whether it is in place, as measured; Unknown says why that could
	// not be measured.
	Now     bool
	Unknown string
	// Volatile: it was done, and is gone since a reboot.
	Volatile bool
	// Undoable: there is something on record to undo.
	Undoable bool
	// Text is the sentence.
	Text string
}

// Inspection is a run's journal, read against the node.
type Inspection struct {
	Run     string
	Summary journal.Summary
	// SameBoot: the node was not rebooted since the run's last start.
	SameBoot bool
	Steps    []StepFact
	// Next is the index of the first step that is not in place, -1 when all
	// are: where a resumed run goes on.
	Next int
}

// Inspect says what of a run is done, what was volatile and is gone, and where
// it would go on. dir is its node path. It changes nothing.
func Inspect(ctx context.Context, n *hostops.Node, dir string, kinds plan.Kinds) (*Inspection, error) {
	events, err := journal.Read(n.Path(dir))
	if err != nil {
		return nil, err
	}
	p, err := plan.Load(n, dir, kinds)
	if err != nil {
		return nil, err
	}
	in := &Inspection{Run: path.Base(dir), Summary: journal.Summarise(events), Next: -1}
	in.SameBoot = in.Summary.BootID != "" && in.Summary.BootID == bootID(n)
	actions, err := restore(p, in.Summary, kinds)
	if err != nil {
		return nil, err
	}
	for i, a := range actions {
		f := StepFact{ID: p.Steps[i].ID, Title: a.Describe().Title, Journal: journal.Pending}
		if i < len(in.Summary.Steps) {
			f.Journal = in.Summary.Steps[i].State
			f.Undoable = in.Summary.Steps[i].Action != nil
		}
		f.measure(ctx, n, a)
		f.judge(in.SameBoot)
		if !f.Now && in.Next < 0 {
			in.Next = i
		}
		in.Steps = append(in.Steps, f)
	}
	return in, nil
}

func (f *StepFact) measure(ctx context.Context, n *hostops.Node, a hostops.Action) {
	answer := make(chan bool, 1)
	err := call(ctx, measureLimit, time.Second, nil, func(ctx context.Context) error {
		ok, err := a.Done(ctx, n)
		answer <- ok
		return err
	})
	if err != nil {
		f.Unknown = err.Error()
		return
	}
	f.Now = <-answer
}

// judge finds the sentence.
func (f *StepFact) judge(sameBoot bool) {
	was := f.Journal == journal.OK || f.Journal == journal.Skipped
	cut := f.Journal == journal.Prepared || f.Journal == journal.Running || f.Journal == journal.Failed
	f.Volatile = was && !f.Now && f.Unknown == "" && !sameBoot
	switch {
	case f.Unknown != "":
		f.Text = "whether it is in place could not be measured: " + f.Unknown
	case f.Journal == journal.Undoing || f.Journal == journal.UndoFail:
		f.Text = "was being undone"
	case f.Now && was:
		f.Text = "done"
	case f.Now && cut:
		f.Text = "was cut short while it was written down; it is in place"
	case f.Now:
		f.Text = "not begun; it is in place already"
	case f.Volatile:
		f.Text = "was done, and is gone since the reboot"
	case was:
		f.Text = "was done, and is no longer in place: something else took it away"
	case cut && f.Undoable:
		f.Text = "was cut short in the middle; it is not in place"
	case f.Journal == journal.Undone:
		f.Text = "undone"
	default:
		f.Text = "not done"
	}
}

// Lines is the inspection for reading.
func (in *Inspection) Lines() []string {
	out := make([]string, 0, len(in.Steps))
	for i, s := range in.Steps {
		out = append(out, fmt.Sprintf("%2d %-10s %s: %s", i+1, s.ID, s.Title, s.Text))
	}
	return out
}
