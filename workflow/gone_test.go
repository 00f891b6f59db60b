package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops/host"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// A node without the files that bring a driver back at the next boot, or that stop
// an upgrade, is not as recorded, although all is well now.
func TestFilesByWhichADriverIsKeptAreMissedBeforeTheNextBoot(t *testing.T) {
	e := engineOn(t)
	gated(t, e)
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "new-e100", Modules: []string{"e100"},
		Images: []catalog.Mapping{{Kernel: ".*", Reference: driverImage(t, nodes.Release, nodes.Release, "e100")}}}}}
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "new-e100", When: answers.LoadNowPersist}}
	a.AcceptRisks = []string{"unsure-verdict"}
	carryOut(t, e, a)
	require.NoError(t, e.Allow("6.9.9"))
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.False(t, st.Drifted())
	require.Contains(t, strings.Join(st.Text(), "\n"), "let through once (fitout allow): 6.9.9")

	const conf = "/etc/modprobe.d/fitout-new-e100.conf"
	require.NoError(t, e.Node.Remove(conf))
	st, err = e.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{conf + " is not there any more, and the driver is kept by that; fitout persist new-e100 writes what is missing"}, st.Drivers[0].Drift)
}

func TestStatusSaysWhatAnUpgradeWouldMeet(t *testing.T) {
	st := workflow.Status{Drivers: []workflow.DriverStatus{{Name: "igb", When: answers.LoadNowPersist}}}
	for want, gate := range map[string]workflow.GateStatus{
		"would lose a driver is stopped": {Armed: true, Strength: host.BlocksInstall},
		"NOT ARMED":                      {Strength: host.BlocksInstall},
		"is reported, it cannot be":      {Armed: true, Strength: host.Advisory},
		"none, nothing here stops":       {Strength: host.NoGate},
	} {
		st.Gate = gate
		require.Contains(t, strings.Join(st.Text(), "\n"), want)
	}
	st.Drivers[0].When = answers.LoadNow
	require.NotContains(t, strings.Join(st.Text(), "\n"), "Upgrade gate")
}

func TestNothingIsAllowedWhereNothingStopsAnUpgrade(t *testing.T) {
	e := engineOn(t)
	require.NoError(t, e.Node.WriteFile("/etc/os-release", []byte("ID=slackware\nNAME=Slackware\n"), 0o644))
	err := e.Allow("6.9.9")
	require.Equal(t, workflow.ExitUnsupported, workflow.ExitOf(err))
	require.ErrorContains(t, err, "nothing stops an upgrade of this system (unknown Linux)")
}
