package run_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// runChild runs the runner in a process of its own that is killed at its
// killAt-th event (0: by a fault, or never), and says whether it was killed.
func runChild(t *testing.T, n *hostops.Node, mode journal.Mode, killAt int) bool {
	cmd := exec.Command(os.Args[0], n.Root, "run", firstRun, "--mode", string(mode))
	cmd.Env = append(os.Environ(), fmt.Sprint("FITOUT_TEST_KILL_AT=", killAt))
	out, err := cmd.CombinedOutput()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		require.NotContains(t, string(out), "panic:", "%v", err)
	}
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// outcome is what a run leads to when nobody disturbs it: the state before and
// after, and how many events it has.
type outcome struct {
	before, after string
	events        int
}

func undisturbed(t *testing.T) outcome {
	n, p := node(t)
	o := outcome{before: fingerprint(t, n)}
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	o.after = fingerprint(t, n)
	o.events = boundaries(t, n, dir)
	return o
}

// boundaries counts the events at which a runner can be killed.
func boundaries(t *testing.T, n *hostops.Node, dir string) int {
	events, err := journal.Read(n.Path(dir))
	require.NoError(t, err)
	count := 0
	for _, e := range events {
		if e.Event != journal.Log && e.Event != journal.Progress {
			count++
		}
	}
	return count
}

// kill -9 at every step boundary and inside every method of every step, with
// and without a reboot: resuming ends where an undisturbed run ends, rolling
// back where it began.
func TestRunnerKilledAnywhereCanBeResumedAndRolledBack(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	type kill struct {
		at   int
		step string
		in   string
	}
	var kills []kill
	for at := 1; at < want.events; at++ {
		kills = append(kills, kill{at: at})
	}
	for _, step := range []string{"new", "loaded", "replaced"} {
		for _, in := range []string{"prepare", "do", "done"} {
			kills = append(kills, kill{step: step, in: in})
		}
	}
	for _, k := range kills {
		name := fmt.Sprintf("at event %d", k.at)
		if k.step != "" {
			name = fmt.Sprintf("in %s of %s", k.in, k.step)
		}
		for _, rebooted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reboot %v", name, rebooted), func(t *testing.T) {
				for _, mode := range []journal.Mode{journal.ModeResume, journal.ModeRollback} {
					n, p := node(t)
					if k.step != "" {
						fault(t, n, k.step, k.in+" kill")
					}
					dir := prepareRun(t, n, p, firstRun)
					require.True(t, runChild(t, n, journal.ModeRun, k.at))
					if rebooted {
						reboot(t, n)
					}
					checkAfterKill(t, n, dir, rebooted)

					require.Equal(t, 0, execute(n, dir, mode))
					if mode == journal.ModeResume {
						require.Equal(t, want.after, fingerprint(t, n))
						requireUnspoiled(t, n, dir)
						require.Equal(t, 0, execute(n, dir, journal.ModeRollback), "and rolled back after all")
					}
					require.Equal(t, want.before, fingerprint(t, n))
				}
			})
		}
	}
}

// checkAfterKill: nobody holds the lock, the run is known as cut short, and the
// inspection tells what is there.
func checkAfterKill(t *testing.T, n *hostops.Node, dir string, rebooted bool) {
	_, held := run.Holder(n)
	require.False(t, held)
	broken, err := run.Unfinished(n, stateDir)
	require.NoError(t, err)
	require.NotNil(t, broken)
	require.Equal(t, firstRun, broken.ID)
	_, err = run.Start(n, stateDir, nil, nil)
	var stands *run.BrokenError
	require.ErrorAs(t, err, &stands)

	in, err := run.Inspect(context.Background(), n, dir, kinds)
	require.NoError(t, err)
	require.Equal(t, !rebooted, in.SameBoot)
	require.Len(t, in.Lines(), 4)
	for i, s := range in.Steps {
		content, _ := n.ReadString([]string{"/etc/new", "/etc/there", "/tmpfs/loaded", "/etc/replaced"}[i])
		require.Equal(t, content == []string{"new", "there", "loaded", "replaced"}[i], s.Now, s.ID)
		require.Empty(t, s.Unknown)
		if s.Now {
			require.NotContains(t, s.Text, "gone")
		}
	}
}

// requireUnspoiled: no step was measured anew over its own half-made change.
func requireUnspoiled(t *testing.T, n *hostops.Node, dir string) {
	for _, s := range summary(t, n, dir).Steps {
		require.NotContains(t, string(s.Action), `"Spoiled":true`)
	}
}

// The same while a failed run is being undone.
func TestRunnerKilledWhileUndoingCanBeResumedAndRolledBack(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	n, p := node(t)
	fault(t, n, "replaced", "do fail")
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 7, execute(n, dir, journal.ModeRun))
	events := boundaries(t, n, dir)
	for at := 10; at <= events+2; at++ {
		for _, mode := range []journal.Mode{journal.ModeResume, journal.ModeRollback} {
			t.Run(fmt.Sprintf("at event %d, %s", at, mode), func(t *testing.T) {
				n, p := node(t)
				fault(t, n, "replaced", "do fail")
				killAt := at
				if at > events { // inside an undo
					killAt = 0
					fault(t, n, []string{"new", "loaded"}[at-events-1], "undo kill")
				}
				dir := prepareRun(t, n, p, firstRun)
				require.True(t, runChild(t, n, journal.ModeRun, killAt))
				require.NoError(t, n.RemoveAll("/faults"))
				require.Equal(t, 0, execute(n, dir, mode))
				if mode == journal.ModeResume {
					require.Equal(t, want.after, fingerprint(t, n))
					require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
				}
				require.Equal(t, want.before, fingerprint(t, n))
			})
		}
	}
}

// And while it is being rolled back.
func TestRunnerKilledWhileRollingBackGoesOnRollingBack(t *testing.T) {
	want := undisturbed(t)
	for at := 1; at <= 7; at++ {
		n, p := node(t)
		dir := prepareRun(t, n, p, firstRun)
		require.Equal(t, 0, execute(n, dir, journal.ModeRun))
		require.True(t, runChild(t, n, journal.ModeRollback, at), "at %d", at)
		require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
		require.Equal(t, want.before, fingerprint(t, n))
	}
}

func TestVolatileStepIsKnownToBeGoneAfterAReboot(t *testing.T) {
	n, p := node(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	reboot(t, n)
	in, err := run.Inspect(context.Background(), n, dir, kinds)
	require.NoError(t, err)
	require.Equal(t, 2, in.Next)
	require.True(t, in.Steps[2].Volatile)
	require.Contains(t, in.Lines()[2], "gone since the reboot")
	require.True(t, in.Steps[0].Now)
}

// "Done" is said of what was measured in this boot, not of what an earlier one
// wrote down.
func TestResumedRunMeasuresAnew(t *testing.T) {
	n, p := node(t)
	p.Steps = append(p.Steps, plan.Step{ID: "verify", Action: &measure{}})
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	require.Equal(t, "boot-1", summary(t, n, dir).Devices[0].Text)
	reboot(t, n)
	require.Equal(t, 0, execute(n, dir, journal.ModeResume))
	require.Equal(t, "boot-2", summary(t, n, dir).Devices[0].Text)
	require.True(t, n.Exists("/tmpfs/loaded"))
}

func TestMeasuredDeviceThatDoesNotWorkFailsTheRunAndIsReported(t *testing.T) {
	n, p := node(t)
	before := fingerprint(t, n)
	p.Steps = append([]plan.Step{{ID: "verify", Action: &measure{}}}, p.Steps...)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 7, execute(n, dir, journal.ModeRun))
	s := summary(t, n, dir)
	require.False(t, s.Devices[0].OK)
	require.Contains(t, s.Message, "0000:03:00.0 has no driver")
	require.Equal(t, before, fingerprint(t, n))
}

func TestWhatSomethingElseTookAwayIsSaid(t *testing.T) {
	n, p := node(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	require.NoError(t, n.Remove("/etc/new"))
	in, err := run.Inspect(context.Background(), n, dir, kinds)
	require.NoError(t, err)
	require.Contains(t, in.Steps[0].Text, "something else took it away")
	require.False(t, in.Steps[0].Volatile)
}

// A power cut that tears the journal's last two lines, at every byte: resume
// and rollback still end right.
func TestTornJournalStillResumesAndRollsBack(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	n, p := node(t)
	prepareRun(t, n, p, firstRun)
	require.True(t, runChild(t, n, journal.ModeRun, 8)) // load is prepared
	whole, err := n.ReadFile(path.Join(run.Dir(stateDir, firstRun), journal.File))
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	require.Contains(t, lines[len(lines)-1], `"state":"prepared"`)
	kept := len(strings.Join(lines[:len(lines)-2], ""))
	for at := kept; at <= len(whole); at++ {
		for _, mode := range []journal.Mode{journal.ModeResume, journal.ModeRollback} {
			n, p := node(t)
			dir := prepareRun(t, n, p, firstRun)
			require.NoError(t, n.WriteFile("/etc/new", []byte("new"), 0o644)) // what step 1 made
			require.NoError(t, n.WriteFile(path.Join(dir, journal.File), whole[:at], 0o600))
			require.Equal(t, 0, execute(n, dir, mode), "cut at %d", at)
			if mode == journal.ModeResume {
				require.Equal(t, want.after, fingerprint(t, n), "cut at %d", at)
				require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
			}
			require.Equal(t, want.before, fingerprint(t, n), "cut at %d", at)
		}
	}
}
