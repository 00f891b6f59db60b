package workflow_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// big is the size of a file in the image store, in bytes: reading it is told
// from all else that is read.
const big = 64 << 20

// readBy is how many bytes this process reads while it does something (proc(5),
// io).
func readBy(t *testing.T, does func()) int64 {
	t.Helper()
	read := func() (n int64) {
		text, err := os.ReadFile("/proc/self/io")
		require.NoError(t, err)
		_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
		require.NoError(t, err)
		return n
	}
	before := read()
	does()
	return read() - before
}

// However many ask for an image of the store, its files are compared with their
// digests once a process, and again when one of them was touched.
func TestStoredImageIsVerifiedOnceAProcess(t *testing.T) {
	e := engineOn(t)
	gated(t, e)
	module, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/e100.ko")
	require.NoError(t, err)
	img, err := images.Of(v1.Config{}, images.File{Name: "opt/lib/modules/" + nodes.Release + "/e100.ko", Data: module},
		images.File{Name: "opt/lib/modules/" + nodes.Release + "/other.ko", Data: append(slices.Clip(module), make([]byte, big)...)})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, images.WriteLayout(img, dir, "1"))
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "big", Modules: []string{"e100"}, DirName: "/opt",
		Images: []catalog.Mapping{{Kernel: ".*", Reference: "oci:" + dir + ":1"}}}}}
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "big", When: answers.Persist}}
	a.AcceptRisks = []string{"unsure-verdict"}
	p := carryOut(t, e, a)
	again := *p.Answers // with the digests, and without the program that is kept with a driver
	again.Devices = slices.Clone(again.Devices)
	again.Devices[0].When = answers.LoadNow
	var files []string
	require.NoError(t, filepath.WalkDir(e.Node.Path(e.StateDir()+"/store"), func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, "/other.ko") {
			files = append(files, p)
		}
		return err
	}))
	require.Len(t, files, 1)

	for name, c := range map[string]struct {
		times int64
		does  func(e *workflow.Engine)
	}{
		"plan": {1, func(e *workflow.Engine) {
			for range 2 {
				_, err := e.Plan(t.Context(), &again, nil)
				require.NoError(t, err)
			}
		}},
		"check": {1, func(e *workflow.Engine) {
			c, err := e.CheckKernel(t.Context(), "", "")
			require.NoError(t, err)
			require.NoError(t, e.Rehearse(t.Context(), c))
		}},
		"status": {0, func(e *workflow.Engine) {
			_, err := e.Status(t.Context())
			require.NoError(t, err)
		}},
		"gate": {1, func(e *workflow.Engine) {
			for range 2 {
				require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &bytes.Buffer{}))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &workflow.Engine{Node: e.Node, Catalog: e.Catalog}
			c.does(e) // what it fetches is there now
			require.NoError(t, os.Chtimes(files[0], time.Now(), time.Now()))
			time.Sleep(50 * time.Millisecond) // a change just now is not trusted
			read := readBy(t, func() { c.does(e) })
			require.Equal(t, c.times, (read+big/4)/big, "%d bytes", read)
		})
	}
}
