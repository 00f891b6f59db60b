package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// The exit codes of a runner.
const (
	exitDone      = 0
	exitFile      = 3
	exitRefused   = 6
	exitUndone    = 7
	exitNotUndone = 8
	exitLocked    = 10
	exitStopped   = 11
	exitRestarts  = 21
	exitHung      = 13
)

// Options change how a run is carried out. The zero value is right for a
// runner.
type Options struct {
	// Mode is what to do with the run: "" is journal.ModeRun.
	Mode journal.Mode
	// StepLimit is for actions that name no limit of their own (10 min);
	// Grace is how long a step may take to give up when it is told to (10 s).
	StepLimit, Grace time.Duration
	// Observe, if set, is called with every event that is not log or
	// progress, after it is on the disk.
	Observe func(journal.Event)
	// Stderr takes what cannot be said in the journal (os.Stderr).
	Stderr io.Writer
}

// runner is one execution, resumption or rollback of one run.
type runner struct {
	n       *hostops.Node
	dir     string // node path
	id      string
	o       Options
	lock    *lock
	w       *journal.Writer
	plan    *plan.Plan
	actions []hostops.Action
	sum     journal.Summary
	stop    *stopper
}

// Execute is the runner: it carries out, resumes or rolls back (o.Mode) the run
// whose directory is the node path dir, and returns the exit code. Everything
// else it has to say is in the journal.
func Execute(ctx context.Context, n *hostops.Node, dir string, kinds plan.Kinds, o Options) int {
	if o.Mode == "" {
		o.Mode = journal.ModeRun
	}
	if o.StepLimit == 0 {
		o.StepLimit = 10 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	r := &runner{n: n, dir: dir, id: path.Base(dir), o: o}
	if exit, ok := r.open(); !ok {
		return exit
	}
	exit, err := r.load(kinds)
	if err == nil {
		exit, err = exitRefused, r.begin()
	}
	if err != nil { // the word comes last: who reads it finds the lock free
		r.close()
		return r.refuse(exit, err.Error(), nil)
	}
	r.watch(ctx)
	// Signals are caught until the lock is given up: one that comes late must
	// not leave its file behind.
	defer func() { r.stop.end() }()
	defer r.close()
	ctx = context.WithoutCancel(ctx)
	if o.Mode == journal.ModeRollback {
		return r.rollback(ctx)
	}
	return r.run(ctx)
}

// watch begins to look for reasons to stop.
func (r *runner) watch(ctx context.Context) {
	r.stop = watch(ctx, r.n, cancelFile(r.dir, r.lock.owner), r.limit())
}

// open takes the lock and opens the journal.
func (r *runner) open() (exit int, ok bool) {
	var err error
	r.lock, err = acquire(r.n, Owner{Run: r.id, PID: os.Getpid(), BootID: bootID(r.n), TTY: startedOn(r.n, r.dir), Since: r.n.Now()})
	var held *LockedError
	if errors.As(err, &held) {
		return r.refuse(exitLocked, err.Error(), &held.Owner), false
	}
	if err != nil {
		return r.refuse(exitRefused, err.Error(), nil), false
	}
	r.w, err = journal.Create(r.n.Path(r.dir), journal.WithClock(r.n.Now))
	if err != nil {
		r.lock.release()
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = fmt.Errorf("%w; free space in %s: the run writes down there how to undo itself, and begins only when there is room for that", err, path.Dir(path.Dir(r.dir)))
		}
		return r.refuse(exitRefused, err.Error(), nil), false
	}
	return 0, true
}

// refusal is what a runner leaves behind that did not begin.
type refusal struct {
	Exit    int    `json:"exit"`
	Message string `json:"message"`
	Owner   *Owner `json:"owner,omitempty"` // of the lock
}

// refuse ends before anything began. It leaves the journal alone: that may be
// another runner's, or tell of an earlier attempt.
func (r *runner) refuse(exit int, message string, owner *Owner) int {
	fmt.Fprintln(r.o.Stderr, "nothing was changed:", message)
	if data, err := json.Marshal(refusal{exit, message, owner}); err == nil {
		_ = r.n.WriteFile(path.Join(r.dir, refusedFile), data, 0o600)
	}
	return exit
}

func (r *runner) close() {
	if err := r.w.Close(); err != nil {
		fmt.Fprintln(r.o.Stderr, err)
	}
	r.lock.release()
}

// load reads the plan and what the journal knows, and checks that both fit
// what is asked; or says why not, with the exit code.
func (r *runner) load(kinds plan.Kinds) (exit int, err error) {
	events, err := journal.Read(r.n.Path(r.dir))
	if err != nil {
		return exitFile, err
	}
	r.sum = journal.Summarise(events)
	if r.plan, err = plan.Load(r.n, r.dir, kinds); err != nil {
		return exitFile, err
	}
	if r.actions, err = restore(r.plan, r.sum, kinds); err != nil {
		return exitFile, err
	}
	r.sign()
	return exitRefused, r.forbidden(len(events) > 0)
}

// forbidden says why the run cannot be begun in this mode, nil when it can.
func (r *runner) forbidden(begun bool) error {
	if r.o.Mode == journal.ModeRollback {
		return CanRollback(r.n, path.Dir(path.Dir(r.dir)), r.id)
	}
	if r.o.Mode == journal.ModeRun && begun {
		return fmt.Errorf("run %s was begun before: resume it or roll it back", r.id)
	}
	kernel := r.n.Kernel.Release()
	if into, restarted := r.restartedInto(); restarted && (into == "" || into == kernel) {
		return nil
	}
	if r.plan.Kernel != "" && r.plan.Kernel != kernel {
		return fmt.Errorf("the plan is for kernel %s, but %s is running: make a new plan (and roll this run back if it had begun)", r.plan.Kernel, kernel)
	}
	return nil
}

// restartedInto says that the run has restarted the node, and the kernel that
// it meant to boot.
func (r *runner) restartedInto() (kernel string, restarted bool) {
	for _, a := range r.actions {
		if b, ok := a.(*Reboot); ok && b.restarted(r.n) {
			return b.Into, true
		}
	}
	return "", false
}

// restore gives the actions of p the undo data the journal has of them.
func restore(p *plan.Plan, sum journal.Summary, kinds plan.Kinds) ([]hostops.Action, error) {
	actions := make([]hostops.Action, len(p.Steps))
	for i, s := range p.Steps {
		actions[i] = s.Action
		if i >= len(sum.Steps) || sum.Steps[i].Action == nil {
			continue
		}
		if sum.Steps[i].ID != s.ID {
			return nil, fmt.Errorf("plan and journal do not belong together: step %d is %q in one and %q in the other", i+1, s.ID, sum.Steps[i].ID)
		}
		a, err := kinds.Restore(s.Action.Kind(), sum.Steps[i].Action)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.ID, err)
		}
		actions[i] = a
	}
	return actions, nil
}

// sign puts the run's id, which no plan knows, into the records it makes.
func (r *runner) sign() {
	for _, a := range r.actions {
		if rec, ok := a.(*RecordDriver); ok && rec.Record.Run == "" {
			rec.Record.Run = r.id
		}
	}
}

// begin writes the start event.
func (r *runner) begin() error {
	e := journal.Event{Event: journal.Start, Mode: r.o.Mode, Of: len(r.actions), BootID: bootID(r.n),
		Kernel: r.n.Kernel.Release(), PID: os.Getpid()}
	for i, s := range r.plan.Steps {
		e.Steps = append(e.Steps, journal.StepTitle{ID: s.ID, Title: r.actions[i].Describe().Title})
	}
	if err := r.say(e); err != nil {
		return fmt.Errorf("the run could not be written down: %w", err)
	}
	return nil
}

// limit is the time the answers give the whole run; 0: none.
func (r *runner) limit() time.Duration {
	if r.plan.Answers == nil {
		return 0
	}
	d, err := time.ParseDuration(r.plan.Answers.Limits.Timeout)
	if err != nil {
		return 0 // "" or refused when the file was read
	}
	return d
}

// say writes an event and keeps the summary.
func (r *runner) say(e journal.Event) error {
	err := r.w.Append(e)
	r.sum.Add(e)
	if err != nil {
		fmt.Fprintln(r.o.Stderr, err)
		return err
	}
	if r.o.Observe != nil {
		r.o.Observe(e)
	}
	return nil
}

// state writes a step's new state.
func (r *runner) state(i int, s journal.State, message, code string, action []byte) error {
	return r.say(journal.Event{Event: journal.StepEv, Step: r.plan.Steps[i].ID, N: i + 1, Of: len(r.actions),
		State: s, Message: message, Code: code, Action: action})
}

// note writes a log line of the runner itself.
func (r *runner) note(i int, text string) {
	(&sink{w: r.w, step: r.plan.Steps[i].ID, n: i + 1}).Line(text)
}

// end writes the done event and returns exit.
func (r *runner) end(o journal.Outcome, exit int, message string, notUndone []string) int {
	err := r.say(journal.Event{Event: journal.Done, Outcome: o, Exit: exit, Message: message, NotUndone: notUndone})
	if err != nil {
		fmt.Fprintf(r.o.Stderr, "run %s ended: %s (exit %d): %s\n", r.id, o, exit, message)
	}
	return exit
}
