package hostops

import (
	"context"
	"time"
)

// Action is one kind of change to a node, as plain data: a struct whose
// exported fields say everything that doing and undoing it needs, so that it
// can be written to a journal, read back after a power cut by another process,
// and finished or undone from there.
//
// The runner calls, in this order: Done (skip when true), Prepare, [the journal
// is synced], Do, Done (must be true). Undo may come at any time after Prepare,
// also when Do was cut short or never ran.
type Action interface {
	// Kind is the stable machine name under which the runner finds the code
	// again ("load-modules").
	Kind() string
	// Describe says what a person must know before agreeing.
	Describe() Description
	// Prepare measures the state that Undo has to restore and keeps it in the
	// action's own exported fields. It changes nothing on the node.
	Prepare(ctx context.Context, n *Node) error
	// Do makes the change. It is idempotent, verifies its outcome and never
	// trusts an exit code alone.
	Do(ctx context.Context, n *Node, out Sink) error
	// Done measures whether the change is in place.
	Done(ctx context.Context, n *Node) (bool, error)
	// Undo restores what Prepare measured. It is idempotent. What cannot be
	// restored is named in the error.
	Undo(ctx context.Context, n *Node, out Sink) error
}

// Aftercare is an action that what was done before it does not hang on. When it
// fails, nothing is undone: the run ends as done, and says what is left to do.
type Aftercare interface {
	Action
	// ByHand says what a person has to do in its place, with the command.
	ByHand() string
}

// Description is an action in words, exact enough to be done by hand.
type Description struct {
	// Title is a few words ("load e1000e").
	Title string
	// Text holds the exact commands, system calls and files, one a line.
	Text []string
	// Undo says, one a line, what Undo will do; empty: nothing to undo.
	Undo []string
	// Estimate is how long it will take; Limit is when to give up on it (0:
	// the runner's default).
	Estimate, Limit time.Duration
	// Bytes is how much is written, and Into says where; 0: next to nothing.
	Bytes int64
	Into  string
}

// Sink receives what an action says while it runs. Implementations never
// block on a terminal.
type Sink interface {
	// Line takes one line of log.
	Line(text string)
	// Progress takes how far a step is, in the step's own unit (bytes).
	Progress(done, total int64)
}
