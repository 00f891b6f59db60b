package workflow_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/nodes"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
)

// TestDriverThatBelongsToNoDeviceIsLoadedAndTakenBack asks for a module that
// drives no card: it is loaded as the answers say, no device is touched or
// looked at, and rollback takes it away again.
func TestDriverThatBelongsToNoDeviceIsLoadedAndTakenBack(t *testing.T) {
	e := engineOn(t)
	e.Catalog = &catalog.Catalog{Date: "2026-11-28", Drivers: []catalog.Driver{{Name: "virtual-net", Modules: []string{"dummy"}, Licence: &catalog.Licence{ID: "virtual-net", File: "licenses/LICENSE"},
		Images: []catalog.Mapping{{Kernel: ".+", Reference: driverImage(t, nodes.Release, nodes.Release, "dummy")}}}}}
	a := answers.Default()
	a.Drivers = []answers.Extra{{Name: "virtual-net", When: answers.LoadNow}}
	p, err := e.Plan(context.Background(), a, nil)
	require.Error(t, err, "its licence is asked for like any other")
	require.Nil(t, p)
	a.Licences = []answers.Licence{{ID: "LICENSE", Digest: licenceDigest(), Accepted: true}}
	p, err = e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, p.Drivers[0].Devices)
	a.AcceptRisks = p.Missing
	p, err = e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, p.Missing)

	code, sum := execute(t, e, p)
	require.Zero(t, code, sum.Message)
	require.Equal(t, journal.OutcomeDone, sum.Outcome)
	require.Empty(t, sum.Devices)
	require.True(t, e.Node.Exists("/sys/module/dummy"))

	again, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, again.Steps, "what is in place is not done again")
}
