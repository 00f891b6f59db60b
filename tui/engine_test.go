package tui

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/tui/internal/fake"
	"fitout/workflow"
	"fitout/workflow/journal"
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
	return layoutOf(t, packed(t, map[string][]byte{"e100.ko": moduleFile(t, "e100.ko")}))
}

// moduleFile is a module of Debian's kernel.
func moduleFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/" + name)
	require.NoError(t, err)
	return data
}

// packed is an image with those modules, and a licence.
func packed(t *testing.T, modules map[string][]byte) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(name string, data []byte) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		put("opt/lib/modules/"+nodes.Release+"/"+name, modules[name])
	}
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
	return img
}

// layoutOf is the reference of an image in an OCI layout.
func layoutOf(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, images.WriteLayout(img, dir, "1"))
	return "oci:" + dir + ":1"
}

// realEngine is the engine itself on a built node whose kernel has no module for
// its card.
func realEngine(t *testing.T) *workflow.Engine {
	t.Helper()
	return realEngineWith(t, nodes.Bridge, nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"}, nodes.Disk)
}

// realEngineWith is that on a node of those cards.
func realEngineWith(t *testing.T, cards ...nodes.Card) *workflow.Engine {
	t.Helper()
	root := nodes.Build(t, cards...)
	return engineOn(t, root)
}

// engineOn is the engine on a node to which the kernel's own mii and table of
// symbol versions are added.
func engineOn(t *testing.T, root string) *workflow.Engine {
	t.Helper()
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
	return &workflow.Engine{Node: n, Catalog: &catalog.Catalog{Date: "2026-11-28"}, Version: "0.1.0"}
}

// toTheEnd answers every question of the real engine until a page of that title.
func (h *harness) toTheEnd(image, title string) {
	h.t.Helper()
	for i := 0; i < 40 && !h.at(title); i++ {
		switch {
		case h.at("1/7"):
			h.keys("space", "n")
		case h.at("2/7"):
			h.keys("3", "enter")
		case h.at("3/7 Image > other image"):
			h.keys(image, "enter")
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
	h.on(title)
}

// TestWizardFitsACardOutWithTheRealEngine walks the screens over the engine
// itself, and looks at what it offers besides: the kernel's lines about a card,
// past runs, the bundle.
func TestWizardFitsACardOutWithTheRealEngine(t *testing.T) {
	e := inProcess{realEngine(t)}
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.on("1/7 Hardware").sees("8086:1229", "NO IMAGE", "SIMULATED NODE")
	h.toTheEnd(driverImage(t), "Done")
	h.sees("1 of 1 device as wanted", "fitout rollback 2026-1130-01")
	link, err := e.Node.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
	require.NoError(t, err)
	require.Equal(t, "e100", filepath.Base(link))
	require.FileExists(t, h.m.c.AnswersPath)

	again := &harness{t: t, now: fake.Began}
	again.begin(e, basic, 80, 24)
	again.on("1/7").keys("end", "enter").sees("0000:05:00.0", "e100").keys("b", "H").on("Past runs").sees("2026-1130-01", "DONE")
	again.keys("enter").on("Run 2026-1130-01").sees("e100")
}

// TestDeclinedImageLeavesTheStoreOfTheRealEngine declines, and finds no module
// file below the state directory.
func TestDeclinedImageLeavesTheStoreOfTheRealEngine(t *testing.T) {
	e := inProcess{realEngine(t)}
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.toTheEnd(driverImage(t), "4/7 Licence")
	require.NotEmpty(t, modulesIn(t, e.Node.Path(e.StateDir())))
	h.keys("d").on("3/7 Image").sees("Declined: nothing of it is kept.")
	require.Empty(t, modulesIn(t, e.Node.Path(e.StateDir())))
	require.Empty(t, e.Current())
}

// modulesIn lists the module files below a directory.
func modulesIn(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(p, ".ko") {
			found = append(found, p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	return found
}

// held is the real engine whose runner works beside the screen and waits before
// a step until it is let go.
type held struct {
	*workflow.Engine
	step     string
	at, free chan struct{}
	exit     chan int
}

func (e held) Start(_ context.Context, p *plan.Plan) (string, error) {
	const id = "2026-1130-01"
	dir := run.Dir(e.StateDir(), id)
	if err := plan.Save(e.Node, dir, p); err != nil {
		return "", err
	}
	go func() {
		e.exit <- run.Execute(context.Background(), e.Node, dir, workflow.Kinds(), run.Options{Observe: func(ev journal.Event) {
			if ev.Event == journal.StepEv && ev.State == journal.OK && ev.Step == e.step {
				close(e.at)
				<-e.free
			}
		}})
	}()
	<-e.at
	return id, nil
}

// TestCtrlCInARunUndoesItWithTheRealEngine stops the run when its modules are
// laid out and not yet loaded.
func TestCtrlCInARunUndoesItWithTheRealEngine(t *testing.T) {
	e := held{realEngine(t), "stage", make(chan struct{}), make(chan struct{}), make(chan int, 1)}
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.toTheEnd(driverImage(t), "7/7 Running")
	h.keys("ctrl+c").sees("It stops after this step").keys("ctrl+c").sees("the undo is not skipped")
	time.Sleep(300 * time.Millisecond) // the runner looks for the request every 100 ms
	close(e.free)
	require.Equal(t, workflow.ExitStopped, <-e.exit)
	h.wait(3e9)
	h.sees("STOPPED")
	require.Empty(t, modulesIn(t, e.Node.Path("/run/fitout")), "what was laid out is gone")
	require.False(t, e.Node.Exists("/sys/bus/pci/devices/0000:05:00.0/driver"))
	h.keys("s").sees("The support bundle is").keys("q")
	require.True(t, h.quit)
	require.Equal(t, workflow.ExitStopped, h.m.result().Exit)
}

// TestCredentialsTypedIntoTheFormReachTheRunnerOfTheRealEngine gives user and
// password for a registry, and finds the password nowhere but in the file that
// was made for it.
func TestCredentialsTypedIntoTheFormReachTheRunnerOfTheRealEngine(t *testing.T) {
	e, reference := registryNode(t)
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.keys("space", "n")
	for i := 0; i < 10 && !h.at("3/7 Image > other image"); i++ {
		if h.at("2/7") {
			h.keys("3", "enter")
		}
		h.keys("c")
		h.wait(1e9)
	}
	h.keys(reference, "enter").on("3/7 Image")
	h.wait(2e9)
	h.sees("UNREADABLE").keys("c").on("3/7 Image > other image").sees(reference)
	h.keys("tab", images.Username, "tab", images.Password)
	require.NotContains(t, h.view(), images.Password)
	h.keys("enter", "enter").on("3/7 Image")
	h.wait(2e9)
	require.NotContains(t, h.view(), "UNREADABLE")
	h.toTheEnd("", "Done")
	saved, err := os.ReadFile(h.m.c.AnswersPath)
	require.NoError(t, err)
	require.Contains(t, string(saved), "file: /run/fitout/auth.json")
	require.NotContains(t, string(saved), images.Password)
	require.NoError(t, filepath.WalkDir(e.Node.Path(e.StateDir()), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, rerr := os.ReadFile(p)
			require.NoError(t, rerr)
			require.NotContains(t, string(data), images.Password, p)
			require.NotContains(t, string(data), base64.StdEncoding.EncodeToString([]byte(images.Username+":"+images.Password)), p)
		}
		return err
	}))
}

// registryNode is the node of the real engine beside a registry that wants a
// password, and the reference of its image.
func registryNode(t *testing.T) (inProcess, string) {
	t.Helper()
	e := inProcess{realEngine(t)}
	r := serveDriver(t, "drivers/e100:1")
	require.NoError(t, e.Node.WriteFile("/etc/docker/certs.d/"+r.Addr+"/ca.crt", []byte(r.CA), 0o644))
	return e, r.Addr + "/drivers/e100:1"
}

// serveDriver is a registry with the driver image in it.
func serveDriver(t *testing.T, repositoryTag string) *images.Registry {
	t.Helper()
	r, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	index, err := layout.ImageIndexFromPath(strings.TrimSuffix(strings.TrimPrefix(driverImage(t), "oci:"), ":1"))
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	img, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	require.NoError(t, r.Push(img, repositoryTag))
	return r
}
