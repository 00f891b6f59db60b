package workflow_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// An upgrade of a package has taken the running kernel's modules away.
func TestModulesOfTheRunningKernelThatAreGone(t *testing.T) {
	e := engineOn(t)
	ref := driverImage(t, nodes.Release, nodes.Release, "e100")
	states := func() map[string]finding.State {
		s, err := e.Survey(context.Background())
		require.NoError(t, err)
		out := map[string]finding.State{}
		for _, d := range s.Devices {
			out[d.Address] = d.State
		}
		return out
	}
	before := states()
	require.NoError(t, e.Node.RemoveAll("/lib/modules/"+nodes.Release))

	require.Equal(t, before, states(), "no device loses its driver by it")
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	require.Equal(t, nodes.Release, s.Running())
	told := false
	for _, d := range s.Devices {
		for _, f := range d.Findings {
			told = told || f.Code == "modules-gone"
		}
	}
	require.True(t, told)

	a := accepting(answersFor(ref, answers.LoadNow), "e100")
	a.AcceptRisks = nil
	p, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"unsure-verdict"}, p.Missing, "not without a risk that somebody names")
	require.True(t, slices.ContainsFunc(p.Findings, func(f finding.Finding) bool {
		return f.Code == "modules-gone" && f.Hint == "reboot"
	}), "%v", p.Findings)
}
