package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
	"fitout/workflow/journal"
)

func TestResultOfAFailedRunSaysWhatToDo(t *testing.T) {
	root := nodes.Build(t, e100Card, nodes.Disk)
	const id = "2026-1130-01"
	dir := filepath.Join(root, "var/lib/fitout/runs", id)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	w, err := journal.Create(dir)
	require.NoError(t, err)
	for _, e := range []journal.Event{
		{Event: journal.Start, Run: id, Of: 1, Steps: []journal.StepTitle{{ID: "fetch"}}},
		{Event: journal.StepEv, Step: "fetch", N: 1, Of: 1, State: journal.Failed, Code: "unreachable", Message: "no route to host"},
		{Event: journal.StepEv, Step: "fetch", N: 1, Of: 1, State: journal.Undone},
		{Event: journal.Done, Outcome: journal.OutcomeUndone, Exit: 7, Message: "step 1 fetch failed: no route to host"},
	} {
		require.NoError(t, w.Append(e))
	}
	require.NoError(t, w.Close())
	r := call(t, "--root", root, "attach", id)
	require.Equal(t, 7, r.code, r.err)
	require.Contains(t, r.out, "\nCure:  check name, route and proxy; ")
	require.Contains(t, r.out, "\nHelp:  fitout explain unreachable\n")
	r = call(t, "--root", root, "attach", id, "--json")
	require.Contains(t, r.out, `"code": "unreachable"`)
}
