// Package run carries plans out. The runner is a process of its own that
// nothing waits for: it is known by a run id, holds the node's lock, and says
// everything through its journal. Whoever started it may die.
//
// The rules are:
//
//   - A step's undo data is on the disk before the step changes anything.
//   - "ok" is written when measuring says so, not when code returned.
//   - Nothing is waited for without end; a step that does not come back is
//     named, and the run ends as hung.
//   - Undo runs to its end. A second signal does not shorten it.
//   - What the journal says after a power cut is checked against the node.
package run

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// Dir is the node path of a run's directory.
func Dir(stateDir, id string) string { return path.Join(stateDir, "runs", id) }

// idPattern is a date and a counter ("2026-1130-07"). The date is for people;
// the counter never repeats and gives the order.
var idPattern = regexp.MustCompile(`^\d{4}-\d{4}-(\d{2,})$`)

// counter is the number at the end of a run id, 0 for what is none.
func counter(id string) int {
	m := idPattern.FindStringSubmatch(id)
	if m == nil {
		return 0
	}
	c, _ := strconv.Atoi(m[1])
	return c
}

// ids lists the runs of a node, oldest first, by counter: a clock that was set
// back changes nothing.
func ids(n *hostops.Node, stateDir string) ([]string, error) {
	entries, err := n.ReadDir(path.Join(stateDir, "runs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && counter(e.Name()) > 0 {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return counter(a) - counter(b) })
	return out, nil
}

// newDir makes the directory of a new run, 0700, and returns its id. Two
// starters at once get two.
func newDir(n *hostops.Node, stateDir string) (string, error) {
	runs := path.Join(stateDir, "runs")
	if err := n.MkdirAll(runs, 0o700); err != nil {
		return "", fmt.Errorf("making a directory for the run: %w", err)
	}
	d, err := n.Open(runs)
	if err != nil {
		return "", fmt.Errorf("making a directory for the run: %w", err)
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("making a directory for the run: locking %s: %w", runs, err)
	}
	old, err := ids(n, stateDir)
	if err != nil {
		return "", err
	}
	last, err := lastCounter(n, runs)
	if err != nil {
		return "", err
	}
	if len(old) > 0 {
		last = max(last, counter(old[len(old)-1]))
	}
	id := fmt.Sprintf("%s-%02d", n.Now().Format("2006-0102"), last+1)
	if err := n.WriteFile(path.Join(runs, "last"), []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("making a directory for the run: %w", err)
	}
	if err := os.Mkdir(n.Path(path.Join(runs, id)), 0o700); err != nil {
		return "", fmt.Errorf("making a directory for the run: %w", err)
	}
	return id, nil
}

// lastCounter is the counter of the newest id that was ever given out: also
// when its directory was deleted since, its id is not used again.
func lastCounter(n *hostops.Node, runs string) (int, error) {
	s, err := n.ReadString(path.Join(runs, "last"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("reading the run counter: %w", err)
	}
	return counter(s), nil
}

// Listed is one run of a node's history.
type Listed struct {
	ID string
	// Dir is its node path.
	Dir     string
	Summary journal.Summary
	Drivers []plan.Driver
	// InProgress: its runner holds the lock. Broken: it has no runner and no
	// end; it can be resumed or rolled back.
	InProgress, Broken bool
	// InEffect: it changed things that were not undone.
	InEffect bool
	// Final: it took its drivers off the node and deleted their files. Nothing
	// brings them back but another run.
	Final bool
	// Damaged says why its plan or journal could not be read.
	Damaged string
}

// List is the history of runs, oldest first.
func List(n *hostops.Node, stateDir string) ([]Listed, error) {
	all, err := ids(n, stateDir)
	if err != nil {
		return nil, err
	}
	holder, held := Holder(n)
	var out []Listed
	for _, id := range all {
		l := describe(n, stateDir, id, held && holder.Run == id)
		if l.Broken {
			l = lookAgain(n, stateDir, id)
		}
		out = append(out, l)
	}
	return out, nil
}

// lookAgain reads a run anew that seemed to be cut short: its runner may have
// begun, or ended, between the look at the lock and that at the journal. A runner
// writes its end before it gives the lock up.
func lookAgain(n *hostops.Node, stateDir, id string) Listed {
	holder, held := Holder(n)
	return describe(n, stateDir, id, held && holder.Run == id)
}

// final is the last step of a removal: those before it deleted files, and after
// it there is no way back.
const final = "forget"

// describe reads one run.
func describe(n *hostops.Node, stateDir, id string, inProgress bool) Listed {
	l := Listed{ID: id, Dir: Dir(stateDir, id), InProgress: inProgress}
	var damaged []string
	events, err := journal.Read(n.Path(l.Dir))
	if err != nil {
		damaged = append(damaged, err.Error())
	}
	l.Summary = journal.Summarise(events)
	if l.Drivers, err = plan.LoadDrivers(n, l.Dir); err != nil {
		damaged = append(damaged, err.Error())
	}
	l.InEffect = slices.ContainsFunc(l.Summary.Steps, func(s journal.StepState) bool { return s.Action != nil })
	l.Final = slices.ContainsFunc(l.Summary.Steps, func(s journal.StepState) bool {
		return s.ID == final && s.State != journal.Pending && s.Action != nil
	})
	if name := unwritten(n, stateDir, l); name != "" {
		damaged = append(damaged, "the journal lacks steps, "+name+" was installed by it; take that off with: fitout remove "+name)
		l.InEffect = true
	}
	l.Damaged = strings.Join(damaged, "; ")
	l.Broken = !inProgress && len(events) > 0 && (!l.Summary.Ended || l.Summary.Outcome == journal.OutcomeHung)
	return l
}

// unwritten names a driver that was recorded by a run whose journal, which is
// written before anything is done, knows nothing of that; "" for none. What else
// it did is not known then, and "nothing to undo" would be untrue.
func unwritten(n *hostops.Node, stateDir string, l Listed) string {
	if l.InProgress || slices.ContainsFunc(l.Summary.Steps, func(s journal.StepState) bool {
		return strings.HasPrefix(s.ID, "record") && s.State != journal.Pending
	}) {
		return ""
	}
	installed, _ := Installed(n, stateDir)
	for _, r := range installed {
		if r.Run == l.ID {
			return r.Driver.Name
		}
	}
	return ""
}

// Unfinished is the newest run that was cut short (by a power cut, a kill, a
// hang) and is neither resumed nor rolled back; nil for none.
func Unfinished(n *hostops.Node, stateDir string) (*Listed, error) {
	all, err := List(n, stateDir)
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Broken {
			return &all[i], nil
		}
	}
	return nil, nil
}
