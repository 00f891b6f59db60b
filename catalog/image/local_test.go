package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func oneModule(t testing.TB) v1.Image {
	return imageOf(t, layerOf(t, ent{name: hostTree + "/extra/dummy.ko", data: realModule(t, release+"/dummy.ko")},
		ent{name: "licenses/LICENSE", data: "Some terms.\n"}))
}

func asDocker(t testing.TB, tags map[string]v1.Image) string {
	file := filepath.Join(t.TempDir(), "docker.tar")
	refs := map[name.Reference]v1.Image{}
	for tag, img := range tags {
		ref, err := name.NewTag(tag)
		require.NoError(t, err)
		refs[ref] = img
	}
	require.NoError(t, tarball.MultiRefWriteToFile(file, refs))
	return file
}

// The form of an archive is found by content; the same image in every form has
// the same id and the same modules.
func TestEveryFormOfAnImageGivesTheSameModules(t *testing.T) {
	img := oneModule(t)
	id, err := img.ConfigName()
	require.NoError(t, err)
	oci, docker := asLayout(t, img), asDocker(t, map[string]v1.Image{"example.org/driver:1": img})
	both := bothForms(t, oci, docker)
	archive := archived(t, oci)
	for _, ref := range []string{
		"oci:" + oci, oci, "oci-archive:" + archive, archive, "docker-archive:" + docker, docker, "oci-archive:" + docker,
		"docker-archive:" + archive, "docker-archive:" + docker + ":example.org/driver:1", "docker-archive:" + docker + ":1",
		both, "docker-archive:" + both, "oci-archive:" + both, "docker-archive:" + docker + ":@0", "oci:" + oci + ":@0",
	} {
		inv, _ := fetched(t, ref, Want{})
		require.Equal(t, id.String(), inv.ConfigDigest, ref)
		require.Equal(t, "kmm", inv.Layout)
		require.Equal(t, []string{hostTree + "/extra/dummy.ko"}, paths(inv.Kernels[0]), ref)
		require.Equal(t, "dummy", inv.Kernels[0].Modules[0].Info.Name)
		require.Equal(t, "test", inv.Labels["org.opencontainers.image.title"])
	}
}

// bothForms makes what docker save writes since version 25: an OCI layout with
// a manifest.json beside it.
func bothForms(t *testing.T, oci, docker string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(oci)))
	files, err := openTar(docker, Options{}.withDefaults())
	require.NoError(t, err)
	defer files.Close()
	for _, n := range files.first() {
		f, _, err := files.open(n)
		require.NoError(t, err)
		raw, err := readAll(f, n, 1<<30)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), raw, 0o644))
	}
	return archived(t, dir)
}

func TestWhatIsNoImageSaysWhatItFound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "driver.ko"), []byte("x"), 0o644))
	for _, ref := range []string{dir, archived(t, dir)} {
		_, err := openAt(t, ref, Options{})
		require.Equal(t, UnsupportedManifest, CodeOf(err))
		require.ErrorContains(t, err, "no manifest.json, no index.json")
		require.ErrorContains(t, err, "README")
	}
	_, err := openAt(t, filepath.Join(dir, "absent.tar"), Options{})
	require.Equal(t, NotFound, CodeOf(err))
}

// packings compress a whole archive, as people do before they carry it.
func packings(t testing.TB) map[string]func(raw []byte) []byte {
	tool := func(words ...string) func([]byte) []byte {
		return func(raw []byte) []byte {
			c := exec.Command(words[0], words[1:]...)
			c.Stdin = bytes.NewReader(raw)
			out, err := c.Output()
			require.NoError(t, err, words[0])
			return out
		}
	}
	return map[string]func([]byte) []byte{
		"gzip":  tool("gzip", "-c"),
		"xz":    tool("xz", "-1", "-c"),
		"bzip2": tool("bzip2", "-c"),
		"zstd": func(raw []byte) []byte {
			z, err := zstd.NewWriter(nil)
			require.NoError(t, err)
			return z.EncodeAll(raw, nil)
		},
	}
}

// "docker save | gzip" is how images travel; what comes out is the same as from
// the plain archive, and a cut or damaged one is named.
func TestArchiveCompressedAsAWhole(t *testing.T) {
	img := imageOf(t,
		padded(t, hostTree+"/e100.ko", realModule(t, release+"/e100.ko"), 300_000, 0),
		padded(t, hostTree+"/mii.ko", realModule(t, release+"/mii.ko"), 400_000, 0))
	for form, plain := range map[string]string{"docker": asDocker(t, map[string]v1.Image{"example.org/d:1": img}), "oci": archived(t, asLayout(t, img))} {
		raw, err := os.ReadFile(plain)
		require.NoError(t, err)
		want, dir := fetched(t, plain, Want{})
		for name, pack := range packings(t) {
			t.Run(form+" "+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "image.tar")
				packed := pack(raw)
				require.NoError(t, os.WriteFile(file, packed, 0o644))
				got, other := fetched(t, file, Want{})
				require.Equal(t, want.ConfigDigest, got.ConfigDigest)
				require.Equal(t, treeOf(t, dir), treeOf(t, other))

				require.NoError(t, os.WriteFile(file, packed[:len(packed)*2/3], 0o644))
				_, err = openAt(t, file, Options{})
				require.Equal(t, Truncated, CodeOf(err), "%v", err)
			})
		}
	}
}

// A layer of a gzip archive is read from a place near it, not from the start.
func TestLayersOfAGzipArchiveAreFoundByPlace(t *testing.T) {
	var layers []testLayer
	for i := range 6 {
		layers = append(layers, padded(t, fmt.Sprintf("%s/m%d.ko", hostTree, i), realModule(t, release+"/mii.ko"), 2<<20, 2<<20))
	}
	raw, err := os.ReadFile(asDocker(t, map[string]v1.Image{"example.org/d:1": imageOf(t, layers...)}))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "image.tar.gz")
	require.NoError(t, os.WriteFile(file, gzipped(t, raw), 0o644))
	files, err := openTar(file, Options{}.withDefaults())
	require.NoError(t, err)
	defer files.Close()
	p := files.(*packedFiles)
	require.Greater(t, len(p.points), 4)
	for name, m := range p.members {
		if m.size < smallMember {
			continue
		}
		r, err := p.from(m.offset)
		require.NoError(t, err)
		require.Less(t, r.gone, int64(2<<20), "%s at %d of %d", name, m.offset, len(raw))
		r.stop()
	}
}

// An archive that was copied in part says where it ends, not that a digest is
// wrong.
func TestCutArchiveIsNamed(t *testing.T) {
	img := imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")},
		ent{name: hostTree + "/8390.ko", data: realModule(t, release+"/8390.ko")}))
	for _, whole := range []string{archived(t, asLayout(t, img)), asDocker(t, map[string]v1.Image{"example.org/d:1": img})} {
		raw, err := os.ReadFile(whole)
		require.NoError(t, err)
		for _, percent := range []int{3, 30, 60, 90} {
			cut := filepath.Join(t.TempDir(), "cut.tar")
			require.NoError(t, os.WriteFile(cut, raw[:len(raw)*percent/100], 0o644))
			img, err := openAt(t, cut, Options{})
			if err == nil {
				_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
			}
			require.Equal(t, Truncated, CodeOf(err), "%d%%: %v", percent, err)
			require.Regexp(t, `ends after \d+ of \d+ bytes`, err.Error())
		}
	}
}

func TestSeveralImagesInOneArchiveNeedAName(t *testing.T) {
	a, b := oneModule(t), imageOf(t, layerOf(t, ent{name: hostTree + "/mii.ko", data: realModule(t, release+"/mii.ko")}))
	docker := asDocker(t, map[string]v1.Image{"example.org/a:1": a, "example.org/b:2": b})
	_, err := openAt(t, "docker-archive:"+docker, Options{})
	require.Equal(t, Ambiguous, CodeOf(err))
	require.ErrorContains(t, err, "example.org/a:1")
	inv, _ := fetched(t, "docker-archive:"+docker+":example.org/b:2", Want{})
	require.Equal(t, "mii", inv.Kernels[0].Modules[0].Info.Name)

	dir := t.TempDir()
	p, err := ocilayout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, p.AppendImage(a, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "one"})))
	require.NoError(t, p.AppendImage(b, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "two"})))
	_, err = openAt(t, "oci:"+dir, Options{})
	require.Equal(t, Ambiguous, CodeOf(err))
	require.ErrorContains(t, err, "one, two")
	inv, _ = fetched(t, "oci:"+dir+":two", Want{})
	require.Equal(t, "mii", inv.Kernels[0].Modules[0].Info.Name)
	_, err = openAt(t, "oci:"+dir+":three", Options{})
	require.Equal(t, TagMissing, CodeOf(err))

	ref, err := ParseReference("oci:" + dir)
	require.NoError(t, err)
	names, err := ListTags(t.Context(), ref, Options{Root: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, names)
}

// indexLayout writes a layout whose only entry is an index of the given entries.
func indexLayout(t testing.TB, imgs []v1.Image, entries []v1.Descriptor) string {
	dir := t.TempDir()
	p, err := ocilayout.Write(dir, empty.Index)
	require.NoError(t, err)
	for _, img := range imgs {
		require.NoError(t, p.AppendImage(img))
	}
	put := func(m v1.IndexManifest) v1.Descriptor {
		raw, err := json.Marshal(m)
		require.NoError(t, err)
		h, n, err := v1.SHA256(bytes.NewReader(raw))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, blobPath(h)), raw, 0o644))
		return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: h, Size: n}
	}
	d := put(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: entries})
	raw, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{d}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), raw, 0o644))
	return dir
}

func entryFor(t testing.TB, img v1.Image, platform string, media types.MediaType, notes map[string]string) v1.Descriptor {
	h, err := img.Digest()
	require.NoError(t, err)
	n, err := img.Size()
	require.NoError(t, err)
	d := v1.Descriptor{MediaType: media, Digest: h, Size: n, Annotations: notes}
	if platform != "" {
		d.Platform, err = v1.ParsePlatform(platform)
		require.NoError(t, err)
	}
	return d
}

// Entries of an index that are no images are passed over wherever they stand.
func TestIndexEntriesThatAreNoImagesArePassedOver(t *testing.T) {
	img, other := oneModule(t), imageOf(t, layerOf(t, ent{name: "in-toto.json", data: "{}"}))
	good := entryFor(t, img, "linux/arm64", types.OCIManifestSchema1, nil)
	for _, list := range [][]v1.Descriptor{
		{entryFor(t, other, "unknown/unknown", types.OCIManifestSchema1, map[string]string{attestation: "attestation-manifest"}), good},
		{good, entryFor(t, other, "unknown/unknown", types.OCIManifestSchema1, nil)},
		{entryFor(t, other, "linux/arm64", types.DockerManifestSchema1Signed, nil), good},
		{entryFor(t, other, "linux/amd64", types.OCIManifestSchema1, nil), good},
	} {
		dir := indexLayout(t, []v1.Image{img, other}, list)
		opened, err := openAt(t, "oci:"+dir, Options{Arch: "arm64"})
		require.NoError(t, err)
		require.Equal(t, good.Digest.String(), opened.Digest())
		require.NotEqual(t, opened.Digest(), opened.IndexDigest())
		require.NotEmpty(t, opened.IndexDigest())
		_, err = openAt(t, "oci:"+dir, Options{Arch: "riscv64"})
		require.Equal(t, NoPlatform, CodeOf(err))
		require.ErrorContains(t, err, "linux/arm64")
		require.NotContains(t, err.Error(), "unknown")
	}
	dir := indexLayout(t, []v1.Image{other}, []v1.Descriptor{entryFor(t, other, "", types.DockerManifestSchema1Signed, nil)})
	_, err := openAt(t, "oci:"+dir, Options{})
	require.Equal(t, NoPlatform, CodeOf(err))
	require.ErrorContains(t, err, string(types.DockerManifestSchema1Signed))
}

func TestIndexesInsideIndexesEndSomewhere(t *testing.T) {
	s, err := newStore(t.TempDir())
	require.NoError(t, err)
	d, err := s.putJSON(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{}}, types.OCIImageIndex)
	require.NoError(t, err)
	const deep = 6
	for range deep {
		d, err = s.putJSON(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{d}}, types.OCIImageIndex)
		require.NoError(t, err)
	}
	require.NoError(t, s.name(d, ""))
	_, err = openAt(t, "oci:"+s.dir, Options{})
	require.Equal(t, Limit, CodeOf(err))
	require.ErrorContains(t, err, "limit depth")
	_, err = openAt(t, "oci:"+s.dir, Options{Limits: Limits{Depth: deep + 2}})
	require.Equal(t, NoPlatform, CodeOf(err), "the innermost is empty")
}

func TestPinnedDigestIsTheOneThatIsUsed(t *testing.T) {
	dir := asLayout(t, oneModule(t))
	img, err := openAt(t, "oci:"+dir, Options{})
	require.NoError(t, err)
	_, err = openAt(t, "oci:"+dir, Options{Pin: img.Digest()})
	require.NoError(t, err)
	other := "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	_, err = openAt(t, "oci:"+dir, Options{Pin: other})
	require.Equal(t, TagMoved, CodeOf(err))
	require.ErrorContains(t, err, "now points to "+img.Digest()+", reviewed was "+other)
}

func TestVerifierIsAskedBeforeAnythingIsRead(t *testing.T) {
	dir := asLayout(t, oneModule(t))
	var asked []string
	_, err := openAt(t, "oci:"+dir, Options{Verifier: func(ref, digest string) error {
		asked = append(asked, ref, digest)
		return os.ErrPermission
	}})
	require.Equal(t, Untrusted, CodeOf(err))
	require.ErrorIs(t, err, os.ErrPermission)
	require.Len(t, asked, 2)
}

func TestCompleteStoreIsReadAgainAndAHalfOneIsNot(t *testing.T) {
	src := asLayout(t, oneModule(t))
	img, err := openAt(t, "oci:"+src, Options{})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "store")
	first, err := img.Fetch(t.Context(), dir, Want{Licences: true})
	require.NoError(t, err)
	require.Equal(t, "Some terms.\n", first.Licences[0].Text)

	again, err := ReadInventory(dir)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NoError(t, os.RemoveAll(src), "the source is gone: nothing may be read from it")
	again, err = img.Fetch(t.Context(), dir, Want{Licences: true})
	require.NoError(t, err)
	require.Equal(t, first, again)

	require.NoError(t, os.Remove(filepath.Join(dir, inventoryName)))
	_, err = ReadInventory(dir)
	require.ErrorIs(t, err, os.ErrNotExist)

	src = asLayout(t, oneModule(t))
	img, err = openAt(t, "oci:"+src, Options{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left-over"), nil, 0o644))
	_, err = img.Fetch(t.Context(), dir, Want{Licences: true})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "left-over"))

	bad := imageOf(t, layerOf(t, ent{name: "../x", data: "x"}))
	img, err = openAt(t, "oci:"+asLayout(t, bad), Options{})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), dir, Want{})
	require.Error(t, err)
	again, err = ReadInventory(dir)
	require.NoError(t, err, "a failed fetch leaves what was there")
	require.Equal(t, first.Digest, again.Digest)

	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "precious"), nil, 0o644))
	_, err = img.Fetch(t.Context(), foreign, Want{})
	require.ErrorContains(t, err, "not made by a fetch")
	require.FileExists(t, filepath.Join(foreign, "precious"))
}
