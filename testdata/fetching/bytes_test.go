package fetching

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

// onDisk is a directory that is no memory file system, so that what is written
// there counts.
func onDisk(t testing.TB) string {
	base, err := debian.CacheDir("fetching")
	require.NoError(t, err)
	dir, err := os.MkdirTemp(base, "")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// written is how many bytes this process has given to disks so far (proc(5),
// write_bytes of /proc/self/io).
func written(t testing.TB) int64 {
	raw, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			bytes, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			require.NoError(t, err)
			return bytes
		}
	}
	t.Fatal("no write_bytes in /proc/self/io")
	return 0
}

func fetch(t testing.TB, ref string, root string, want image.Want) (*image.Image, string) {
	r, err := image.ParseReference(ref)
	require.NoError(t, err)
	img, err := image.Open(t.Context(), r, image.Options{Root: root, Arch: "amd64", Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	t.Cleanup(func() { img.Close() })
	dir := filepath.Join(onDisk(t), "image")
	_, err = img.Fetch(t.Context(), dir, want)
	require.NoError(t, err)
	return img, dir
}

// pushPacked packs the modules as fitout does and pushes the image.
func pushPacked(t testing.TB, c *counting, kernels []debian.Kernel, names []string) *image.Packed {
	o := image.PackOptions{Work: t.TempDir(), Reach: image.Options{Root: c.root(t), Arch: "amd64", Getenv: func(string) string { return "" }}}
	for release, dir := range trees(t, kernels, names) {
		o.Kernels = append(o.Kernels, image.PackKernel{Release: release, Dir: dir})
	}
	var err error
	o.Output, err = image.ParseReference(c.host() + "/drivers/packed:1")
	require.NoError(t, err)
	p, err := image.Pack(t.Context(), o)
	require.NoError(t, err)
	return p
}

// Of a packed image of six kernels with 41 modules each, a node is sent its own
// kernel's layer and nothing else, or by range its own driver's modules; and it
// writes what it wanted.
func TestNodeIsSentWhatItWants(t *testing.T) {
	ks := kernels(t)
	names, release := modules(t, ks), ks[0].Release
	c := serve(t, nil)
	p := pushPacked(t, c, ks, names)
	var whole, layer int64
	for _, l := range p.Layers {
		whole += l.Size
		if l.Release == release {
			layer = l.Size
		}
	}

	c.reset()
	_, dir := fetch(t, c.host()+"/drivers/packed:1", c.root(t), image.Want{Releases: []string{release}, Licences: true})
	t.Logf("one kernel: %d bytes sent in %d requests, its layer has %d (%.4fx), the image %d", c.bytes.Load(), c.requests.Load(),
		layer, float64(c.bytes.Load())/float64(layer), whole)
	require.LessOrEqual(t, float64(c.bytes.Load()), 1.01*float64(layer))
	require.Greater(t, sizeOf(t, dir), layer)

	driver := names[len(names)-1]
	c.reset()
	_, dir = fetch(t, c.host()+"/drivers/packed:1", c.root(t), image.Want{Releases: []string{release}, Modules: []string{driver}, Licences: true})
	t.Logf("driver %s: %d bytes sent in %d requests, 1/%d of the image", driver, c.bytes.Load(), c.requests.Load(), whole/c.bytes.Load())
	require.LessOrEqual(t, c.bytes.Load(), whole/50)
	require.LessOrEqual(t, c.requests.Load(), int64(8))
	require.NotEmpty(t, find(t, dir, driver))
}

// find gives the path of a module below dir.
func find(t testing.TB, dir, module string) string {
	var at string
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if strings.ReplaceAll(filepath.Base(p), "-", "_") == module+".ko" {
			at = p
		}
		return err
	}))
	return at
}

// Of an ordinary image, one gzip layer for all kernels, all bytes have to be
// sent, but only what is wanted goes to the disk.
func TestDiskIsSentWhatIsWanted(t *testing.T) {
	ks := kernels(t)
	img, err := images.Build(images.Spec{Kernels: ks, Modules: modules(t, ks)})
	require.NoError(t, err)
	c := serve(t, nil)
	ref, err := name.ParseReference(c.host() + "/drivers/plain:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(c.Client().Transport)))
	before := written(t)
	_, dir := fetch(t, ref.Name(), c.root(t), image.Want{Releases: []string{ks[0].Release}})
	wrote, wanted := written(t)-before, sizeOf(t, dir)
	t.Logf("%d bytes written for %d wanted (%.4fx)", wrote, wanted, float64(wrote)/float64(wanted))
	require.NotZero(t, wrote, "the cache directory lies in memory; set FITOUT_CACHE to one on a disk")
	require.LessOrEqual(t, float64(wrote), 1.02*float64(wanted))
}
