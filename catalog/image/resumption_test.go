package image

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// padded is a layer of a module between two lots of other files, the second
// large enough for a place to go on from.
func padded(t testing.TB, path, module string, before, after int) testLayer {
	ents := []ent{{name: "usr/lib/app/before", data: noise(before)}, {name: path, data: module}}
	for i := range after >> 20 {
		ents = append(ents, ent{name: fmt.Sprintf("usr/lib/app/after-%d", i), data: noise(1 << 20)})
	}
	return layerOf(t, ents...)
}

func noise(n int) string {
	raw := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(raw)
	return string(raw)
}

// brokenOff fetches from a registry that serves some bytes of each of the
// layers in cut, and then limits the rate until it is asked again.
func brokenOff(t *testing.T, f *faulty, img *Image, cut map[int]int64, dir string, want Want) {
	served := map[string]int64{}
	for n, bytes := range cut {
		served[img.manifest.Layers[n].Digest.String()] = bytes
	}
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		digest := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		bytes, ok := served[digest]
		if !ok {
			return false
		}
		if r.Header.Get("Range") != "" || bytes == 0 {
			w.Header().Set("Retry-After", "400")
			return status(w, http.StatusTooManyRequests)
		}
		return breakAfter(&passOn{w, f.inner}, r, int(bytes))
	})
	_, err := img.Fetch(t.Context(), dir, want)
	require.Equal(t, RateLimited, CodeOf(err), "%v", err)
	require.NoDirExists(t, dir)
	f.misbehave(nil)
}

// layersAsked says which ranges of which layers were asked for.
func layersAsked(f *faulty, img *Image) map[int][]string {
	asked := map[int][]string{}
	for _, r := range f.requests {
		for n, l := range img.manifest.Layers {
			if strings.HasSuffix(r.URL.Path, l.Digest.String()) {
				asked[n] = append(asked[n], r.Header.Get("Range"))
			}
		}
	}
	return asked
}

// A fetch that ends in the middle of a layer goes on there: complete layers are
// not asked for again, the rest of the broken one by range, and the outcome is
// the same as in one go.
func TestBrokenFetchGoesOnWhereItWas(t *testing.T) {
	module, other := realModule(t, release+"/e100.ko"), realModule(t, release+"/mii.ko")
	top := padded(t, hostTree+"/e100.ko", module, 1000, 1<<20)
	middle := padded(t, hostTree+"/mii.ko", other, 6<<20, 12<<20)
	bottom := layerOf(t, ent{name: hostTree + "/e100.ko", data: "hidden"}, ent{name: "licenses/LICENSE", data: "terms"})
	f := newRegistry(t, true)
	ref := f.push("d:1", imageOf(t, bottom, middle, top))
	open := func() *Image {
		img, err := openAt(t, ref, Options{Root: f.root(nil)})
		require.NoError(t, err)
		return img
	}
	want := Want{Licences: true}
	whole := filepath.Join(t.TempDir(), "whole")
	_, err := open().Fetch(t.Context(), whole, want)
	require.NoError(t, err)

	for name, cut := range map[string]map[int]int64{
		"in the last megabyte":         {1: int64(len(middle.packed)) - 1<<20, 0: 0},
		"in the middle":                {1: int64(len(middle.packed)) / 2},
		"before the first place":       {1: 1 << 20},
		"at once":                      {1: 0, 0: 0},
		"in the layer that came ahead": {2: 100_000, 1: int64(len(middle.packed)) - 1<<20},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			img := open()
			brokenOff(t, f, img, cut, dir, want)
			got, err := img.Fetch(t.Context(), dir, want)
			require.NoError(t, err)
			require.Equal(t, treeOf(t, whole), treeOf(t, dir))
			require.Equal(t, "terms", got.Licences[0].Text)
			asked := layersAsked(f, img)
			if _, ok := cut[2]; ok {
				return // how far the layer below was depends on the moment
			}
			require.Empty(t, asked[2], "the top layer was complete")
			if cut[1] > 7<<20 {
				require.Len(t, asked[1], 1)
				var from int64
				_, err := fmt.Sscanf(asked[1][0], "bytes=%d-", &from)
				require.NoError(t, err)
				require.Greater(t, from, cut[1]-6<<20)
				t.Logf("cut at %d of %d, taken up at %d", cut[1], len(middle.packed), from)
			}
			require.NoDirExists(t, dir+".part")
		})
	}
}

// treeOf is every file below dir and its content, without the inventory.
func treeOf(t *testing.T, dir string) map[string]string {
	tree := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == inventoryName {
			return err
		}
		raw, err := os.ReadFile(p)
		tree[strings.TrimPrefix(p, dir)] = string(raw)
		return err
	}))
	return tree
}

// What was kept is not trusted: a file that changed meanwhile, a position that
// does not go with the layer, or another image's remains, and all is fetched
// anew.
func TestDamagedRemainsOfAFetchAreNotUsed(t *testing.T) {
	layer := padded(t, hostTree+"/e100.ko", realModule(t, release+"/e100.ko"), 6<<20, 12<<20)
	f := newRegistry(t, true)
	ref := f.push("d:1", imageOf(t, layer))
	for name, damage := range map[string]func(t *testing.T, part string){
		"a file": func(t *testing.T, part string) { write(t, part, hostTree+"/e100.ko", "changed") },
		"a file is gone": func(t *testing.T, part string) {
			require.NoError(t, os.Remove(filepath.Join(part, hostTree, "e100.ko")))
		},
		"no JSON": func(t *testing.T, part string) { write(t, part, resumptionName, summed([]byte("{"))) },
		"a cut file": func(t *testing.T, part string) {
			require.NoError(t, os.Truncate(filepath.Join(part, resumptionName), 3000))
		},
		"another image's": func(t *testing.T, part string) { alter(t, part, func(r *resumption) { r.Digest = "sha256:other" }) },
		"another want's": func(t *testing.T, part string) {
			alter(t, part, func(r *resumption) { r.Want.Releases = []string{"5.0"} })
		},
		"a hash": func(t *testing.T, part string) {
			alter(t, part, func(r *resumption) { r.Layers[0].Spot.Plain[50] ^= 1 })
		},
		"a place": func(t *testing.T, part string) {
			alter(t, part, func(r *resumption) { r.Layers[0].Spot.Point.In++ })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			img, err := openAt(t, ref, Options{Root: f.root(nil), Log: func(s string) { said = append(said, s) }})
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "s")
			brokenOff(t, f, img, map[int]int64{0: int64(len(layer.packed)) - 1<<20}, dir, Want{})
			damage(t, dir+".part")
			inv, err := img.Fetch(t.Context(), dir, Want{})
			require.NoError(t, err)
			require.Len(t, inv.Kernels[0].Modules, 1)
			asked := layersAsked(f, img)[0]
			require.Equal(t, "", asked[len(asked)-1], "the layer is read from its start: %v", said)
		})
	}
}

// summed puts the digest before remains, as they are stored.
func summed(raw []byte) string {
	sum := sha256.Sum256(raw)
	return string(sum[:]) + string(raw)
}

func alter(t *testing.T, part string, how func(*resumption)) {
	raw, err := os.ReadFile(filepath.Join(part, resumptionName))
	require.NoError(t, err)
	var r resumption
	require.NoError(t, json.Unmarshal(raw[sha256.Size:], &r))
	how(&r)
	raw, err = json.Marshal(r)
	require.NoError(t, err)
	write(t, part, resumptionName, summed(raw))
}

// A directory that was fetched is compared with its digests before it is used
// again.
func TestDamagedStoreIsFetchedAnew(t *testing.T) {
	ref := "oci:" + asLayout(t, imageOf(t, layerOf(t, ent{name: hostTree + "/dummy.ko", data: realModule(t, release+"/dummy.ko")})))
	dir := filepath.Join(t.TempDir(), "s")
	fetch := func() int64 {
		img, err := openAt(t, ref, Options{})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), dir, Want{})
		require.NoError(t, err)
		return img.fetched
	}
	require.NotZero(t, fetch())
	require.Zero(t, fetch())
	file := filepath.Join(dir, hostTree, "dummy.ko")
	require.NoError(t, os.Truncate(file, 4000))
	require.NotZero(t, fetch())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, realModule(t, release+"/dummy.ko"), string(raw))
}

// Nothing of a survey is lost when a fetch goes on in another process.
func TestSurveyIsKeptWhole(t *testing.T) {
	s := newSurvey()
	v := reflect.ValueOf(&s).Elem()
	s.releases["6.1"] = true
	s.modules["a"], s.debs["b"], s.rpms["c"] = 1, 2, 3
	s.raws, s.runfiles = []string{"d"}, []string{"e"}
	for i := range v.NumField() {
		if v.Type().Field(i).Name != "entries" { // counted apart
			require.False(t, v.Field(i).IsZero() || v.Field(i).Len() == 0, "this test does not fill %s", v.Type().Field(i).Name)
		}
	}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	var back survey
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, s, back)
}

// Of several layers the upper ones decide whatever order they arrive in, and
// hard links find content that passed before their layer was read.
func TestSlowUpperLayerStillDecides(t *testing.T) {
	e100, mii := realModule(t, release+"/e100.ko"), realModule(t, release+"/mii.ko")
	layers := []testLayer{
		layerOf(t, ent{name: hostTree + "/e100.ko", data: "old"}, ent{name: "usr/share/content", data: mii}, ent{name: "lib", link: "usr/lib"},
			ent{name: hostTree + "/gone.ko", data: e100}),
		layerOf(t, ent{name: "usr/share/other", data: "x"}, ent{name: "usr/share/more/", data: ""}),
		layerOf(t, ent{name: hostTree + "/.wh.gone.ko"}, ent{name: hostTree + "/e100.ko", data: e100}, ent{name: hostTree + "/mii.ko", hard: "usr/share/content"}),
	}
	f := newRegistry(t, true)
	ref := f.push("d:1", imageOf(t, layers...))
	img, err := openAt(t, ref, Options{Root: f.root(nil)})
	require.NoError(t, err)
	lower := make(chan struct{}, 2)
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, img.manifest.Layers[2].Digest.String()) {
			if isBlob(r) {
				lower <- struct{}{}
			}
			return false
		}
		<-lower // the layers below are asked for while the top one is awaited
		<-lower
		return false
	})
	dir := filepath.Join(t.TempDir(), "s")
	inv, err := img.Fetch(t.Context(), dir, Want{})
	require.NoError(t, err)
	require.Equal(t, []string{hostTree + "/e100.ko", hostTree + "/mii.ko"}, paths(inv.Kernels[0]))
	for name, want := range map[string]string{"e100.ko": e100, "mii.ko": mii} {
		raw, err := os.ReadFile(filepath.Join(dir, hostTree, name))
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
}
