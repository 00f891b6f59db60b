package workflow_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// put lays an image of some size into the store, fetched so many hours ago.
func put(t *testing.T, e *workflow.Engine, name string, bytes, hours int) {
	t.Helper()
	dir := e.StateDir() + "/store/" + name
	require.NoError(t, e.Node.WriteFile(dir+"/file", []byte(strings.Repeat("x", bytes)), 0o644))
	at := time.Now().Add(-time.Duration(hours) * time.Hour)
	require.NoError(t, os.Chtimes(e.Node.Path(dir), at, at))
}

func limit(t *testing.T, e *workflow.Engine, size string) {
	t.Helper()
	require.NoError(t, e.Node.WriteFile(actions.SettingsFile, []byte("apiVersion: fitout/v1\nkind: Config\nstore: {limit: "+size+"}\n"), 0o644))
}

func TestImagesThatNothingNeedsLeaveTheStoreOldestFirst(t *testing.T) {
	e := engineOn(t)
	put(t, e, "sha256-aa", 600<<10, 3)
	put(t, e, "sha256-bb", 600<<10, 2)
	put(t, e, "sha256-cc.part", 600<<10, 1)
	gone, err := e.TidyStore()
	require.NoError(t, err)
	require.Empty(t, gone, "within the limit everything stays")
	limit(t, e, "1MiB")
	gone, err = e.TidyStore("sha256:aa")
	require.NoError(t, err)
	require.Len(t, gone, 2)
	require.Equal(t, "sha256:bb", gone[0].Digest)
	require.Equal(t, "sha256:cc", gone[1].Digest, "the remains of a fetch count too")
	st, err := e.Store()
	require.NoError(t, err)
	require.Len(t, st.Images, 1)
	require.EqualValues(t, 600<<10, st.Bytes)
	require.EqualValues(t, 1<<20, st.Limit)
}

func TestRunTidiesTheStoreAndLeavesTheImageOfItsDriver(t *testing.T) {
	e := engineOn(t)
	put(t, e, "sha256-aa", 10, 1)
	limit(t, e, "0KiB")
	p, err := e.Plan(t.Context(), accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100"), nil)
	require.NoError(t, err)
	const id = "2026-1130-01"
	require.NoError(t, plan.Save(e.Node, run.Dir(e.StateDir(), id), p))
	require.Zero(t, e.Execute(t.Context(), id, run.Options{}))
	st, err := e.Store()
	require.NoError(t, err)
	require.Len(t, st.Images, 1)
	require.True(t, st.Images[0].Needed)
}

func TestStoreIsLeftAloneWhenItIsNotKnownWhatIsNeeded(t *testing.T) {
	e := engineOn(t)
	put(t, e, "sha256-aa", 10, 1)
	limit(t, e, "0KiB")
	require.NoError(t, e.Node.WriteFile(e.StateDir()+"/drivers/x.json", nil, 0o644))
	gone, err := e.TidyStore()
	require.Error(t, err)
	require.Empty(t, gone)
}
