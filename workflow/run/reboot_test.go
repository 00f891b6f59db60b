package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

const goOn = "/etc/systemd/system/fitout-go-on.service"

// rebootPlan restarts the node between its second and its third step.
func rebootPlan(t *testing.T) (*hostops.Node, *plan.Plan) {
	n, p := node(t)
	require.NoError(t, n.MkdirAll("/proc", 0o755))
	require.NoError(t, n.WriteFile("/proc/modules", nil, 0o444))
	step := plan.Step{ID: "reboot", Action: &run.Reboot{Into: "",
		Hook: &host.WriteFiles{Title: "go on", Files: []host.TextFile{{Path: goOn, Content: "[Service]\n", Mode: 0o644}}}}}
	p.Steps = append(p.Steps[:2], append([]plan.Step{step}, p.Steps[2:]...)...)
	return n, p
}

func TestRunWithARestartGoesOnAfterIt(t *testing.T) {
	n, p := rebootPlan(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	require.NotEqual(t, "boot-1", bootOf(t, n))
	require.False(t, n.Exists(goOn), "what goes on after the boot is taken away")
	events, err := journal.Read(n.Path(dir))
	require.NoError(t, err)
	var states []journal.State
	for _, e := range events {
		if e.Step == "reboot" && e.State != "" {
			states = append(states, e.State)
		}
	}
	require.Equal(t, []journal.State{journal.Running, journal.Prepared, journal.Rebooting, journal.OK}, states)
}

// The restart came, and the process went with it: the next boot finds the run
// that waits for it, and only that one.
func TestBootGoesOnWithTheRunThatWaitsForIt(t *testing.T) {
	n, p := rebootPlan(t)
	before := fingerprint(t, n)
	dir := prepareRun(t, n, p, firstRun)
	require.True(t, runChild(t, n, journal.ModeRun, 9)) // at the event that says it restarts
	require.True(t, summary(t, n, dir).Rebooting)
	id, err := run.WaitsForBoot(n, stateDir)
	require.NoError(t, err)
	require.Empty(t, id, "the boot has not come yet")

	reboot(t, n)
	id, err = run.WaitsForBoot(n, stateDir)
	require.NoError(t, err)
	require.Equal(t, firstRun, id)
	require.Equal(t, 0, execute(n, dir, journal.ModeResume))
	require.Equal(t, "boot-2", bootOf(t, n), "once is enough")
	require.False(t, n.Exists(goOn))
	id, err = run.WaitsForBoot(n, stateDir)
	require.NoError(t, err)
	require.Empty(t, id)
	require.Equal(t, 0, execute(n, dir, journal.ModeRollback))
	require.Equal(t, before, fingerprint(t, n))
}

func TestPowerCutIsNotTakenForAPlannedRestart(t *testing.T) {
	n, p := rebootPlan(t)
	prepareRun(t, n, p, firstRun)
	require.True(t, runChild(t, n, journal.ModeRun, 4)) // inside an earlier step
	reboot(t, n)
	id, err := run.WaitsForBoot(n, stateDir)
	require.NoError(t, err)
	require.Empty(t, id)
}

// A run whose restart boots into another kernel than its plan was made for goes
// on when that is the kernel it restarts into, and not in any other.
func TestRunGoesOnOnlyOnTheKernelItRestartedInto(t *testing.T) {
	for into, exit := range map[string]int{"6.1.0-58-amd64": 0, "6.1.0-99-amd64": 6} {
		n, p := rebootPlan(t)
		require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte("6.1.0-57-amd64\n"), 0o444))
		p.Kernel = "6.1.0-57-amd64"
		p.Steps[2].Action.(*run.Reboot).Into = into
		dir := prepareRun(t, n, p, firstRun)
		require.True(t, runChild(t, n, journal.ModeRun, 9))
		reboot(t, n)
		require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte("6.1.0-58-amd64\n"), 0o444))
		require.Equal(t, exit, execute(n, dir, journal.ModeResume), into)
	}
}

func bootOf(t *testing.T, n *hostops.Node) string {
	boot, err := n.ReadString("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	return boot
}
