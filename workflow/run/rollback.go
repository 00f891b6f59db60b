package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fitout/hostops"
	"fitout/workflow/journal"
)

// ErrBuiltOn says that a later run builds on the one that is to be undone.
var ErrBuiltOn = errors.New("a later run builds on it")

// ErrFinal says that a run took its driver off the node for good.
var ErrFinal = errors.New("it removed the driver and deleted its files; to have the driver again, fit it anew: fitout apply -a FILE")

// CanRollback says why a run cannot be undone now; nil when it can. Undoing a
// run under a later one of the same driver would put back what that one
// replaced.
func CanRollback(n *hostops.Node, stateDir, id string) error {
	all, err := List(n, stateDir)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(l Listed) bool { return l.ID == id })
	if at < 0 {
		return fmt.Errorf("there is no run %s on this node", id)
	}
	if all[at].Damaged != "" {
		return fmt.Errorf("run %s cannot be rolled back: its record is damaged: %s", id, all[at].Damaged)
	}
	if all[at].Final && all[at].Summary.Ended {
		return fmt.Errorf("run %s cannot be rolled back: %w", id, ErrFinal)
	}
	var later []string
	for _, l := range all[at+1:] {
		if l.Final && shares(all[at], l) {
			return fmt.Errorf("run %s cannot be rolled back: run %s came after it: %w", id, l.ID, ErrFinal)
		}
		if (l.InEffect || l.InProgress) && shares(all[at], l) {
			later = append(later, l.ID)
		}
	}
	if len(later) > 0 {
		slices.Reverse(later)
		return fmt.Errorf("run %s cannot be rolled back: %w; roll back first, in this order: %s", id, ErrBuiltOn, strings.Join(later, ", "))
	}
	return nil
}

// shares says that two runs handle a driver both. A run whose plan cannot be
// read is taken to.
func shares(a, b Listed) bool {
	if b.Damaged != "" {
		return true
	}
	for _, d := range a.Drivers {
		for _, e := range b.Drivers {
			if d.Name == e.Name || slices.ContainsFunc(d.Modules, func(m string) bool { return slices.Contains(e.Modules, m) }) {
				return true
			}
		}
	}
	return false
}

// rollback undoes a run that ended or was cut short.
func (r *runner) rollback(ctx context.Context) int {
	if len(r.left()) == 0 {
		return r.end(journal.OutcomeRolledBack, exitDone, "nothing was left to undo", nil)
	}
	return r.undoAndEnd(ctx, journal.OutcomeRolledBack, exitDone, "run "+r.id+" was rolled back")
}
