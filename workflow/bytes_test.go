package workflow_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// counted is a registry that counts the bytes of every blob that it gives.
type counted struct {
	host string
	mu   sync.Mutex
	sent map[string]int64 // digest → bytes
	// noRanges makes it answer every request whole, as some registries do.
	noRanges bool
}

type counter struct {
	http.ResponseWriter
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

func newCounted(t *testing.T) *counted {
	c := &counted{sent: map[string]int64{}}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.noRanges {
			r.Header.Del("Range")
		}
		out := &counter{ResponseWriter: w}
		inner.ServeHTTP(out, r)
		if _, digest, ok := strings.Cut(r.URL.Path, "/blobs/"); ok && r.Method == http.MethodGet {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sent[digest] += out.n
		}
	}))
	t.Cleanup(s.Close)
	c.host = strings.TrimPrefix(s.URL, "http://")
	return c
}

// sum is what was given of the blobs since the last call.
func (c *counted) sum() (total int64, blobs map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.sent {
		total += n
	}
	blobs, c.sent = c.sent, map[string]int64{}
	return total, blobs
}

// packed pushes an image of the test modules of the node's kernel and of another,
// with eight more that nobody asks for, and a licence; the layers are those of the two kernels and the
// licence.
func (c *counted) packed(t *testing.T) (reference string, p *image.Packed) {
	t.Helper()
	text := filepath.Join(t.TempDir(), "LICENSE")
	require.NoError(t, os.WriteFile(text, []byte(licenceText), 0o644))
	reference = c.host + "/drivers/many:1"
	out, err := image.ParseReference(reference)
	require.NoError(t, err)
	modules := func(release string) image.PackKernel {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/modules/"+release)))
		other, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/e100.ko")
		require.NoError(t, err)
		for i := range 8 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("other-%d.ko", i)), other, 0o644))
		}
		return image.PackKernel{Release: release, Dir: dir}
	}
	p, err = image.Pack(t.Context(), image.PackOptions{
		Kernels: []image.PackKernel{modules(nodes.Release), modules("6.1.0-55-amd64")}, Licences: []string{text},
		Output: out, Work: t.TempDir(), Reach: image.Options{Arch: "amd64", PlainHTTP: true, Root: t.TempDir()},
	})
	require.NoError(t, err)
	require.Len(t, p.Layers, 3)
	c.sum()
	return reference, p
}

// modulesOn lists the module files below the node's state and volatile
// directories, by their names.
func modulesOn(t *testing.T, e *workflow.Engine) []string {
	var out []string
	for _, dir := range []string{e.StateDir(), "/run/fitout"} {
		root := e.Node.Path(dir)
		if _, err := os.Stat(root); err != nil {
			continue
		}
		require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if strings.Contains(d.Name(), ".ko") {
				out = append(out, d.Name())
			}
			return err
		}))
	}
	return out
}

// Of a packed image the modules of the device are fetched with what they need,
// and no byte of another kernel's; a registry without ranges gives the layer.
func TestOnlyTheModulesForTheDeviceAreFetched(t *testing.T) {
	r := newCounted(t)
	reference, p := r.packed(t)
	for _, noRanges := range []bool{false, true} {
		for _, byHand := range []bool{true, false} {
			r.noRanges = noRanges
			e := engineOn(t)
			e.PlainHTTP = true
			a := accepting(answersFor(reference, answers.LoadNow), "e100")
			if !byHand {
				e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "e100", Modules: []string{"e100"}, Licence: &catalog.Licence{ID: "e100", File: "/licenses/LICENSE"},
					Images: []catalog.Mapping{{Kernel: ".*", Reference: reference}}}}}
				a.Devices[0].Image, a.Devices[0].Driver = nil, "e100"
			}
			_, err := e.Plan(t.Context(), a, nil)
			require.NoError(t, err)
			total, blobs := r.sum()
			require.Zero(t, blobs[p.Layers[1].Digest], "nothing of the other kernel")
			whole := p.Layers[0].Size
			if noRanges {
				require.GreaterOrEqual(t, blobs[p.Layers[0].Digest], whole)
				require.Contains(t, modulesOn(t, e), "ne2k-pci.ko")
				continue
			}
			require.ElementsMatch(t, []string{"e100.ko", "mii.ko"}, modulesOn(t, e))
			t.Logf("%d of %d bytes of the layer, %d of all (by hand: %v)", blobs[p.Layers[0].Digest], whole, total, byHand)
			require.Less(t, blobs[p.Layers[0].Digest], whole/3)

			_, err = e.Plan(t.Context(), a, nil)
			require.NoError(t, err)
			_, blobs = r.sum()
			require.Zero(t, blobs[p.Layers[0].Digest], "what is in the store is not fetched again")
		}
	}
}

// Another driver of the same image does not take the first one's modules out of
// the store.
func TestTwoDriversOfOneImageShareTheStore(t *testing.T) {
	r := newCounted(t)
	reference, _ := r.packed(t)
	e := engineOn(t)
	e.PlainHTTP = true
	s, err := e.Survey(t.Context())
	require.NoError(t, err)
	driver := func(name string) catalog.Driver {
		return catalog.Driver{Name: name, Modules: []string{name}, Images: []catalog.Mapping{{Kernel: ".*", Reference: reference}}}
	}
	for _, name := range []string{"e100", "dummy", "e100"} {
		x, err := e.Examine(t.Context(), s, s.Kinds[0], e.OfferDriver(s, driver(name)), nil)
		require.NoError(t, err)
		require.Equal(t, name, x.Judgements[0].Load[len(x.Judgements[0].Load)-1].Module)
	}
	require.ElementsMatch(t, []string{"e100.ko", "mii.ko", "dummy.ko"}, modulesOn(t, e))
}

// accepting adds the acceptance of the test images' licence.
func accepting(a *answers.Answers, id string) *answers.Answers {
	a.Licences = append(a.Licences, answers.Licence{ID: id, Digest: licenceDigest(), Accepted: true, By: "ops@example.com"})
	return a
}

// Before its terms are accepted nothing of a driver is fetched: of a packed
// image the licence's layer alone, and nothing at all when the catalog has the
// text. Where driver and licence are in one layer, nothing of the driver stays.
func TestNothingOfADriverIsFetchedBeforeItsTermsAreAccepted(t *testing.T) {
	r := newCounted(t)
	reference, p := r.packed(t)
	for _, tc := range []struct {
		name    string
		licence *catalog.Licence
		byHand  bool
		one     bool // licence and driver in one layer, out of a directory
		blobs   int
	}{
		{name: "an image by hand", byHand: true, blobs: 2},
		{name: "the entry names the file", licence: &catalog.Licence{ID: "many", File: "/licenses/LICENSE"}, blobs: 2},
		{name: "the entry has the text", licence: &catalog.Licence{ID: "many", Text: licenceText}},
		{name: "one layer, by hand", byHand: true, one: true},
		{name: "one layer, named by the entry", licence: &catalog.Licence{ID: "many", File: "/licenses/LICENSE"}, one: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := engineOn(t)
			e.PlainHTTP = true
			ref := reference
			if tc.one {
				ref = driverImage(t, nodes.Release, nodes.Release, "e100")
			}
			a := answersFor(ref, answers.LoadNow)
			if !tc.byHand {
				e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "many", Modules: []string{"e100"}, Licence: tc.licence,
					Images: []catalog.Mapping{{Kernel: ".*", Reference: ref}}}}}
				a.Devices[0].Image, a.Devices[0].Driver = nil, "many"
			}
			_, err := e.Plan(context.Background(), a, nil)
			require.Equal(t, workflow.ExitPerson, workflow.ExitOf(err), "%v", err)
			require.ErrorContains(t, err, licenceDigest())
			_, blobs := r.sum()
			require.Len(t, blobs, tc.blobs, "the configuration and the licence's layer")
			require.Zero(t, blobs[p.Layers[0].Digest]+blobs[p.Layers[1].Digest])
			require.Empty(t, modulesOn(t, e))

			_, err = e.Plan(context.Background(), accepting(a, "many"), nil)
			require.NoError(t, err)
			require.Contains(t, modulesOn(t, e), "e100.ko")
			r.sum()
		})
	}
}

// A look at one kernel's part of an image reads that part.
func TestInspectingOneKernelReadsItsLayerAlone(t *testing.T) {
	r := newCounted(t)
	reference, p := r.packed(t)
	e := engineOn(t)
	e.PlainHTTP = true
	inv, done, err := e.Inspect(t.Context(), reference, "6.1.0-55-amd64")
	require.NoError(t, err)
	defer done()
	require.Len(t, inv.Kernels, 1)
	require.Equal(t, []string{"6.1.0-55-amd64", nodes.Release}, inv.Releases)
	_, blobs := r.sum()
	require.Zero(t, blobs[p.Layers[0].Digest])
	require.Equal(t, p.Layers[1].Size, blobs[p.Layers[1].Digest])
}

// Between the review and the run a tag was moved: what was reviewed is what is
// used, or nothing.
func TestTagThatMovedAfterTheReviewIsRefused(t *testing.T) {
	r := newCounted(t)
	reference, first := r.packed(t)
	e := engineOn(t)
	e.PlainHTTP = true
	a := accepting(answersFor(reference, answers.LoadNow), "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	require.Equal(t, first.Digest, p.Answers.Devices[0].Pins[nodes.Release])
	require.Contains(t, strings.Join(p.Steps[0].Action.Describe().Text, "\n"), "the way there: direct")

	to, err := image.ParseReference(reference)
	require.NoError(t, err)
	second, err := image.Pack(t.Context(), image.PackOptions{Append: &to, Labels: map[string]string{"moved": "yes"}, Output: to, Work: t.TempDir(),
		Reach: image.Options{Arch: "amd64", PlainHTTP: true, Root: t.TempDir()}})
	require.NoError(t, err)
	require.NotEqual(t, first.Digest, second.Digest)
	_, err = e.Plan(t.Context(), p.Answers, nil)
	require.NoError(t, err, "the reviewed image is in the store, and is what is used")
	other := engineOn(t) // another node, with nothing in its store
	other.PlainHTTP = true
	_, err = other.Plan(t.Context(), p.Answers, nil)
	require.Equal(t, workflow.ExitForbidden, workflow.ExitOf(err), "%v", err)
	require.ErrorContains(t, err, "now points to "+second.Digest+", reviewed was "+first.Digest)
	require.Empty(t, modulesOn(t, other))
}
