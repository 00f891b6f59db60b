package tui

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/testdata/nodes"
	"fitout/tui/internal/fake"
	"fitout/workflow"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// inProcess is the real engine whose runner is this process.
type inProcess struct{ *workflow.Engine }

func (e inProcess) Start(ctx context.Context, p *plan.Plan) (string, error) {
	const id = "2026-1130-01"
	dir := run.Dir(e.StateDir(), id)
	if err := plan.Save(e.Node, dir, p); err != nil {
		return "", err
	}
	if code := run.Execute(ctx, e.Node, dir, workflow.Kinds(), run.Options{}); code != 0 {
		return id, fmt.Errorf("exit %d", code)
	}
	return id, nil
}

// driverImage is an OCI layout with e100 of Debian's kernel, and a licence.
func driverImage(t *testing.T) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(name string, data []byte) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	module, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/e100.ko")
	require.NoError(t, err)
	put("opt/lib/modules/"+nodes.Release+"/e100.ko", module)
	put("licenses/LICENSE", []byte("You may use this driver.\n"))
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	cfg, err := img.ConfigFile()
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: cfg.RootFS})
	require.NoError(t, err)
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "1"})))
	return "oci:" + dir + ":1"
}

// TestWizardFitsACardOutWithTheRealEngine walks the screens over the engine
// itself, on a built node whose kernel has no module for its card.
func TestWizardFitsACardOutWithTheRealEngine(t *testing.T) {
	root := nodes.Build(t, nodes.Bridge, nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"}, nodes.Disk)
	n := hostops.At(root, nil)
	tree := "/lib/modules/" + nodes.Release
	for _, f := range []string{"mii.ko", "Module.symvers"} {
		data, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/" + f)
		require.NoError(t, err)
		to := tree + "/" + f
		if f == "mii.ko" {
			to = tree + "/kernel/drivers/net/" + f
		}
		require.NoError(t, n.WriteFile(to, data, 0o644))
	}
	dep, err := n.ReadFile(tree + "/modules.dep")
	require.NoError(t, err)
	require.NoError(t, n.WriteFile(tree+"/modules.dep", append(dep, "kernel/drivers/net/mii.ko:\n"...), 0o644))
	e := inProcess{&workflow.Engine{Node: n, Catalog: &catalog.Catalog{Date: "2026-11-28"}, Version: "0.1.0"}}

	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.on("1/7 Hardware").sees("8086:1229", "NO IMAGE", "SIMULATED NODE").keys("space", "n")
	for i := 0; i < 30 && !h.at("Done"); i++ {
		switch {
		case h.at("2/7"):
			h.keys("3", "enter")
		case h.at("3/7 Image > other image"):
			h.keys(driverImage(t), "enter")
		case h.at("3/7") && h.m.c.Choices.Kinds[h.m.c.Choices.Selected()[0]].Offers == nil:
			h.keys("c")
		case h.at("3/7"):
			h.keys("1", "enter")
		case h.at("4/7"):
			h.sees("You may use this driver.").keys("accept", "enter", "enter")
		case h.at("5/7 Risk"):
			h.keys(h.risk(), "enter")
		case h.at("5/7"):
			h.keys("2", "enter") // now only
		case h.at("6/7"):
			h.sees("e100").keys("run", "enter")
		default:
			h.wait(2e9)
		}
		h.wait(1e9)
	}
	h.on("Done").sees("1 of 1 device as wanted", "fitout rollback 2026-1130-01")
	link, err := n.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
	require.NoError(t, err)
	require.Equal(t, "e100", filepath.Base(link))
	require.FileExists(t, h.m.c.AnswersPath)
}
