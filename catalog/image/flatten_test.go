package image

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stacked layers must give what a container would see: the cases are those in
// which flattening tools have been wrong.
func TestLayersFlattenAsAContainerSeesThem(t *testing.T) {
	const d = "opt/lib/modules/" + release + "/extra/"
	a, b, c := realModule(t, release+"/dummy.ko"), realModule(t, release+"/mii.ko"), realModule(t, release+"/8390.ko")
	for _, tc := range []struct {
		name   string
		layers [][]ent
		want   map[string]string
	}{
		{"a later layer rewrites a hard-linked file", [][]ent{
			{{name: d + "a.ko", data: a}, {name: d + "b.ko", hard: d + "a.ko"}},
			{{name: d + "a.ko", data: b}},
		}, map[string]string{d + "a.ko": b, d + "b.ko": a}},
		{"hard link to a file of a lower layer", [][]ent{
			{{name: d + "a.ko", data: a}},
			{{name: d + "b.ko", hard: d + "a.ko"}},
		}, map[string]string{d + "a.ko": a, d + "b.ko": a}},
		{"hard link to a lower file that a layer between replaced", [][]ent{
			{{name: d + "a.ko", data: a}},
			{{name: d + "a.ko", data: b}},
			{{name: d + "c.ko", hard: d + "a.ko"}},
		}, map[string]string{d + "a.ko": b, d + "c.ko": b}},
		{"hard link to a file that is wanted nowhere else", [][]ent{
			{{name: "usr/share/x/a.ko", data: a}, {name: d + "a.ko", hard: "usr/share/x/a.ko"}},
		}, map[string]string{d + "a.ko": a}},
		{"hard link to a lower file that is wanted nowhere else", [][]ent{
			{{name: "usr/share/x/a.ko", data: a}},
			{{name: d + "a.ko", hard: "/usr/share/x/a.ko"}},
		}, map[string]string{d + "a.ko": a}},
		{"hard link before its target", [][]ent{
			{{name: d + "b.ko", hard: d + "a.ko"}, {name: d + "a.ko", data: a}},
		}, map[string]string{d + "a.ko": a, d + "b.ko": a}},
		{"hard link to a hard link", [][]ent{
			{{name: "x/a.ko", data: a}, {name: "x/b.ko", hard: "x/a.ko"}, {name: d + "c.ko", hard: "x/b.ko"}},
		}, map[string]string{d + "c.ko": a}},
		{"hard link whose target a later layer removes", [][]ent{
			{{name: d + "a.ko", data: a}, {name: d + "b.ko", hard: d + "a.ko"}},
			{{name: d + ".wh.a.ko"}},
		}, map[string]string{d + "b.ko": a}},
		{"parent directories without entries of their own", [][]ent{
			{{name: "lib/modules/" + release + "/a.ko", data: a}, {name: "opt/x/b.ko", hard: "lib/modules/" + release + "/a.ko"}},
		}, map[string]string{"lib/modules/" + release + "/a.ko": a}},
		{"whiteout of a file", [][]ent{
			{{name: d + "a.ko", data: a}, {name: d + "b.ko", data: b}},
			{{name: d + ".wh.a.ko"}},
		}, map[string]string{d + "b.ko": b}},
		{"whiteout of a directory, rebuilt above", [][]ent{
			{{name: d + "a.ko", data: a}},
			{{name: "opt/lib/.wh.modules"}},
			{{name: d + "c.ko", data: c}},
		}, map[string]string{d + "c.ko": c}},
		{"opaque directory", [][]ent{
			{{name: d + "a.ko", data: a}, {name: d + "b.ko", data: b}},
			{{name: d + "c.ko", data: c}, {name: d + ".wh..wh..opq"}},
		}, map[string]string{d + "c.ko": c}},
		{"a file replaces a directory", [][]ent{
			{{name: "opt/lib/modules/" + release + "/sub/a.ko", data: a}, {name: d + "b.ko", data: b}},
			{{name: "opt/lib/modules/" + release + "/sub", data: "a file"}},
		}, map[string]string{d + "b.ko": b}},
		{"a path twice in one layer: the last one counts", [][]ent{
			{{name: d + "a.ko", data: a}, {name: d + "b.ko", hard: d + "a.ko"}, {name: d + "a.ko", data: b}},
		}, map[string]string{d + "a.ko": b, d + "b.ko": a}},
		{"lib is a link to usr/lib below, a directory above", [][]ent{
			{{name: "usr/lib/"}, {name: "lib", link: "usr/lib"}, {name: "usr/lib/modules/" + release + "/b.ko", data: b}},
			{{name: "lib/modules/" + release + "/a.ko", data: a}},
		}, map[string]string{"usr/lib/modules/" + release + "/a.ko": a, "usr/lib/modules/" + release + "/b.ko": b}},
		{"long names", [][]ent{
			{{name: d + longName + "/a.ko", data: a}},
		}, map[string]string{d + longName + "/a.ko": a}},
		{"GNU long names", [][]ent{
			{{name: d + longName + "/a.ko", data: a, head: func(h *tar.Header) { h.Format = tar.FormatGNU }}},
		}, map[string]string{d + longName + "/a.ko": a}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var layers []testLayer
			for _, l := range tc.layers {
				layers = append(layers, layerOf(t, l...))
			}
			inv, dir, err := fetchLayers(t, Want{}, layers...)
			require.NoError(t, err)
			require.Len(t, inv.Kernels, 1)
			var got []string
			for p, want := range tc.want {
				raw, err := os.ReadFile(filepath.Join(dir, p))
				require.NoError(t, err)
				require.Equal(t, want, string(raw), p)
				got = append(got, p)
			}
			require.ElementsMatch(t, got, paths(inv.Kernels[0]))
		})
	}
}

var longName = func() string {
	b := make([]byte, 200)
	for i := range b {
		b[i] = 'n'
	}
	return string(b)
}()

// Links stay what they are; each file counts once by whatever path it is found.
func TestLinksAreKeptAndResolvedInsideTheImage(t *testing.T) {
	a := realModule(t, release+"/dummy.ko")
	const tree = "opt/lib/modules/" + release
	for _, tc := range []struct {
		name  string
		ents  []ent
		paths []string
		links map[string]string
	}{
		{"relative with .. that stays inside", []ent{
			{name: "data/dummy.ko", data: a}, {name: tree + "/extra/dummy.ko", link: "../../../../../data/dummy.ko"},
		}, []string{"data/dummy.ko"}, map[string]string{tree + "/extra/dummy.ko": "../../../../../data/dummy.ko"}},
		{"absolute, rooted at the image", []ent{
			{name: "data/dummy.ko", data: a}, {name: tree + "/dummy.ko", link: "/data/dummy.ko"},
		}, []string{"data/dummy.ko"}, map[string]string{tree + "/dummy.ko": "/data/dummy.ko"}},
		{"the whole tree elsewhere", []ent{
			{name: "data/drivers/x/dummy.ko", data: a}, {name: tree, link: "/data/drivers"},
		}, []string{"data/drivers/x/dummy.ko"}, map[string]string{tree: "/data/drivers"}},
		{"the same file by two paths counts once", []ent{
			{name: tree + "/extra/dummy.ko", data: a}, {name: tree + "/weak-updates/dummy.ko", link: "/" + tree + "/extra/dummy.ko"},
		}, []string{tree + "/extra/dummy.ko"}, map[string]string{tree + "/weak-updates/dummy.ko": "/" + tree + "/extra/dummy.ko"}},
		{"link to a link", []ent{
			{name: "v2/dummy.ko", data: a}, {name: "current", link: "v2"}, {name: tree + "/dummy.ko", link: "/current/dummy.ko"},
		}, []string{"v2/dummy.ko"}, map[string]string{tree + "/dummy.ko": "/current/dummy.ko"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inv, dir, err := fetchLayers(t, Want{}, layerOf(t, tc.ents...))
			require.NoError(t, err)
			require.Len(t, inv.Kernels, 1)
			require.Equal(t, release, inv.Kernels[0].Release)
			require.Equal(t, tc.paths, paths(inv.Kernels[0]))
			for p, target := range tc.links {
				got, err := os.Readlink(filepath.Join(dir, p))
				require.NoError(t, err)
				require.Equal(t, target, got)
			}
		})
	}
}

func TestLinksToTheHostsModulesAreNotTheVendors(t *testing.T) {
	a, b := realModule(t, release+"/dummy.ko"), realModule(t, release+"/mii.ko")
	const tree = "opt/lib/modules/" + release
	for _, link := range []ent{
		{name: tree + "/kernel", link: "/lib/modules/" + release + "/kernel"},
		{name: tree + "/host", link: "/lib/modules/" + release},
		{name: tree + "/host", link: "/host/lib/modules/" + release},
		{name: tree + "/host", link: "/usr/lib/modules/" + release},
	} {
		inv, _, err := fetchLayers(t, Want{}, layerOf(t, ent{name: tree + "/extra/dummy.ko", data: a}, link,
			ent{name: "lib/modules/" + release + "/kernel/mii.ko", data: b}))
		require.NoError(t, err, link.link)
		require.Len(t, inv.Kernels, 1)
		require.Equal(t, []string{link.name}, inv.Kernels[0].HostLinks)
		require.Equal(t, []string{tree + "/extra/dummy.ko"}, paths(inv.Kernels[0]), link.link)
	}
}

func TestTwoTreesForOneKernelAreRefusedUnlessNamed(t *testing.T) {
	a, b := realModule(t, release+"/dummy.ko"), realModule(t, release+"/mii.ko")
	layer := layerOf(t, ent{name: "opt/lib/modules/" + release + "/x.ko", data: a}, ent{name: "lib/modules/" + release + "/x.ko", data: b})
	_, _, err := fetchLayers(t, Want{}, layer)
	require.Equal(t, TwoTrees, CodeOf(err))
	require.ErrorContains(t, err, "/opt/lib/modules/"+release)
	require.ErrorContains(t, err, "/lib/modules/"+release)

	inv, _, err := fetchLayers(t, Want{DirName: "/opt"}, layer)
	require.NoError(t, err)
	require.Equal(t, []string{"opt/lib/modules/" + release + "/x.ko"}, paths(inv.Kernels[0]))
	inv, _, err = fetchLayers(t, Want{DirName: "/"}, layer)
	require.NoError(t, err)
	require.Len(t, inv.Kernels, 1)

	same := layerOf(t, ent{name: "opt/lib/modules/" + release + "/x.ko", data: a}, ent{name: "lib/modules/" + release + "/x.ko", data: a})
	inv, _, err = fetchLayers(t, Want{}, same)
	require.NoError(t, err, "equal trees are one")
	require.Len(t, inv.Kernels[0].Modules, 1)
}
