package run_test

import (
	"errors"
	"os"
	"path"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

func TestTwoRunnersStartedAtOnceNeverBothRun(t *testing.T) {
	t.Parallel()
	for round := range 100 {
		n, p := node(t)
		_, q := node(t)
		for _, plan := range []*plan.Plan{p, q} {
			plan.Steps = plan.Steps[:1]
		}
		fault(t, n, "new", "do slow") // whoever gets it stays until cancelled
		argv := self(n)
		var wg sync.WaitGroup
		ids, errs := make([]string, 2), make([]error, 2)
		for i, plan := range []*plan.Plan{p, q} {
			wg.Go(func() { ids[i], errs[i] = run.Start(n, stateDir, plan, argv) })
		}
		wg.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		require.NoError(t, errs[won], "round %d: neither began: %v, %v", round, errs[0], errs[1])
		var locked *run.LockedError
		require.ErrorAs(t, errs[1-won], &locked, "round %d: both began", round)
		all, err := run.List(n, stateDir)
		require.NoError(t, err)
		require.Len(t, all, 1, "round %d: the loser leaves no run behind", round)
		require.True(t, all[0].InProgress)
		require.NoError(t, run.Cancel(n, stateDir, ids[won]))
		require.Equal(t, 11, waitEnd(t, n, ids[won]).Exit)
	}
}

func TestLockSaysWhoHoldsIt(t *testing.T) {
	n, p := node(t)
	fault(t, n, "loaded", "do slow")
	id, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	owner, held := run.Holder(n)
	require.True(t, held)
	require.Equal(t, id, owner.Run)
	require.Equal(t, "boot-1", owner.BootID)
	require.NotEqual(t, os.Getpid(), owner.PID)
	require.Equal(t, id, run.Current(n))

	_, err = run.Start(n, stateDir, p, self(n))
	require.ErrorContains(t, err, "run "+id+" is in progress")
	require.ErrorContains(t, err, "fitout attach")
	require.ErrorContains(t, run.Resume(n, stateDir, id, self(n)), "in progress")
	require.Equal(t, 10, execute(n, run.Dir(stateDir, id), journal.ModeResume))

	require.NoError(t, run.Cancel(n, stateDir, id))
	waitEnd(t, n, id)
	_, held = run.Holder(n)
	require.False(t, held)
	require.Error(t, run.Cancel(n, stateDir, id), "an ended run cannot be cancelled")
}

// A runner that was killed holds nothing, also when its pid lives on as
// another process: the record names a living pid here.
func TestReusedPIDDoesNotKeepTheLock(t *testing.T) {
	n, p := node(t)
	require.NoError(t, n.MkdirAll("/run/fitout", 0o700))
	require.NoError(t, n.WriteFile("/run/fitout/lock", []byte(`{"run":"2026-1130-09","pid":1,"bootId":"boot-1"}`), 0o600))
	_, held := run.Holder(n)
	require.False(t, held)
	require.Equal(t, 0, execute(n, prepareRun(t, n, p, firstRun), journal.ModeRun))
}

// started starts a run whose step base does what order says, and returns when
// it is inside that step.
func started(t *testing.T, base, order string) (*hostops.Node, string, run.Owner) {
	n, p := node(t)
	limitEach(p, 20*time.Second)
	fault(t, n, base, order)
	id, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return n.Exists("/reached") }, 10*time.Second, 5*time.Millisecond)
	owner, held := run.Holder(n)
	require.True(t, held)
	return n, id, owner
}

func TestInterruptedRunIsUndoneAndSaysSo(t *testing.T) {
	t.Parallel()
	before := undisturbed(t).before
	for name, ask := range map[string]func(*hostops.Node, string, run.Owner) error{
		"SIGTERM": func(_ *hostops.Node, _ string, o run.Owner) error { return syscall.Kill(o.PID, syscall.SIGTERM) },
		"SIGINT":  func(_ *hostops.Node, _ string, o run.Owner) error { return syscall.Kill(o.PID, syscall.SIGINT) },
		"cancel":  func(n *hostops.Node, id string, _ run.Owner) error { return run.Cancel(n, stateDir, id) },
		"twice": func(_ *hostops.Node, _ string, o run.Owner) error {
			return errors.Join(syscall.Kill(o.PID, syscall.SIGTERM), syscall.Kill(o.PID, syscall.SIGINT), syscall.Kill(o.PID, syscall.SIGTERM))
		},
	} {
		for _, order := range []string{"do slow", "do unhurried"} {
			t.Run(name+", "+order, func(t *testing.T) {
				n, id, owner := started(t, "loaded", order)
				require.NoError(t, ask(n, id, owner))
				s := waitEnd(t, n, id)
				require.Equal(t, 11, s.Exit)
				require.Equal(t, journal.OutcomeStopped, s.Outcome)
				require.Contains(t, s.Message, "the run stopped: ")
				require.Equal(t, before, fingerprint(t, n))
				require.Equal(t, journal.Undone, s.Steps[0].State)
				require.Equal(t, journal.Pending, s.Steps[3].State)
			})
		}
	}
}

func TestSecondInterruptDoesNotSkipTheUndo(t *testing.T) {
	t.Parallel()
	before := undisturbed(t).before
	n, p := node(t)
	fault(t, n, "replaced", "do fail")
	fault(t, n, "loaded", "undo unhurried") // undo takes until its limit
	limitEach(p, 700*time.Millisecond)
	id, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return n.Exists("/reached") }, 10*time.Second, 5*time.Millisecond)
	owner, _ := run.Holder(n)
	for range 3 {
		require.NoError(t, syscall.Kill(owner.PID, syscall.SIGTERM))
		time.Sleep(50 * time.Millisecond)
	}
	s := waitEnd(t, n, id)
	require.Equal(t, 7, s.Exit)
	require.Equal(t, before, fingerprint(t, n))
}

// The terminal is closed: the session's processes get SIGHUP, the starter
// dies. The runner is in a session of its own, and ignores it besides.
func TestRunGoesOnWhenItsTerminalIsClosed(t *testing.T) {
	n, id, owner := started(t, "loaded", "do unhurried")
	sid, err := unix.Getsid(owner.PID)
	require.NoError(t, err)
	require.Equal(t, owner.PID, sid, "a session of its own")
	require.NoError(t, syscall.Kill(owner.PID, syscall.SIGHUP))
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, id, run.Current(n))
	link, err := os.Readlink(path.Join("/proc", strconv.Itoa(owner.PID), "fd/0"))
	require.NoError(t, err)
	require.Equal(t, "/dev/null", link)
	require.NoError(t, run.Cancel(n, stateDir, id))
	waitEnd(t, n, id)
}
