package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"fitout/hostops"
	"fitout/workflow/journal"
)

// run does what is not done yet, and undoes everything when something fails that
// the change hangs on.
func (r *runner) run(ctx context.Context) int {
	said := fmt.Sprintf("all %d steps are done", len(r.actions))
	for i := range r.actions {
		if why, timeout := r.stop.why(); why != "" {
			return r.stopped(ctx, why, timeout)
		}
		err := r.step(ctx, i)
		if err == nil {
			continue
		}
		if errors.Is(err, errHung) {
			return r.hung(i, err)
		}
		if errors.Is(err, errRestarting) {
			return exitRestarts
		}
		why, timeout := r.stop.why()
		if after, ok := r.actions[i].(hostops.Aftercare); ok && (why == "" || timeout) {
			_ = r.state(i, journal.Failed, err.Error(), codeOf(err), nil)
			said = "the driver is in use, but " + r.plan.Steps[i].ID + " failed: " + err.Error() + "; " + after.ByHand()
			continue
		}
		if why != "" {
			_ = r.state(i, journal.Failed, "given up: "+err.Error(), codeOf(err), nil)
			return r.stopped(ctx, why, timeout)
		}
		_ = r.state(i, journal.Failed, err.Error(), codeOf(err), nil)
		return r.failed(ctx, i, err)
	}
	return r.end(journal.OutcomeDone, exitDone, said, nil)
}

// step brings one step about. errHung (wrapped) when it does not come back.
func (r *runner) step(ctx context.Context, i int) error {
	a := r.actions[i]
	d := a.Describe()
	if err := r.state(i, journal.Running, d.Title, "", nil); err != nil {
		return err
	}
	limit := d.Limit
	if limit <= 0 {
		limit = r.o.StepLimit
	}
	prepared := i < len(r.sum.Steps) && r.sum.Steps[i].Action != nil
	done, err := r.done(ctx, a, limit)
	switch {
	case err != nil:
		return fmt.Errorf("measuring whether it is done: %w", err)
	case done && prepared:
		// Resumed: it was cut after the change and before that was written.
		return r.state(i, journal.OK, "done already, before the interruption", "", nil)
	case done:
		return r.state(i, journal.Skipped, "nothing to do", "", nil)
	}
	// What was measured before an interruption is the state to come back to;
	// measuring again would take the half-made change for it.
	if !prepared {
		if err := r.prepare(ctx, i, a, limit); err != nil {
			return err
		}
	}
	return r.do(ctx, i, a, limit)
}

func (r *runner) done(ctx context.Context, a hostops.Action, limit time.Duration) (bool, error) {
	// The answer is read only when the call came back.
	answer := make(chan bool, 1)
	err := call(ctx, limit, r.o.Grace, r.stop.asked, func(ctx context.Context) error {
		ok, err := a.Done(ctx, r.n)
		answer <- ok
		return err
	})
	if err != nil {
		return false, err
	}
	return <-answer, nil
}

// prepare measures and writes down what undoing needs.
func (r *runner) prepare(ctx context.Context, i int, a hostops.Action, limit time.Duration) error {
	err := call(ctx, limit, r.o.Grace, r.stop.asked, func(ctx context.Context) error { return a.Prepare(ctx, r.n) })
	if err != nil {
		return fmt.Errorf("measuring what undoing it needs: %w", err)
	}
	if why, _ := r.stop.why(); why != "" {
		return errors.New("the run is to stop")
	}
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("writing down what undoing it needs: %w", err)
	}
	if err := r.state(i, journal.Prepared, "", "", data); err != nil {
		// Nothing was changed, and nothing is on record: not to be undone.
		r.sum.Steps[i].Action = nil
		return fmt.Errorf("writing down what undoing it needs: %w", err)
	}
	return nil
}

// do makes the change and measures it.
func (r *runner) do(ctx context.Context, i int, a hostops.Action, limit time.Duration) error {
	var err error
	if b, ok := a.(*Reboot); ok && !b.restarted(r.n) {
		err = r.restart(ctx, i, limit)
	} else {
		out := &sink{w: r.w, step: r.plan.Steps[i].ID, n: i + 1}
		err = givenUp(call(ctx, limit, r.o.Grace, r.stop.asked, func(ctx context.Context) error { return a.Do(ctx, r.n, out) }))
		out.shut.Store(true)
	}
	if errors.Is(err, errHung) || errors.Is(err, errRestarting) {
		return err
	}
	r.results(i, a)
	if err != nil {
		return err
	}
	// The stop signal must not make this last look fail.
	var done bool
	err = call(ctx, limit, r.o.Grace, nil, func(ctx context.Context) (err error) {
		done, err = a.Done(ctx, r.n)
		return err
	})
	if errors.Is(err, errHung) {
		return err
	}
	if err != nil {
		return fmt.Errorf("measuring that it is done: %w", err)
	}
	if !done {
		return errors.New("it reported success, but measuring says that it is not in place")
	}
	// What Do left in the action's fields is not kept: a resumed run measures
	// anew, and Undo needs Prepare's fields alone.
	return r.state(i, journal.OK, "", "", nil)
}

// measurer is an action that measured devices.
type measurer interface{ Results() []journal.DeviceResult }

func (r *runner) results(i int, a hostops.Action) {
	m, ok := a.(measurer)
	if !ok {
		return
	}
	for _, d := range m.Results() {
		_ = r.say(journal.Event{Event: journal.Result, Step: r.plan.Steps[i].ID, N: i + 1, Device: &d})
	}
}

// failed undoes after step i failed.
func (r *runner) failed(ctx context.Context, i int, cause error) int {
	if p := (*panicError)(nil); errors.As(cause, &p) {
		fmt.Fprintf(r.o.Stderr, "step %s: %v\n%s\n", r.plan.Steps[i].ID, p, p.stack)
	}
	what := fmt.Sprintf("step %d %s failed: %v", i+1, r.plan.Steps[i].ID, cause)
	return r.undoAndEnd(ctx, journal.OutcomeUndone, exitUndone, what)
}

// stopped undoes after the run was asked to stop.
func (r *runner) stopped(ctx context.Context, why string, timeout bool) int {
	what := "the run stopped: " + why
	if timeout {
		return r.undoAndEnd(ctx, journal.OutcomeUndone, exitUndone, what)
	}
	return r.undoAndEnd(ctx, journal.OutcomeStopped, exitStopped, what)
}

// hung ends the run at a step that does not come back. Nothing is undone: what
// is stuck in the kernel may hold, or still use, what the other steps made.
func (r *runner) hung(i int, cause error) int {
	for _, line := range stuck(r.n) {
		r.note(i, line)
	}
	id := r.plan.Steps[i].ID
	_ = r.state(i, journal.Failed, cause.Error(), journal.CodeHung, nil)
	r.lock.hung(id)
	return r.end(journal.OutcomeHung, exitHung, fmt.Sprintf(
		"step %d %s hangs in the kernel; reboot the node, then: fitout rollback %s", i+1, id, r.id), r.left())
}

// undoAndEnd undoes and ends with the given outcome, or with that of an undo
// that was not complete.
func (r *runner) undoAndEnd(ctx context.Context, o journal.Outcome, exit int, what string) int {
	left, hungAt := r.undo(ctx)
	switch {
	case hungAt >= 0:
		r.lock.hung(r.plan.Steps[hungAt].ID)
		return r.end(journal.OutcomeHung, exitHung, fmt.Sprintf("%s; undoing step %d %s hangs in the kernel; reboot the node, then: fitout rollback %s",
			what, hungAt+1, r.plan.Steps[hungAt].ID, r.id), left)
	case len(left) > 0:
		return r.end(journal.OutcomeNotUndone, exitNotUndone, what+"; not everything could be undone", left)
	}
	return r.end(o, exit, what, nil)
}

// undo undoes, last first, every step that was prepared. One that fails does
// not keep the others from being undone; one that hangs does. It returns what
// is left, and the index of the step whose undo hangs, or -1.
func (r *runner) undo(ctx context.Context) (left []string, hungAt int) {
	r.w.Shrink()
	for i, a := range slices.Backward(r.actions) {
		if i >= len(r.sum.Steps) || r.sum.Steps[i].Action == nil {
			continue
		}
		d := a.Describe()
		limit := d.Limit
		if limit <= 0 {
			limit = r.o.StepLimit
		}
		_ = r.state(i, journal.Undoing, d.Title, "", nil)
		out := &sink{w: r.w, step: r.plan.Steps[i].ID, n: i + 1}
		err := givenUp(call(ctx, limit, r.o.Grace, nil, func(ctx context.Context) error { return a.Undo(ctx, r.n, out) }))
		out.shut.Store(true)
		if err == nil {
			_ = r.state(i, journal.Undone, "", "", nil)
			continue
		}
		if errors.Is(err, errHung) {
			for _, line := range stuck(r.n) {
				r.note(i, line)
			}
		}
		_ = r.state(i, journal.UndoFail, err.Error(), codeOf(err), nil)
		left = append(left, fmt.Sprintf("%s: %v", d.Title, err))
		if errors.Is(err, errHung) {
			return append(left, r.leftBefore(i)...), i
		}
	}
	return left, -1
}

// left names every step that is prepared and not undone, last first.
func (r *runner) left() []string { return r.leftBefore(len(r.actions)) }

func (r *runner) leftBefore(end int) []string {
	var out []string
	for i := end - 1; i >= 0; i-- {
		if i < len(r.sum.Steps) && r.sum.Steps[i].Action != nil {
			out = append(out, r.actions[i].Describe().Title+": not undone")
		}
	}
	return out
}

// codeOf is the stable code of an error, "" when it has none.
func codeOf(err error) string {
	var coded interface{ FindingCode() string }
	var late *timeoutError
	var bug *panicError
	switch {
	case errors.As(err, &coded):
		return coded.FindingCode()
	case errors.Is(err, errHung):
		return journal.CodeHung
	case errors.As(err, &late):
		return journal.CodeTimeout
	case errors.As(err, &bug):
		return journal.CodePanic
	}
	return ""
}
