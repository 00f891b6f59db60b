package fetching

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// written is how many bytes this process has given to disks so far (proc(5),
// write_bytes of /proc/self/io: whole pages, when they become dirty).
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

// fetch reads what is wanted of an image into a directory of its own.
func fetch(t testing.TB, c *counting, ref string, want image.Want) string {
	r, err := image.ParseReference(c.host() + "/" + ref)
	require.NoError(t, err)
	img, err := image.Open(t.Context(), r, image.Options{Root: c.root(t), Arch: "amd64", Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	defer img.Close()
	dir := filepath.Join(onDisk(t), "image")
	_, err = img.Fetch(t.Context(), dir, want)
	require.NoError(t, err)
	return dir
}

// push packs the modules as fitout does and pushes the image.
func push(t testing.TB, c *counting, ref string, kernels []debian.Kernel, names []string) *image.Packed {
	o := image.PackOptions{Work: t.TempDir(), Reach: image.Options{Root: c.root(t), Arch: "amd64", Getenv: func(string) string { return "" }}}
	o.Kernels = trees(t, kernels, names)
	var err error
	o.Output, err = image.ParseReference(c.host() + "/" + ref)
	require.NoError(t, err)
	p, err := image.Pack(t.Context(), o)
	require.NoError(t, err)
	return p
}

// Of a packed image of six kernels with 41 modules each, a node is sent its own
// kernel's layer and nothing else, or by range its driver's modules.
func TestNodeIsSentWhatItWants(t *testing.T) {
	ks := kernels(t)
	names, release := modules(t, ks), ks[0].Release
	c := serve(t, nil)
	p := push(t, c, "drivers/packed:1", ks, names)
	var whole, layer int64
	for _, l := range p.Layers {
		whole += l.Size
		if l.Release == release {
			layer = l.Size
		}
	}
	c.reset()
	dir := fetch(t, c, "drivers/packed:1", image.Want{Releases: []string{release}, Licences: true})
	t.Logf("one kernel: %d bytes in %d requests; its layer has %d (%.4fx), the image %d", c.bytes.Load(), c.requests.Load(),
		layer, float64(c.bytes.Load())/float64(layer), whole)
	require.LessOrEqual(t, float64(c.bytes.Load()), 1.01*float64(layer))
	require.Len(t, found(t, dir), moduleCount)

	var sent []int64
	for _, driver := range names {
		c.reset()
		dir := fetch(t, c, "drivers/packed:1", image.Want{Releases: []string{release}, Modules: []string{driver}, Licences: true})
		require.Contains(t, found(t, dir), driver)
		require.LessOrEqual(t, c.requests.Load(), int64(8), driver)
		sent = append(sent, c.bytes.Load())
	}
	// The largest module is more than a fiftieth of the image by itself.
	for i, n := range sent[1:] {
		require.LessOrEqual(t, n, whole/50, names[i+1])
	}
	largest := sent[0]
	slices.Sort(sent)
	t.Logf("one driver: %d to %d bytes, the median %d is 1/%d of the image; %s with the largest module %d, 1/%d",
		sent[0], sent[len(sent)-2], sent[len(sent)/2], whole/sent[len(sent)/2], names[0], largest, whole/largest)
}

// found are the names of the modules below dir.
func found(t testing.TB, dir string) []string {
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if n, ok := strings.CutSuffix(d.Name(), ".ko"); ok {
			names = append(names, strings.ReplaceAll(n, "-", "_"))
		}
		return err
	}))
	return names
}

// Of an ordinary image, one gzip layer for all kernels, all bytes have to be
// sent, but only what is wanted goes to the disk, and once: traced by
// writeback_dirty_folio, no page of a file is dirtied twice. What comes on top is
// the file system's own: the rest of each last page, and for a directory its
// block and, where ext4 opens a new block group for it, an inode table and two
// bitmaps.
func TestDiskIsSentWhatIsWanted(t *testing.T) {
	ks := kernels(t)
	img, err := images.Build(images.Spec{Kernels: ks, Modules: modules(t, ks)})
	require.NoError(t, err)
	c := serve(t, nil)
	ref, err := name.ParseReference(c.host() + "/drivers/plain:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(c.Client().Transport)))
	before := written(t)
	dir := fetch(t, c, "drivers/plain:1", image.Want{Releases: []string{ks[0].Release}})
	wrote := written(t) - before
	wanted, filled, dirs := sizeOf(t, dir)
	t.Logf("%d bytes written for %d of files (%.4fx), which fill pages of %d (%.4fx); %d directories", wrote, wanted,
		float64(wrote)/float64(wanted), filled, float64(filled)/float64(wanted), dirs)
	require.GreaterOrEqual(t, wrote, wanted, "the cache directory lies in memory; set FITOUT_CACHE to one on a disk")
	require.LessOrEqual(t, float64(wrote), 1.02*float64(wanted)+4*page*float64(dirs))
}

const page = 4096

// sizeOf is the sum of all files below a directory, what they fill of whole
// pages, and how many directories there are.
func sizeOf(t testing.TB, dir string) (bytes, filled, dirs int64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		st, err := d.Info()
		if d.IsDir() {
			dirs++
			return err
		}
		bytes += st.Size()
		filled += (st.Size() + page - 1) / page * page
		return err
	}))
	return bytes, filled, dirs
}
