package workflow_test

import (
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops/host"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// Open and proprietary builds of one driver are in one image, each a catalog
// entry of its own directory. Neither is judged, kept or removed by the other's
// files.
func TestTwoFlavoursOfOneImageDoNotShareAStoreDirectory(t *testing.T) {
	e := engineOn(t)
	module, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/e100.ko")
	require.NoError(t, err)
	other, err := images.OtherBuild(module)
	require.NoError(t, err)
	img, err := images.Of(v1.Config{}, images.File{Name: "opt/open/e100.ko", Data: module}, images.File{Name: "opt/proprietary/e100.ko", Data: other})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, images.WriteLayout(img, dir, "1"))
	entry := func(name string) catalog.Driver {
		return catalog.Driver{Name: name, Modules: []string{"e100"}, DirName: "/opt/" + name, Images: []catalog.Mapping{{Kernel: ".*", Reference: "oci:" + dir + ":1"}}}
	}
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{entry("open"), entry("proprietary")}}
	s, err := e.Survey(t.Context())
	require.NoError(t, err)
	examine := func(name string) (*workflow.Examined, string) {
		d, ok := e.Catalog.Driver(name)
		require.True(t, ok)
		x, err := e.Examine(t.Context(), s, s.Kinds[0], workflow.Offer{Driver: d, References: map[string]string{nodes.Release: d.Images[0].Reference}}, nil)
		require.NoError(t, err)
		inv := x.Inventories[nodes.Release]
		require.Len(t, inv.Kernels, 1)
		require.Equal(t, "opt/"+name+"/e100.ko", inv.Kernels[0].Modules[0].Path)
		return x, x.Stores[nodes.Release]
	}
	_, open := examine("open")
	x, proprietary := examine("proprietary")
	require.NotEqual(t, open, proprietary)
	_, again := examine("open")
	require.Equal(t, open, again)

	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "open", When: answers.Persist}}
	a.AcceptRisks = []string{"unsure-verdict", "unsigned-module"}
	carryOut(t, e, a)
	require.NoError(t, e.Forget(x))
	require.False(t, e.Node.Exists(proprietary), "it was declined")
	require.True(t, e.Node.Exists(open), "its flavour is installed")
	c, err := e.CheckKernel(t.Context(), nodes.Release, "")
	require.NoError(t, err)
	require.Equal(t, finding.Unsure, c.Drivers[0].Verdict, "the stored build of its own flavour is found")
	examine("proprietary")
	st, err := e.Store()
	require.NoError(t, err)
	require.Len(t, st.Images, 2)
	require.Equal(t, st.Images[0].Digest, st.Images[1].Digest)
	inv := x.Inventories[nodes.Release]
	second := &run.RecordDriver{StateDir: e.StateDir(), Record: run.Record{Driver: plan.Driver{Name: "proprietary", Digest: inv.Digest, Place: inv.Want().Place()}}}
	require.NoError(t, second.Prepare(t.Context(), e.Node))
	require.NoError(t, second.Do(t.Context(), e.Node, host.Quiet{}))
	pl, err := e.PlanRemove(t.Context(), "open")
	require.NoError(t, err)
	var gone []string
	for _, step := range pl.Steps {
		if r, ok := step.Action.(*actions.RemoveTree); ok {
			gone = append(gone, r.Dir)
		}
	}
	require.Contains(t, gone, open)
	require.NotContains(t, gone, proprietary)
}
