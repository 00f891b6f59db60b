package workflow_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/nodes"
	"fitout/workflow/finding"
)

// An entry may leave it to the image's own modules which devices it serves.
func TestEntryWithoutDevicesIsOfferedAndItsImageDecides(t *testing.T) {
	e := engineOn(t)
	serves := driverImage(t, nodes.Release, nodes.Release, "e100")
	other := driverImage(t, nodes.Release, nodes.Release, "rm3100-core")
	for name, ref := range map[string]string{"open-serves": serves, "open-other": other} {
		e.Catalog.Drivers = append(e.Catalog.Drivers, catalog.Driver{Name: name, Images: []catalog.Mapping{{Literal: nodes.Release, Reference: ref}}})
	}
	s, err := e.Hardware(context.Background())
	require.NoError(t, err)
	verdicts := map[string]finding.Verdict{}
	for _, o := range e.Offers(s, s.Kinds[0]) {
		x, err := e.Examine(context.Background(), s, s.Kinds[0], o, nil)
		require.NoError(t, err)
		verdicts[o.Driver.Name] = x.Judgements[0].Verdict
	}
	require.Equal(t, finding.Blocked, verdicts["open-other"])
	require.NotEqual(t, finding.Blocked, verdicts["open-serves"])
	require.Len(t, verdicts, 2)
	for _, o := range e.Offers(s, s.Kinds[1]) {
		require.NotContains(t, o.Driver.Name, "open-", "a device that works is offered nothing it did not match")
	}
}
