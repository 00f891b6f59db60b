package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// fetchWithin fetches a layer under limits.
func fetchWithin(t *testing.T, lim Limits, layer testLayer) error {
	img, err := openAt(t, "oci:"+asLayout(t, imageOf(t, layer)), Options{Limits: lim})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	return err
}

// Each limit that a hostile layer runs into is named, and one who trusts the
// image can raise it.
func TestRaisedLimitLetsTheImageThrough(t *testing.T) {
	dummy := realModule(t, release+"/dummy.ko")
	module := ent{name: hostTree + "/dummy.ko", data: dummy}
	var many []ent
	var inPackage []cpioFileOf
	for i := range 30 {
		many = append(many, ent{name: fmt.Sprintf("d/%d", i)})
		inPackage = append(inPackage, cpioFileOf{fmt.Sprintf("./usr/share/%d", i), "", cpioFile})
	}
	inPackage = append(inPackage, cpioFileOf{"./lib/modules/" + release + "/extra/dummy.ko", dummy, cpioFile})
	pkg := layerOf(t, ent{name: "rpms/kmod-x.rpm", data: rpmOf(t, "xz", inPackage...)})
	deep := ent{name: strings.Repeat("deep/", 60) + "x"}
	bomb := zeros(t, 300<<20)
	withModule := layerOf(t, module)
	for _, tc := range []struct {
		name      string
		layer     testLayer
		low, high Limits
		says      string
	}{
		{"entries", layerOf(t, append(many, module)...), Limits{Entries: 20}, Limits{Entries: 50}, "limit entries"},
		{"entries of a package", pkg, Limits{Entries: 20}, Limits{Entries: 50}, "limit entries"},
		{"files", layerOf(t, module, ent{name: hostTree + "/mii.ko", data: realModule(t, release+"/mii.ko")}), Limits{Files: 1}, Limits{Files: 2}, "limit files"},
		{"bytes", withModule, Limits{Bytes: 1000}, Limits{Bytes: 1 << 20}, "limit bytes"},
		{"bytes of a package", pkg, Limits{Bytes: 1000}, Limits{Bytes: 1 << 20}, "limit bytes"},
		{"name", layerOf(t, deep, module), Limits{Name: 100}, Limits{Name: 400}, "limit name"},
		{"name in a package", pkg, Limits{Name: 20}, Limits{Name: 400}, "limit name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := fetchWithin(t, tc.low, tc.layer)
			require.Equal(t, Limit, CodeOf(err), "%v", err)
			require.ErrorContains(t, err, tc.says)
			require.NoError(t, fetchWithin(t, tc.high, tc.layer))
		})
	}
	err := fetchWithin(t, Limits{}, bomb)
	require.ErrorContains(t, err, "limit ratio")
	err = fetchWithin(t, Limits{Ratio: 1 << 30}, bomb)
	require.Equal(t, DigestMismatch, CodeOf(err), "read to its end, where the test's layer has no right digest: %v", err)

	archive := archived(t, asLayout(t, oneModule(t)))
	_, err = openAt(t, archive, Options{Limits: Limits{Members: 3}})
	require.ErrorContains(t, err, "limit members")
	_, err = openAt(t, archive, Options{Limits: Limits{Members: 100}})
	require.NoError(t, err)
}

// namedWith is a tar file of one entry, its name in a GNU header before it, which
// Go's writer would not write.
func namedWith(length int) []byte {
	block := func(name string, kind byte, size int) []byte {
		b := make([]byte, 512)
		copy(b, name)
		copy(b[100:], "0000644\x000000000\x000000000\x00")
		copy(b[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", size))
		b[156] = kind
		copy(b[257:], "ustar  \x00")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	out := block("././@LongLink", tar.TypeGNULongName, length+1)
	out = append(out, bytes.Repeat([]byte("n"), length)...)
	out = append(out, make([]byte, 512-length%512)...)
	out = append(out, block("short", tar.TypeReg, 0)...)
	return append(out, make([]byte, 1024)...)
}

// A name that is longer than any file system takes is refused before it is held
// in memory.
func TestNameOfManyMegabytesIsRefused(t *testing.T) {
	for _, length := range []int{5000, 900_000, 64 << 20} {
		plain := namedWith(length)
		err := fetchWithin(t, Limits{}, testLayer{packed: gzipped(t, plain), plain: plain, media: types.OCILayer})
		require.Equal(t, Limit, CodeOf(err), "%d: %v", length, err)
		require.ErrorContains(t, err, "limit name")
		require.Less(t, len(err.Error()), 1000)
	}
	link := layerOf(t, ent{name: hostTree + "/x.ko", link: strings.Repeat("n", 900_000)})
	err := fetchWithin(t, Limits{}, link)
	require.Equal(t, Limit, CodeOf(err), "%v", err)
}

// doctored pushes an image with a manifest that was changed.
func doctored(t *testing.T, f *faulty, change func(m *v1.Manifest)) string {
	img := oneModule(t)
	f.push("d:1", img)
	m, err := img.Manifest()
	require.NoError(t, err)
	m = m.DeepCopy()
	change(m)
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPut, "/v2/d/manifests/lies", strings.NewReader(string(raw)))
	r.Header.Set("Content-Type", string(types.OCIManifestSchema1))
	f.inner.ServeHTTP(w, r)
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	return f.host() + "/d:lies"
}

// What a manifest says of sizes is checked against what comes.
func TestManifestThatLiesAboutSizesIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(m *v1.Manifest)
		code   Code
	}{
		"layer larger":        {func(m *v1.Manifest) { m.Layers[0].Size += 1000 }, Truncated},
		"layer without bound": {func(m *v1.Manifest) { m.Layers[0].Size = 1 << 62 }, Truncated},
		"layer smaller":       {func(m *v1.Manifest) { m.Layers[0].Size -= 1000 }, DigestMismatch},
		"layer of no size":    {func(m *v1.Manifest) { m.Layers[0].Size = 0 }, DigestMismatch},
		"layer below nothing": {func(m *v1.Manifest) { m.Layers[0].Size = -1 }, Hostile},
		"config larger":       {func(m *v1.Manifest) { m.Config.Size += 5 }, Truncated},
		"config without end":  {func(m *v1.Manifest) { m.Config.Size = 1 << 62 }, Truncated},
		"layer twice":         {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistry(t, true)
			ref := doctored(t, f, tc.change)
			img, err := openAt(t, ref, Options{Root: f.root(nil)})
			if err == nil {
				_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
			}
			require.Equal(t, tc.code, CodeOf(err), "%v", err)
		})
	}
}

// A layer may name other places to fetch it from. None of them is asked: a
// manifest must not make a node call hosts that nobody named.
func TestForeignLayerURLsAreNotFollowed(t *testing.T) {
	var called atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(trap.Close)
	for _, there := range []bool{true, false} {
		f := newRegistry(t, true)
		ref := doctored(t, f, func(m *v1.Manifest) {
			m.Layers[0].URLs = []string{trap.URL + "/layer"}
			m.Layers[0].MediaType = types.DockerForeignLayer
		})
		img, err := openAt(t, ref, Options{Root: f.root(nil)})
		require.NoError(t, err)
		f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			return !there && layerBlob(img, r) && status(w, http.StatusNotFound)
		})
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		if there {
			require.NoError(t, err, "the registry itself has it")
		} else {
			require.Equal(t, NotFound, CodeOf(err), "%v", err)
		}
		require.Zero(t, called.Load())
	}
}

// A million entries are read within the limits, and are cheap.
func TestMillionEntriesAreCountedNotKept(t *testing.T) {
	if os.Getenv("FITOUT_FULL") == "" {
		t.Log("a hundred thousand here; a million with FITOUT_FULL=1")
	}
	n := 100_000
	if os.Getenv("FITOUT_FULL") != "" {
		n = 1_000_000
	}
	s, err := newStore(t.TempDir())
	require.NoError(t, err)
	top, err := s.writeLayer([]packFile{{name: hostTree + "/dummy.ko", data: []byte(realModule(t, release+"/dummy.ko"))}}, nil)
	require.NoError(t, err)
	finishImage(t, s, top, manyEntries(t, s, n))
	img, err := openAt(t, "oci:"+s.dir, Options{Limits: Limits{Entries: int64(n)}})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.Equal(t, Limit, CodeOf(err), "one entry too many: %v", err)
	peak := peakHeap(func() {
		img, err := openAt(t, "oci:"+s.dir, Options{})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err)
	})
	t.Logf("%d entries: peak heap %d KiB", n, peak>>10)
	require.Less(t, peak, int64(48<<20))
}
