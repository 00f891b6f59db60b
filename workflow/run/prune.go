package run

import (
	"fmt"
	"slices"

	"fitout/hostops"
)

// Prune deletes the oldest runs until keep are left, and returns their ids. A run
// stays, whatever their number, that is in progress, was cut short, cannot be
// read, or has changed things that can still be undone, by itself or after a
// later one.
func Prune(n *hostops.Node, stateDir string, keep int) ([]string, error) {
	all, err := List(n, stateDir)
	if err != nil {
		return nil, err
	}
	var gone []string
	for i, l := range all {
		if len(all)-len(gone) <= keep {
			break
		}
		if l.InProgress || l.Broken || l.Damaged != "" || l.InEffect && !outlived(l, all[i+1:]) {
			continue
		}
		if err := n.RemoveAll(l.Dir); err != nil {
			return gone, fmt.Errorf("deleting the record of run %s: %w", l.ID, err)
		}
		gone = append(gone, l.ID)
	}
	return gone, nil
}

// outlived says that nothing can undo the run any more: it, or a later one of the
// same driver, took that off the node for good.
func outlived(l Listed, later []Listed) bool {
	return l.Final || slices.ContainsFunc(later, func(o Listed) bool { return o.Final && o.Summary.Ended && shares(l, o) })
}
