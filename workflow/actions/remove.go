package actions

import (
	"context"
	"fmt"
	"os"
	"path"

	"fitout/hostops"
)

// RemoveTree removes a directory of fitout's own, whose content can be fetched
// again. There is no undo, and Describe says so.
type RemoveTree struct {
	// Dir is removed; its parents go too while they are empty, up to Top.
	Dir, Top string
}

// Kind implements hostops.Action.
func (*RemoveTree) Kind() string { return "remove-tree" }

// Describe implements hostops.Action.
func (r *RemoveTree) Describe() hostops.Description {
	return hostops.Description{
		Title: "remove " + r.Dir,
		Text:  []string{"rm -r " + r.Dir},
		Undo:  []string{"none: these files are copies, the image can be fetched again"},
	}
}

// Prepare implements hostops.Action.
func (r *RemoveTree) Prepare(context.Context, *hostops.Node) error { return nil }

// Done implements hostops.Action.
func (r *RemoveTree) Done(_ context.Context, n *hostops.Node) (bool, error) {
	_, err := n.Lstat(r.Dir)
	return os.IsNotExist(err), nil
}

// Do implements hostops.Action.
func (r *RemoveTree) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if err := n.RemoveAll(r.Dir); err != nil {
		return fmt.Errorf("removing %s: %w", r.Dir, err)
	}
	prune(n, path.Dir(r.Dir), r.Top)
	return nil
}

// Undo implements hostops.Action.
func (r *RemoveTree) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }
