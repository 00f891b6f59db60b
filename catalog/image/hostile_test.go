package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

const hostTree = "opt/lib/modules/" + release

// Each entry would harm a root that trusts it. Nothing outside the store may
// change, the store itself goes, and the message names entry and layer.
func TestHostileEntriesAreRefused(t *testing.T) {
	a := realModule(t, release+"/dummy.ko")
	good := ent{name: hostTree + "/dummy.ko", data: a}
	for _, tc := range []struct {
		name string
		ents []ent
		code Code
		says string
	}{
		{"climbs out", []ent{{name: "../../etc/cron.d/x", data: "x"}}, Hostile, `"../../etc/cron.d/x"`},
		{"absolute name", []ent{{name: "/etc/passwd", data: "x"}}, Hostile, `"/etc/passwd"`},
		{"climbs out in the middle", []ent{{name: "a/../../b", data: "x"}}, Hostile, `"a/../../b"`},
		{"climbs out late", []ent{{name: "lib/modules/./../../../x", data: "x"}}, Hostile, `"lib/modules/./../../../x"`},
		{"a wanted link out of the root", []ent{{name: hostTree + "/x.ko", link: "../../../../../../../etc/shadow"}}, Hostile, "out of the image"},
		{"hard link out of the root", []ent{{name: hostTree + "/x.ko", hard: "../../etc/shadow"}}, Hostile, "out of the image"},
		{"hard link to nothing", []ent{{name: hostTree + "/x.ko", hard: "etc/shadow"}}, Corrupt, "no layer has"},
		{"device", []ent{{name: hostTree + "/x.ko", head: func(h *tar.Header) { h.Typeflag = tar.TypeChar }}}, Hostile, "device"},
		{"block device", []ent{{name: "firmware/x", head: func(h *tar.Header) { h.Typeflag = tar.TypeBlock }}}, Hostile, "device"},
		{"named pipe", []ent{{name: "licenses/x", head: func(h *tar.Header) { h.Typeflag = tar.TypeFifo }}}, Hostile, "device"},
		{"set-user-id", []ent{{name: hostTree + "/x.ko", data: a, head: func(h *tar.Header) { h.Mode = 0o4755 }}}, Hostile, "set-user-id"},
		{"a file and below it another", []ent{{name: hostTree + "/x.ko", data: a}, {name: hostTree + "/x.ko/y.ko", data: a}}, Hostile, "below a file"},
		{"a directory and a file", []ent{{name: hostTree + "/x.ko/y.ko", data: a}, {name: hostTree + "/x.ko", data: a}}, Hostile, "directory and a file"},
		{"name without end", []ent{{name: strings.Repeat("a/", 4000) + "x", data: "x"}}, Limit, "limit name"},
		{"hard links in a circle", []ent{{name: "x/a", hard: "x/b"}, {name: "x/b", hard: "x/a"}, {name: hostTree + "/x.ko", hard: "x/a"}}, Hostile, "circle"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			layer := layerOf(t, append([]ent{good}, tc.ents...)...)
			img, err := openAt(t, "oci:"+asLayout(t, imageOf(t, layer)), Options{})
			require.NoError(t, err)
			around := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(around, "host"), []byte("before"), 0o600))
			before := treeSum(t, around)
			_, err = img.Fetch(t.Context(), filepath.Join(around, "store"), Want{Licences: true})
			require.Error(t, err)
			require.Equal(t, tc.code, CodeOf(err), err.Error())
			require.ErrorContains(t, err, tc.says)
			if tc.code == Hostile && tc.says != "circle" {
				require.ErrorContains(t, err, img.manifest.Layers[0].Digest.String())
			}
			require.Equal(t, before, treeSum(t, around), "nothing is left and nothing changed")
		})
	}
}

// treeSum is a digest of every name, type and content below dir.
func treeSum(t *testing.T, dir string) string {
	h := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(h, p, d.Type())
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(p)
			h.Write(raw)
			return err
		}
		return nil
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A link and then a file through it: the file lands where the link leads inside
// the image's root, never outside.
func TestWritingThroughALinkStaysInside(t *testing.T) {
	a := realModule(t, release+"/dummy.ko")
	outside := t.TempDir()
	for target, lands := range map[string]string{outside: outside, "/etc": "/etc", "../../../../etc": "/etc", "../../../../../etc": "refused"} {
		layer := layerOf(t, ent{name: hostTree + "/sub", link: target}, ent{name: hostTree + "/sub/x.ko", data: a})
		inv, dir, err := fetchLayers(t, Want{}, layer)
		require.Empty(t, treeOf(t, outside))
		require.NoFileExists(t, "/etc/x.ko")
		if lands == "refused" {
			require.Equal(t, Hostile, CodeOf(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{lands[1:] + "/x.ko"}, paths(inv.Kernels[0]))
		require.FileExists(t, filepath.Join(dir, lands, "x.ko"))
	}
}

func TestLimitsAreNamedAndCanBeSet(t *testing.T) {
	a := realModule(t, release+"/dummy.ko")
	var many []ent
	for i := range 50 {
		many = append(many, ent{name: fmt.Sprintf("%s/m%d.ko", hostTree, i), data: a})
	}
	src := asLayout(t, imageOf(t, layerOf(t, many...)))
	for _, tc := range []struct {
		lim  Limits
		says string
	}{
		{Limits{Entries: 20}, "limit entries"},
		{Limits{Files: 20}, "limit files"},
		{Limits{Bytes: 100_000}, "limit bytes"},
		{Limits{Name: 30}, "limit name"},
	} {
		img, err := openAt(t, "oci:"+src, Options{Limits: tc.lim})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.Equal(t, Limit, CodeOf(err), tc.says)
		require.ErrorContains(t, err, tc.says)
	}
	_, err := openAt(t, "oci:"+src, Options{Limits: Limits{Manifest: 100}})
	require.ErrorContains(t, err, "limit manifest")
	_, dir := fetched(t, "oci:"+src, Want{})
	require.FileExists(t, filepath.Join(dir, hostTree, "m49.ko"))
}

// zeros packs n zero bytes as an unwanted file with zstd: a few hundred bytes
// for each gigabyte.
func zeros(t *testing.T, n int64, opts ...zstd.EOption) testLayer {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, opts...)
	require.NoError(t, err)
	sum := sha256.New()
	w := tar.NewWriter(multi{z, sum})
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "zeros", Size: n, Typeflag: tar.TypeReg}))
	block := make([]byte, 1<<20)
	for left := n; left > 0; left -= int64(len(block)) {
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return testLayer{packed: packed.Bytes(), media: types.OCILayerZStd, plain: nil}
}

type multi struct {
	a, b interface{ Write([]byte) (int, error) }
}

func (m multi) Write(p []byte) (int, error) {
	m.b.Write(p)
	return m.a.Write(p)
}

func TestDecompressionBombIsStopped(t *testing.T) {
	_, _, err := fetchLayers(t, Want{}, zeros(t, 320<<20))
	require.Equal(t, Limit, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "limit ratio")
}

func TestLargeZstdWindowIsRefusedUnlessAllowed(t *testing.T) {
	big := bytes.Repeat([]byte(realModule(t, release+"/e100.ko")), 200)
	plain := tarOf(t, ent{name: hostTree + "/dummy.ko", data: realModule(t, release+"/dummy.ko")}, ent{name: "pad", data: string(big)})
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithWindowSize(32<<20), zstd.WithSingleSegment(false))
	require.NoError(t, err)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	src := asLayout(t, imageOf(t, testLayer{packed.Bytes(), plain, types.OCILayerZStd}))

	img, err := openAt(t, "oci:"+src, Options{})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.Equal(t, Limit, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "limit window")

	img, err = openAt(t, "oci:"+src, Options{Limits: Limits{Window: 64 << 20}})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.NoError(t, err)
}

func xzOf(t testing.TB, plain []byte) []byte {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A compression is what the first bytes say, whatever the media type claims.
func TestCompressionIsFoundByContent(t *testing.T) {
	plain := tarOf(t, ent{name: hostTree + "/dummy.ko", data: realModule(t, release+"/dummy.ko")})
	packings := packings(t)
	packings["plain"] = func(raw []byte) []byte { return raw }
	for name, pack := range packings {
		for _, media := range []types.MediaType{"application/vnd.docker.image.rootfs.diff.tar.zstd", types.OCILayer, types.OCIUncompressedLayer, types.DockerLayer} {
			inv, _, err := fetchLayers(t, Want{}, testLayer{pack(plain), plain, media})
			require.NoError(t, err, "%s called %s", name, media)
			require.Len(t, inv.Kernels[0].Modules, 1)
		}
	}
}

// Wrong bytes, wrong lengths and wrong promises each get their own name.
func TestBytesThatAreNotWhatTheyShouldBeAreNamed(t *testing.T) {
	layer := layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")})
	blobOf := func(dir string) string {
		h, _, err := v1.SHA256(bytes.NewReader(layer.packed))
		require.NoError(t, err)
		return filepath.Join(dir, "blobs/sha256", h.Hex)
	}
	for _, tc := range []struct {
		name   string
		change func(raw []byte) []byte
		code   Code
		says   string
	}{
		{"cut", func(raw []byte) []byte { return raw[:len(raw)*9/10] }, Truncated, fmt.Sprintf("ends after %d of %d bytes", len(layer.packed)*9/10, len(layer.packed))},
		{"empty", func([]byte) []byte { return nil }, Truncated, "ends after 0 of"},
		{"longer", func(raw []byte) []byte { return append(raw, "more"...) }, DigestMismatch, "longer than"},
		{"a byte changed", func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }, DigestMismatch, "not what its digest promises"},
		{"the end changed", func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw }, DigestMismatch, "not what its digest promises"},
	} {
		dir := asLayout(t, imageOf(t, layer))
		raw, err := os.ReadFile(blobOf(dir))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(blobOf(dir), tc.change(raw), 0o644))
		img, err := openAt(t, "oci:"+dir, Options{})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.Equal(t, tc.code, CodeOf(err), "%s: %v", tc.name, err)
		require.ErrorContains(t, err, tc.says, tc.name)
	}

	other := layer
	other.plain = []byte("the configuration promises other bytes")
	_, _, err := fetchLayers(t, Want{}, other)
	require.Equal(t, DigestMismatch, CodeOf(err))
	require.ErrorContains(t, err, "configuration promises")
}
