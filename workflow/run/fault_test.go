package run_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

func TestUndisturbedRun(t *testing.T) {
	n, p := node(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	s := summary(t, n, dir)
	require.Equal(t, journal.OutcomeDone, s.Outcome)
	require.Equal(t, []journal.State{journal.OK, journal.Skipped, journal.OK, journal.OK}, states(s))
	require.False(t, n.Exists("/run/fitout"), "nothing is left below /run/fitout")

	t.Run("is not begun twice", func(t *testing.T) {
		require.Equal(t, 6, execute(n, dir, journal.ModeRun))
		require.Equal(t, journal.OutcomeDone, summary(t, n, dir).Outcome, "its journal is left alone")
	})
	t.Run("a second run has nothing to do", func(t *testing.T) {
		second := prepareRun(t, n, p, "2026-1130-02")
		require.Equal(t, 0, execute(n, second, journal.ModeRun))
		for _, s := range states(summary(t, n, second)) {
			require.Equal(t, journal.Skipped, s)
		}
	})
}

func states(s journal.Summary) []journal.State {
	var out []journal.State
	for _, st := range s.Steps {
		out = append(out, st.State)
	}
	return out
}

// Every step × every fault that the process survives: the exit code, and the
// state from before.
func TestFaultInAnyStepIsUndone(t *testing.T) {
	faults := []struct {
		order string
		code  string
		says  string
	}{
		{"prepare fail", "", "injected: prepare"},
		{"prepare panic", journal.CodePanic, "a bug in fitout: injected: prepare"},
		{"do fail", "", "injected: do"},
		{"do panic", journal.CodePanic, "a bug in fitout: injected: do"},
		{"do slow", journal.CodeTimeout, "gave up after its limit of 300ms"},
		{"do lie", "", "not in place"},
		{"done fail", "", "injected: done"},
		{"done panic", journal.CodePanic, "a bug in fitout: injected: done"},
	}
	for _, step := range []string{"new", "loaded", "replaced"} {
		for _, f := range faults {
			t.Run(step+"/"+f.order, func(t *testing.T) {
				n, p := node(t)
				limitEach(p, 300*time.Millisecond)
				before := fingerprint(t, n)
				fault(t, n, step, f.order)
				dir := prepareRun(t, n, p, firstRun)
				var stderr bytes.Buffer
				o := options()
				o.Stderr = &stderr
				require.Equal(t, 7, run.Execute(context.Background(), n, dir, kinds, o))
				require.Equal(t, before, fingerprint(t, n))
				s := summary(t, n, dir)
				require.Equal(t, journal.OutcomeUndone, s.Outcome)
				require.Contains(t, s.Message, f.says)
				failed := failedEvent(t, n, dir)
				require.Equal(t, f.code, failed.Code)
				require.Contains(t, failed.Message, f.says)
				if f.code == journal.CodePanic {
					require.Contains(t, stderr.String(), "goroutine")
				}
				require.False(t, n.Exists("/run/fitout"))
			})
		}
	}
}

func failedEvent(t *testing.T, n *hostops.Node, dir string) journal.Event {
	events, err := journal.Read(n.Path(dir))
	require.NoError(t, err)
	for _, e := range events {
		if e.State == journal.Failed {
			return e
		}
	}
	t.Fatal("no failed event")
	return journal.Event{}
}

func limitEach(p *plan.Plan, d time.Duration) {
	for _, s := range p.Steps {
		s.Action.(*change).Limit = d
	}
}

// A cluster that does not answer, or not in time, takes no good driver away.
func TestAftercareThatFailsUndoesNothingAndSaysWhatIsLeft(t *testing.T) {
	for _, order := range []string{"done fail", "prepare fail", "do fail", "do lie", "do slow"} {
		t.Run(order, func(t *testing.T) {
			n, p := node(t)
			p.Steps = append(p.Steps, plan.Step{ID: "leave", Action: &aftercare{change{Path: "/etc/leave", Content: "left", Limit: time.Second}}})
			fault(t, n, "leave", order)
			dir := prepareRun(t, n, p, firstRun)
			require.Equal(t, 0, execute(n, dir, journal.ModeRun))
			s := summary(t, n, dir)
			require.Equal(t, journal.OutcomeDone, s.Outcome)
			require.Equal(t, []journal.State{journal.OK, journal.Skipped, journal.OK, journal.OK, journal.Failed}, states(s))
			require.Contains(t, s.Message, "kubectl uncordon node-17")
			require.True(t, n.Exists("/tmpfs/loaded"))

			require.NoError(t, n.RemoveAll("/faults"))
			require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
			require.False(t, n.Exists("/tmpfs/loaded"))
		})
	}
}

func TestUndoThatFailsIsNamedAndDoesNotKeepOthersFromIt(t *testing.T) {
	for _, how := range []string{"fail", "panic"} {
		t.Run(how, func(t *testing.T) {
			n, p := node(t)
			fault(t, n, "replaced", "do fail")
			fault(t, n, "loaded", "undo "+how)
			dir := prepareRun(t, n, p, firstRun)
			require.Equal(t, 8, execute(n, dir, journal.ModeRun))
			s := summary(t, n, dir)
			require.Equal(t, journal.OutcomeNotUndone, s.Outcome)
			require.Len(t, s.NotUndone, 1)
			require.Contains(t, s.NotUndone[0], "write /tmpfs/loaded: ")
			require.Contains(t, s.NotUndone[0], "injected: undo")
			require.False(t, n.Exists("/etc/new"), "the step before it is undone")

			require.NoError(t, n.RemoveAll("/faults"))
			require.Equal(t, 0, execute(n, dir, journal.ModeRollback), "it can be undone later")
			require.False(t, n.Exists("/tmpfs/loaded"))
			require.Equal(t, journal.OutcomeRolledBack, summary(t, n, dir).Outcome)
		})
	}
}

func TestStepThatHangsIsNamedAndNotWaitedForWithoutEnd(t *testing.T) {
	for _, method := range []string{"prepare", "do", "done"} {
		t.Run(method, func(t *testing.T) {
			n, p := node(t)
			limitEach(p, 300*time.Millisecond)
			fault(t, n, "loaded", method+" hang")
			dir := prepareRun(t, n, p, firstRun)
			require.Equal(t, 13, execute(n, dir, journal.ModeRun))
			s := summary(t, n, dir)
			require.Equal(t, journal.OutcomeHung, s.Outcome)
			require.Contains(t, s.Message, "step 3 load hangs")
			require.Contains(t, s.Message, "fitout rollback "+firstRun)
			require.Equal(t, journal.CodeHung, failedEvent(t, n, dir).Code)
			require.Contains(t, s.NotUndone, "write /etc/new: not undone")
			record, err := n.ReadString("/run/fitout/lock")
			require.NoError(t, err)
			require.Contains(t, record, `"hung":"load"`)

			before, _ := node(t)
			reboot(t, n)
			require.NoError(t, n.RemoveAll("/faults"))
			require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
			require.Equal(t, fingerprint(t, before), fingerprint(t, n))
		})
	}
}

func TestUndoThatHangsEndsTheRunAsHung(t *testing.T) {
	for _, order := range []string{"undo hang", "undo give-up"} {
		t.Run(order, func(t *testing.T) {
			n, p := node(t)
			limitEach(p, 300*time.Millisecond)
			fault(t, n, "replaced", "do fail")
			fault(t, n, "loaded", order)
			dir := prepareRun(t, n, p, firstRun)
			require.Equal(t, 13, execute(n, dir, journal.ModeRun))
			s := summary(t, n, dir)
			require.Len(t, s.NotUndone, 2, "the hung one and the one below it")
			require.Contains(t, s.Message, "undoing step 3 load hangs")
			record, err := n.ReadString("/run/fitout/lock")
			require.NoError(t, err)
			require.Contains(t, record, `"hung":"load"`)
		})
	}
}

func TestFloodingActionNeitherFillsTheJournalNorStallsTheRun(t *testing.T) {
	n, p := node(t)
	fault(t, n, "loaded", "do flood")
	limitEach(p, 30*time.Second)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	st, err := n.Stat(path.Join(dir, journal.File))
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(5<<20))
	s := summary(t, n, dir)
	require.EqualValues(t, 300_003, s.Lines+s.Dropped)
	require.Greater(t, s.Dropped, int64(200_000))
}

func TestPlanForAnotherKernelIsRefused(t *testing.T) {
	n, p := node(t)
	p.Kernel = "6.1.0-99-amd64"
	before := fingerprint(t, n)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 6, execute(n, dir, journal.ModeRun))
	require.Equal(t, before, fingerprint(t, n))
	require.Zero(t, summary(t, n, dir).LastSeq)
}

func TestOrderOfRunsIsNotTheClocks(t *testing.T) {
	n, p := node(t)
	clock := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	n.Now = func() time.Time { return clock }
	first, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Equal(t, "2026-1130-01", first)
	waitEnd(t, n, first)

	clock = clock.AddDate(-1, 0, 0)
	p.Steps[0].Action.(*change).Content = "newer"
	second, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Equal(t, "2025-1130-02", second)
	waitEnd(t, n, second)

	all, err := run.List(n, stateDir)
	require.NoError(t, err)
	require.Equal(t, []string{first, second}, []string{all[0].ID, all[1].ID})
	require.ErrorIs(t, run.CanRollback(n, stateDir, first), run.ErrBuiltOn)
	require.ErrorContains(t, run.CanRollback(n, stateDir, first), second)

	require.NoError(t, run.StartRollback(n, stateDir, second, self(n)))
	waitEnd(t, n, second)
	content, err := n.ReadString("/etc/new")
	require.NoError(t, err)
	require.Equal(t, "new", content)
	require.NoError(t, run.StartRollback(n, stateDir, first, self(n)))
	waitEnd(t, n, first)
	require.False(t, n.Exists("/etc/new"))

	require.NoError(t, n.RemoveAll(run.Dir(stateDir, second)))
	third, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Equal(t, "2025-1130-03", third, "an id is never used again")
	waitEnd(t, n, third)
}

// waitEnd waits until a run has its done event and its runner gave the lock
// up.
func waitEnd(t *testing.T, n *hostops.Node, id string) journal.Summary {
	require.Eventually(t, func() bool {
		return run.Current(n) == "" && summary(t, n, run.Dir(stateDir, id)).Ended
	}, 20*time.Second, 10*time.Millisecond)
	return summary(t, n, run.Dir(stateDir, id))
}

func TestRunDirectoryIsForItsOwnerAlone(t *testing.T) {
	n, p := node(t)
	id, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	waitEnd(t, n, id)
	for name, mode := range map[string]os.FileMode{"": 0o700, "plan.json": 0o600, "journal.jsonl": 0o600, "start.json": 0o600} {
		st, err := n.Stat(path.Join(run.Dir(stateDir, id), name))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), name)
	}
}

func TestRunnerThatCannotBeginLeavesNoRunBehind(t *testing.T) {
	n, p := node(t)
	p.Kernel = "6.1.0-99-amd64"
	_, err := run.Start(n, stateDir, p, self(n))
	var refused *run.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 6, refused.Exit)
	require.Contains(t, refused.Message, "6.1.0-99-amd64")
	all, err := run.List(n, stateDir)
	require.NoError(t, err)
	require.Empty(t, all)

	t.Run("a program that is not there", func(t *testing.T) {
		_, err := run.Start(n, stateDir, p, []string{"/nowhere/fitout"})
		require.ErrorContains(t, err, "starting the runner")
	})
	t.Run("a program that dies at once", func(t *testing.T) {
		_, err := run.Start(n, stateDir, p, []string{"/bin/sh", "-c", "echo no such verb >&2; exit 2", "fitout"})
		require.ErrorContains(t, err, "no such verb")
	})
}

func TestLinesOfAnActionAreOneEventEach(t *testing.T) {
	n, p := node(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	events, err := journal.Read(n.Path(dir))
	require.NoError(t, err)
	var lines []string
	for _, e := range events {
		if e.Event == journal.Log {
			lines = append(lines, fmt.Sprint(e.Step, ": ", e.Message))
		}
	}
	require.Equal(t, "stage: writing /etc/new\nload: writing /tmpfs/loaded\nhook: writing /etc/replaced", strings.Join(lines, "\n"))
}
