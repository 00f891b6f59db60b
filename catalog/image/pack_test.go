package image

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kernelDir copies modules of testdata into a tree of their own.
func kernelDir(t testing.TB, release string, names ...string) PackKernel {
	dir := t.TempDir()
	for _, n := range names {
		write(t, dir, "kernel/drivers/"+n, realModule(t, release+"/"+n))
	}
	return PackKernel{Release: release, Dir: dir}
}

func mustParse(t testing.TB, s string) Reference {
	ref, err := ParseReference(s)
	require.NoError(t, err)
	return ref
}

func quiet(t testing.TB) Options {
	return Options{Root: t.TempDir(), Getenv: func(string) string { return "" }, Arch: "amd64"}
}

// twoKernels packs two kernels, firmware and a licence.
func twoKernels(t testing.TB, to string) (*Packed, error) {
	fw, texts := t.TempDir(), t.TempDir()
	write(t, fw, "e100/d101m_ucode.bin", "firmware")
	write(t, texts, "LICENSE", "terms")
	return Pack(t.Context(), PackOptions{
		Kernels:  []PackKernel{kernelDir(t, "6.1.0-57-amd64", "e100.ko", "mii.ko", "8390.ko", "ne2k-pci.ko"), kernelDir(t, "6.1.0-55-amd64", "dummy.ko", "mii.ko")},
		Firmware: fw, Licences: []string{filepath.Join(texts, "LICENSE")}, Labels: map[string]string{"vendor": "test"},
		Output: mustParse(t, to), Work: t.TempDir(), Reach: quiet(t),
	})
}

func TestPackedImageIsReproducible(t *testing.T) {
	dir := t.TempDir()
	one, err := twoKernels(t, "oci-archive:"+dir+"/1.tar:v1")
	require.NoError(t, err)
	two, err := twoKernels(t, "oci-archive:"+dir+"/2.tar:v1")
	require.NoError(t, err)
	require.Equal(t, one, two)
	a, err := os.ReadFile(dir + "/1.tar")
	require.NoError(t, err)
	b, err := os.ReadFile(dir + "/2.tar")
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// A node reads the layer of its kernel and the shared ones, nothing else.
func TestOnlyTheLayerOfTheKernelIsFetched(t *testing.T) {
	f := newRegistry(t, true)
	root := f.root(map[string]string{"root/.docker/config.json": login(f.host(), secretUser, secretPassword)})
	k := &tokens{uses: 3, left: map[string]int{}, host: f.host()}
	f.misbehave(k.handle)
	reach := quiet(t)
	reach.Root, reach.Sleep = root, func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	p, err := Pack(t.Context(), PackOptions{
		Kernels: []PackKernel{kernelDir(t, "6.1.0-57-amd64", "e100.ko", "mii.ko"), kernelDir(t, "6.1.0-55-amd64", "dummy.ko", "mii.ko")},
		Output:  mustParse(t, f.host()+"/drivers/multi:1"), Work: t.TempDir(), Reach: reach,
	})
	require.NoError(t, err)
	require.Len(t, p.Layers, 2)

	img, err := openAt(t, f.host()+"/drivers/multi:1", Options{Root: root, Arch: "amd64"})
	require.NoError(t, err)
	require.Equal(t, p.Digest, img.Digest())
	f.misbehave(k.handle)
	inv, err := img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{Releases: []string{"6.1.0-55-amd64"}})
	require.NoError(t, err)
	require.Equal(t, p.Layers[1].Size, inv.Fetched)
	require.Equal(t, []string{"6.1.0-55-amd64", "6.1.0-57-amd64"}, inv.Releases)
	require.Len(t, inv.Kernels, 1)
	require.Equal(t, "kmm", inv.Layout)
	for _, r := range f.requests {
		require.NotContains(t, r.URL.Path, p.Layers[0].Digest)
	}
}

// The terms can be read before anything of the driver is fetched or stored.
func TestLicenceIsReadBeforeTheDriver(t *testing.T) {
	dir := t.TempDir()
	p, err := twoKernels(t, "oci:"+dir+":v1")
	require.NoError(t, err)
	inv, store := fetchedFor(t, "oci:"+dir+":v1", Want{Licences: true, OnlyLicences: true})
	require.Equal(t, "terms", inv.Licences[0].Text)
	require.Equal(t, p.Layers[3].Size, inv.Fetched)
	require.Empty(t, inv.Kernels)
	require.NoDirExists(t, filepath.Join(store, "opt"))
	require.NoDirExists(t, filepath.Join(store, "firmware"))
}

// An image that has no build for the node's kernel is kept with the builds it
// has, to be judged by their symbols; its licence is read twice and is one file.
func TestImageForOtherKernelsOnlyIsKept(t *testing.T) {
	dir := t.TempDir()
	_, err := twoKernels(t, "oci:"+dir+":v1")
	require.NoError(t, err)
	inv, _ := fetchedFor(t, "oci:"+dir+":v1", Want{Releases: []string{"6.1.0-58-amd64"}, Licences: true})
	require.Equal(t, []string{"6.1.0-55-amd64", "6.1.0-57-amd64"}, inv.Releases)
	require.Len(t, inv.Kernels, 2)
	require.Equal(t, "terms", inv.Licences[0].Text)

	// Neither a packed image nor one kernel alone is needed for that.
	layer := layerOf(t, ent{name: "opt/lib/modules/6.1.0-55-amd64/dummy.ko", data: realModule(t, "6.1.0-55-amd64/dummy.ko")},
		ent{name: "licenses/LICENSE", data: "terms"})
	inv, _, err = fetchLayers(t, Want{Releases: []string{"6.1.0-58-amd64"}, Licences: true}, layer)
	require.NoError(t, err)
	require.Equal(t, "6.1.0-55-amd64", inv.Kernels[0].Release)
}

// Of a packed layer only the wanted modules and what they need are read, by
// range and verified; a registry without ranges gives the layer whole.
func TestOnlyTheWantedModulesAreFetched(t *testing.T) {
	f := newRegistry(t, true)
	names := []string{"e100.ko", "mii.ko", "8390.ko", "ne2k-pci.ko", "dummy.ko", "rm3100-core.ko", "rm3100-spi.ko", "libcrc32c.ko", "virtio_dma_buf.ko", "idxd_bus.ko"}
	p := f.pack(PackOptions{Kernels: []PackKernel{kernelDir(t, release, names...)}})
	blob, root := p.Layers[0].Digest, f.root(nil)
	var tampered bool
	for _, tc := range []struct {
		name  string
		fault func(w http.ResponseWriter, r *http.Request) bool
		code  Code
		whole bool
	}{
		{"ranges", func(http.ResponseWriter, *http.Request) bool { return false }, "", false},
		{"stops in the table", func(w http.ResponseWriter, r *http.Request) bool {
			return len(f.requests) == 1 && inPieces(&passOn{w, f.inner}, r, 2)
		}, "", false},
		{"no ranges", func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("Range"); return false }, "", true},
		{"other bytes", func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, blob) || strings.HasSuffix(r.Header.Get("Range"), fmt.Sprintf("-%d", p.Layers[0].Size-1)) {
				return false
			}
			rec := httptest.NewRecorder()
			f.inner.ServeHTTP(rec, r)
			raw := rec.Body.Bytes()
			raw[len(raw)/2] ^= 1
			tampered = true
			w.Header().Set("Content-Range", rec.Header().Get("Content-Range"))
			w.WriteHeader(rec.Code)
			w.Write(raw)
			return true
		}, DigestMismatch, false},
	} {
		img, err := openAt(t, f.host()+"/d:1", Options{Root: root, Arch: "amd64", Limits: Limits{Stall: 300 * time.Millisecond}})
		require.NoError(t, err)
		f.misbehave(tc.fault)
		inv, err := img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{Releases: []string{release}, Modules: []string{"ne2k-pci"}})
		if tc.code != "" {
			require.True(t, tampered)
			require.Equal(t, tc.code, CodeOf(err), "%v", err)
			continue
		}
		require.NoError(t, err, tc.name)
		if tc.whole {
			require.Len(t, inv.Kernels[0].Modules, len(names))
			continue
		}
		require.Equal(t, []string{hostTree + "/kernel/drivers/8390.ko", hostTree + "/kernel/drivers/ne2k-pci.ko"}, paths(inv.Kernels[0]))
		require.Equal(t, "ne2k_pci", inv.Kernels[0].Modules[1].Info.Name)
		require.LessOrEqual(t, len(f.requests), 8)
		require.Less(t, inv.Fetched, p.Layers[0].Size)
		t.Logf("%d of %d bytes in %d requests", inv.Fetched, p.Layers[0].Size, len(f.requests))
	}
}

// The hint is not believed below a layer that has none: it may replace or
// remove what lies under it.
func TestAnnotationIsNotBelievedBelowAnUnknownLayer(t *testing.T) {
	dir := t.TempDir()
	_, err := twoKernels(t, "oci:"+dir+":v1")
	require.NoError(t, err)
	img, err := openAt(t, "oci:"+dir+":v1", Options{Arch: "amd64"})
	require.NoError(t, err)
	sel := newSelector(Want{Releases: []string{"6.1.0-55-amd64"}, Licences: true})
	todo, _ := img.layersFor(sel)
	require.Equal(t, []int{3, 2, 1}, todo)
	img.manifest.Layers[2].Annotations = nil
	todo, _ = img.layersFor(sel)
	require.Equal(t, []int{3, 2, 1, 0}, todo)
}

func TestAppendedKernelLeavesTheOtherLayersAlone(t *testing.T) {
	dir := t.TempDir()
	before, err := twoKernels(t, "oci-archive:"+dir+"/1.tar:v1")
	require.NoError(t, err)
	base := mustParse(t, "oci-archive:"+dir+"/1.tar:v1")
	after, err := Pack(t.Context(), PackOptions{
		Kernels: []PackKernel{kernelDir(t, "6.12.117+deb12-amd64", "dummy.ko.xz")},
		Append:  &base, Output: mustParse(t, "oci-archive:"+dir+"/2.tar:v2"), Work: t.TempDir(), Reach: quiet(t),
	})
	require.NoError(t, err)
	require.Len(t, after.Layers, 5)
	for i, l := range before.Layers {
		require.Equal(t, l.Digest, after.Layers[i].Digest)
		require.True(t, after.Layers[i].Kept)
	}
	inv, _ := fetchedFor(t, "oci-archive:"+dir+"/2.tar:v2", Want{Licences: true})
	require.Equal(t, []string{"6.1.0-55-amd64", "6.1.0-57-amd64", "6.12.117+deb12-amd64"}, inv.Releases)
	require.Equal(t, "6.1.0-55-amd64 6.1.0-57-amd64 6.12.117+deb12-amd64", inv.Labels["org.fitout.kernels"])
	require.Equal(t, "test", inv.Labels["vendor"])
	require.Equal(t, "e100/d101m_ucode.bin", inv.Firmware[0].Name)
	require.Equal(t, "terms", inv.Licences[0].Text)

	from, err := Pack(t.Context(), PackOptions{Images: []Reference{mustParse(t, "oci-archive:"+dir+"/2.tar:v2")}, Releases: []string{"6.1.0-57-amd64"},
		Output: mustParse(t, "oci:"+dir+"/3:v3"), Work: t.TempDir(), Reach: quiet(t)})
	require.NoError(t, err)
	require.Equal(t, before.Layers[0].Digest, from.Layers[0].Digest, "the same modules make the same layer")
}

func fetchedFor(t testing.TB, reference string, want Want) (*Inventory, string) {
	img, err := openAt(t, reference, Options{Arch: "amd64"})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	inv, err := img.Fetch(t.Context(), dir, want)
	require.NoError(t, err)
	return inv, dir
}

// modprobe and depmod are the judges of the tables that pack writes.
func TestPackedTablesAreWhatDepmodWrites(t *testing.T) {
	dir := t.TempDir()
	_, err := twoKernels(t, "oci:"+dir+":v1")
	require.NoError(t, err)
	_, store := fetchedFor(t, "oci:"+dir+":v1", Want{})
	tree := filepath.Join(store, "opt/lib/modules/6.1.0-57-amd64")
	show := func(words ...string) string {
		out, err := exec.Command("modprobe", append([]string{"-d", filepath.Join(store, "opt"), "-S", "6.1.0-57-amd64", "--show-depends"}, words...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	e100 := show("e100")
	require.Less(t, strings.Index(e100, "mii.ko"), strings.Index(e100, "e100.ko"))
	require.Equal(t, e100, show("pci:v00008086d00001229sv00000000sd00000000bc02sc00i00"))
	require.Contains(t, show("ne2k-pci"), "8390.ko")

	ours := map[string][]string{}
	for _, table := range []string{"modules.dep", "modules.alias", "modules.symbols"} {
		ours[table] = sortedLines(t, filepath.Join(tree, table))
	}
	out, err := exec.Command("depmod", "-b", filepath.Join(store, "opt"), "6.1.0-57-amd64").CombinedOutput()
	require.NoError(t, err, string(out))
	for table, lines := range ours {
		require.Equal(t, sortedLines(t, filepath.Join(tree, table)), lines, table)
	}
	require.Equal(t, e100, show("e100"))
}

func sortedLines(t *testing.T, file string) []string {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	set := map[string]bool{}
	for _, l := range strings.Split(string(raw), "\n") {
		set[l] = true
	}
	return sortedKeys(set)
}

func TestLintNamesWhatNodesWouldRefuse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/dummy.ko", realModule(t, "6.1.0-54-amd64/dummy.ko"))
	write(t, dir, "b/dummy.ko", realModule(t, "6.1.0-57-amd64/dummy.ko"))
	write(t, dir, "e100.ko", realModule(t, "6.1.0-57-amd64/e100.ko"))
	raw := realModule(t, "6.1.0-57-amd64/8390.ko")
	write(t, dir, "8390.ko", raw[:len(raw)-721])
	o := PackOptions{Kernels: []PackKernel{{"6.1.0-57-amd64", dir}}, Output: mustParse(t, "oci:"+t.TempDir()), Work: t.TempDir(), Reach: quiet(t)}
	p, err := Pack(t.Context(), o)
	require.NoError(t, err)
	var got []string
	for _, l := range p.Lint {
		got = append(got, l.Code+" "+l.Path)
	}
	require.ElementsMatch(t, []string{"vermagic-release a/dummy.ko", "duplicate-module b/dummy.ko", "dependency-outside e100.ko", "unsigned 8390.ko"}, got)
	o.Strict = true
	_, err = Pack(t.Context(), o)
	require.Error(t, err)

	write(t, dir, "broken.ko", "text")
	_, err = Pack(t.Context(), PackOptions{Kernels: o.Kernels, Output: o.Output, Work: t.TempDir(), Reach: quiet(t)})
	require.Equal(t, Corrupt, CodeOf(err))
	_, err = Pack(t.Context(), PackOptions{Kernels: []PackKernel{{"x", t.TempDir()}}, Output: o.Output, Work: t.TempDir(), Reach: quiet(t)})
	require.ErrorContains(t, err, "no kernel module")
}

// A copy that breaks off goes on where it was, and is the same image.
func TestCopyToAnArchiveIsPickedUp(t *testing.T) {
	f := newRegistry(t, true)
	ref := mustParse(t, f.push("d:1", imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")}))))
	file := filepath.Join(t.TempDir(), "copy.tar")
	opts := quiet(t)
	opts.Root, opts.Arch = f.root(nil), ""
	opts.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get("Range") != "" {
			return false
		}
		if n := len(f.requests); n < 3 {
			return false // the configuration
		}
		defer cancel()
		return breakAfter(&passOn{w, f.inner}, r, 4000)
	})
	_, err := Copy(ctx, ref, mustParse(t, "oci-archive:"+file+":1"), nil, opts)
	require.Error(t, err)
	require.NoFileExists(t, file)
	f.misbehave(nil)
	c, err := Copy(t.Context(), ref, mustParse(t, "oci-archive:"+file+":1"), nil, opts)
	require.NoError(t, err)
	require.NoDirExists(t, file+".partial")
	f.Close()
	img, err := openAt(t, "oci-archive:"+file+":1", Options{Pin: c.Digest})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.NoError(t, err)
}

func TestCopyOfSomeKernels(t *testing.T) {
	dir := t.TempDir()
	p, err := twoKernels(t, "oci-archive:"+dir+"/1.tar:v1")
	require.NoError(t, err)
	whole, err := Copy(t.Context(), mustParse(t, "oci-archive:"+dir+"/1.tar:v1"), mustParse(t, "oci-archive:"+dir+"/2.tar"), nil, quiet(t))
	require.NoError(t, err)
	require.Equal(t, p.Digest, whole.Digest)
	some, err := Copy(t.Context(), mustParse(t, "oci-archive:"+dir+"/1.tar:v1"), mustParse(t, "oci-archive:"+dir+"/3.tar"), []string{"6.1.0-55-amd64"}, quiet(t))
	require.NoError(t, err)
	require.Equal(t, []string{"6.1.0-57-amd64"}, some.Skipped)
	inv, _ := fetchedFor(t, "oci-archive:"+dir+"/3.tar", Want{Licences: true})
	require.Equal(t, []string{"6.1.0-55-amd64"}, inv.Releases)
	require.Len(t, inv.Licences, 1)
}
