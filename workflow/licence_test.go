package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// TestAcceptanceIsForOneTextAndKeptOnTheNode accepts another text first, which
// does not count; where this one was accepted in an earlier run, nobody is asked
// for it again.
func TestAcceptanceIsForOneTextAndKeptOnTheNode(t *testing.T) {
	e, ctx := engineOn(t), context.Background()
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow)
	a.Licences = []answers.Licence{{ID: "e100", Digest: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", Accepted: true}}
	_, err := e.Plan(ctx, a, nil)
	require.ErrorContains(t, err, "has another text than the one that was accepted")
	require.Equal(t, workflow.ExitPerson, workflow.ExitOf(err))

	s, err := e.Survey(ctx)
	require.NoError(t, err)
	record, err := json.Marshal([]answers.Licence{{ID: "e100", Digest: licenceDigest(), Accepted: true, By: "ops@example.com"}})
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile(s.Host.StateDir+"/licences.json", record, 0o600)) // as an earlier run left it
	x, err := e.Examine(ctx, s, s.Kinds[0], e.OfferImage(s, s.Kinds[0], a.Devices[0].Image.Reference), nil)
	require.NoError(t, err)
	require.True(t, x.Licences[0].Accepted)
	a.Licences = nil
	_, err = e.Plan(ctx, a, nil)
	require.NoError(t, err, "it is not asked for again")
}

// A licence that the catalog names and the image does not bring is not taken for
// no licence.
func TestLicenceFileThatTheImageLacksHasToBeAccepted(t *testing.T) {
	e, ctx := engineOn(t), context.Background()
	s, err := e.Survey(ctx)
	require.NoError(t, err)
	offer := e.OfferImage(s, s.Kinds[0], driverImage(t, nodes.Release, nodes.Release, "e100"))
	offer.Driver.Licence = &catalog.Licence{ID: "vendor", File: "/licenses/EULA"}
	x, err := e.Examine(ctx, s, s.Kinds[0], offer, nil)
	require.NoError(t, err)
	require.Len(t, x.Licences, 1)
	require.Equal(t, "vendor", x.Licences[0].ID)
	require.Contains(t, x.Licences[0].Text, "/licenses/EULA")
	require.False(t, x.Licences[0].Accepted)
}
