package workflow_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// SUSE's modprobe loads only what the distribution supports: at boot it would
// refuse a driver that was loaded by its file. The risk says what is done about
// it, the driver's own file does it, and it goes with the driver.
func TestDriverTheDistributionDoesNotSupportComesUpAtBoot(t *testing.T) {
	e := engineOn(t)
	const policy = "/etc/modprobe.d/10-unsupported-modules.conf"
	require.NoError(t, e.Node.WriteFile(policy, []byte("allow_unsupported_modules 0\n"), 0o644))
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNowPersist), "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	require.Contains(t, p.Missing, "unsupported-module")

	carry := func(p *plan.Plan) {
		code, sum := execute(t, e, p)
		require.Equal(t, 0, code, "%+v", sum)
	}
	a.AcceptRisks = append(a.AcceptRisks, p.Missing...)
	for range 2 { // also when the driver is kept already
		p, err = e.Plan(t.Context(), a, nil)
		require.NoError(t, err)
		require.Empty(t, p.Missing)
		require.NotEmpty(t, p.Steps)
		carry(p)
		conf, err := e.Node.ReadString("/etc/modprobe.d/fitout-e100.conf")
		require.NoError(t, err)
		require.Contains(t, conf, "\nallow_unsupported_modules 1\n")
		a.Devices[0].Parameters = map[string][]string{"e100": {"debug=3"}}
	}

	rm, err := e.PlanRemove(t.Context(), "e100")
	require.NoError(t, err)
	carry(rm)
	require.False(t, e.Node.Exists("/etc/modprobe.d/fitout-e100.conf"))
	left, err := e.Node.ReadString(policy)
	require.NoError(t, err)
	require.Equal(t, "allow_unsupported_modules 0", left)
}
