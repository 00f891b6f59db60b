package workflow_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// spoil flips a bit of the driver's module in the image store.
func spoil(t *testing.T, e *workflow.Engine) {
	t.Helper()
	files := stored(t, e)
	require.Len(t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	raw[len(raw)-2000] ^= 1
	require.NoError(t, os.WriteFile(files[0], raw, 0o644))
}

// With the source at hand a damaged store is only slower: planning fetches the
// image anew, and so does the run that finds it damaged at its first step.
func TestDamagedStoreIsFetchedAgainBeforeAnythingIsLaidOut(t *testing.T) {
	e := engineOn(t)
	ref := driverImage(t, nodes.Release, nodes.Release, "e100")
	a := accepting(answersFor(ref, answers.LoadNow), "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	spoil(t, e)
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	want, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/e100.ko")
	require.NoError(t, err)
	got, err := os.ReadFile(stored(t, e)[0])
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))

	spoil(t, e)
	_, err = e.Plan(t.Context(), p.Answers, nil) // pinned
	require.NoError(t, err)
	got, err = os.ReadFile(stored(t, e)[0])
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

// Without the source nothing is judged or laid out from a damaged store, and each
// who reads it says so: a plan, a run, the check and the gate.
func TestDamagedStoreIsNamedWhereTheSourceIsGone(t *testing.T) {
	r, e := kept(t)
	fresh := keptFrom(t, r)
	a := answers.Default()
	a.OSTag, a.Secrets.RegistryAuth = osTag, &answers.SecretRef{File: registryAuth}
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "e100-image", When: answers.LoadNow}}
	a.AcceptRisks = []string{"unsure-verdict"}
	p, err := fresh.Plan(t.Context(), accepting(a, "gpl"), nil)
	require.NoError(t, err)
	r.Close()
	spoil(t, e)
	spoil(t, fresh)

	_, err = fresh.Plan(t.Context(), p.Answers, nil)
	require.ErrorContains(t, err, "is not what was fetched any more")
	require.Equal(t, workflow.ExitUnreachable, workflow.ExitOf(err))
	code, sum := execute(t, fresh, p)
	require.Equal(t, workflow.ExitUndone, code, "%+v", sum)
	require.Contains(t, sum.Message, "is not what was fetched any more")
	require.Equal(t, image.Unreachable, sum.Cause.Code)

	c, err := e.CheckKernel(t.Context(), "", "")
	require.NoError(t, err)
	require.False(t, c.OK)
	require.Equal(t, finding.Code("store-damaged"), c.Drivers[0].Findings[0].Code)
	require.Contains(t, strings.Join(c.Drivers[0].Findings[0].Evidence, " "), "e100.ko")

	var out bytes.Buffer
	require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out))
	require.Contains(t, out.String(), "is not what was fetched any more")
}

// A run whose image cannot be had ends with the node as it was: nothing of it in
// the store but what a next try goes on from, no lock, and nothing to remove.
func TestRunWithoutItsImageLeavesNothingBehind(t *testing.T) {
	e := engineOn(t)
	ref := guarded(t, e)
	file, err := e.Login(t.Context(), ref, images.Username, []byte(images.Password), false)
	require.NoError(t, err)
	a := accepting(answersFor(ref, answers.LoadNow), "e100")
	a.Secrets.RegistryAuth = &answers.SecretRef{File: file}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	x, err := examineGiven(t, e, ref)
	require.NoError(t, err)
	require.NoError(t, e.Forget(x))
	require.NoError(t, e.Node.WriteFile(file, []byte(`{"auths":{}}`), 0o600)) // the login is gone
	code, sum := execute(t, e, p)
	require.Equal(t, workflow.ExitUndone, code, "%+v", sum.Message)
	require.Equal(t, image.Unauthorised, sum.Cause.Code)
	require.Empty(t, stored(t, e))
	_, held := run.Holder(e.Node)
	require.False(t, held)
	_, err = e.PlanRemove(t.Context(), "e100")
	require.Equal(t, workflow.ExitNoMatch, workflow.ExitOf(err), "%v", err)
}
