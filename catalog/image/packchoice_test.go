package image

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A kernel that is asked for by name is in the image that is written, or none is
// written; whatever is not asked for stays out, of an image in one layer too.
func TestAKernelThatIsNamedIsPackedOrCopiedOrMissed(t *testing.T) {
	dir := t.TempDir()
	_, err := twoKernels(t, "oci-archive:"+dir+"/packed.tar:v1")
	require.NoError(t, err)
	one := asLayout(t, imageOf(t, layerOf(t,
		ent{name: "opt/lib/modules/6.1.0-57-amd64/e100.ko", data: realModule(t, "6.1.0-57-amd64/e100.ko")},
		ent{name: "opt/lib/modules/6.1.0-55-amd64/dummy.ko", data: realModule(t, "6.1.0-55-amd64/dummy.ko")})))
	for _, from := range []string{"oci-archive:" + dir + "/packed.tar:v1", "oci:" + one} {
		o := PackOptions{Images: []Reference{mustParse(t, from)}, Releases: []string{"6.1.0-55-amd64"},
			Output: mustParse(t, "oci:"+t.TempDir()), Work: t.TempDir(), Reach: quiet(t)}
		_, err := Pack(t.Context(), o)
		require.NoError(t, err)
		inv, _ := fetchedFor(t, o.Output.String(), Want{})
		require.Equal(t, []string{"6.1.0-55-amd64"}, inv.Releases)
		o.Releases = append(o.Releases, "9.9")
		_, err = Pack(t.Context(), o)
		require.Equal(t, NoModule, CodeOf(err), err)
	}
	to := mustParse(t, "oci-archive:"+dir+"/copy.tar")
	_, err = Copy(t.Context(), mustParse(t, "oci-archive:"+dir+"/packed.tar:v1"), to, []string{"9.9"}, quiet(t))
	require.Equal(t, NoModule, CodeOf(err), err)
	require.NoFileExists(t, to.Path)
	require.NoDirExists(t, to.Path+".partial")
}

func TestTwoPlacesForOneKernelAreNotChosenFrom(t *testing.T) {
	a, b := kernelDir(t, "6.1.0-57-amd64", "e100.ko"), kernelDir(t, "6.1.0-57-amd64", "mii.ko")
	_, err := Pack(t.Context(), PackOptions{Kernels: []PackKernel{a, b}, Output: mustParse(t, "oci:"+t.TempDir()), Work: t.TempDir(), Reach: quiet(t)})
	require.Equal(t, Ambiguous, CodeOf(err), err)
	require.ErrorContains(t, err, a.Dir)
	require.ErrorContains(t, err, b.Dir)
}

func TestTwoLicencesOfOneNameAreBothPacked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/LICENSE": "one", "b/LICENSE": "two", "c/LICENSE": "one"} {
		write(t, dir, name, text)
	}
	pack := func(o PackOptions) *Inventory {
		o.Output, o.Work, o.Reach = mustParse(t, "oci:"+t.TempDir()), t.TempDir(), quiet(t)
		_, err := Pack(t.Context(), o)
		require.NoError(t, err)
		inv, _ := fetchedFor(t, o.Output.String(), Want{Licences: true})
		return inv
	}
	texts := func(inv *Inventory) (out []string) {
		for _, l := range inv.Licences {
			out = append(out, l.Text)
		}
		return out
	}
	k := kernelDir(t, "6.1.0-57-amd64", "mii.ko")
	inv := pack(PackOptions{Kernels: []PackKernel{k}, Licences: []string{dir + "/a/LICENSE", dir + "/b/LICENSE", dir + "/c/LICENSE"}})
	require.ElementsMatch(t, []string{"one", "two"}, texts(inv))
	require.ElementsMatch(t, []string{"one", "two"}, texts(pack(PackOptions{Images: []Reference{mustParse(t, inv.Reference)}})))
}

// What cannot be read or written on this machine is named as that.
func TestPackNamesTheFileThatFails(t *testing.T) {
	k := kernelDir(t, "6.1.0-57-amd64", "mii.ko")
	file := filepath.Join(k.Dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for name, c := range map[string]struct {
		code Code
		o    PackOptions
	}{
		"kernel":   {NotReadable, PackOptions{Kernels: []PackKernel{{k.Release, "/nowhere"}}}},
		"empty":    {NotReadable, PackOptions{Kernels: []PackKernel{{k.Release, t.TempDir()}}}},
		"licence":  {NotReadable, PackOptions{Kernels: []PackKernel{k}, Licences: []string{"/nowhere"}}},
		"firmware": {NotReadable, PackOptions{Kernels: []PackKernel{k}, Firmware: "/nowhere"}},
		"archive":  {NotWritable, PackOptions{Kernels: []PackKernel{k}, Output: mustParse(t, "oci-archive:/nowhere/x.tar")}},
		"layout":   {NotWritable, PackOptions{Kernels: []PackKernel{k}, Output: mustParse(t, "oci:"+file+"/x")}},
	} {
		if c.o.Output.Path == "" {
			c.o.Output = mustParse(t, "oci:"+t.TempDir())
		}
		c.o.Work, c.o.Reach = t.TempDir(), quiet(t)
		_, err := Pack(t.Context(), c.o)
		require.Equal(t, c.code, CodeOf(err), "%s: %v", name, err)
	}
}

// An archive holds the image that was asked for and nothing of one that an
// earlier, broken copy to the same place was for; a blob that the stick lost is
// not taken for whole.
func TestCopyTrustsNothingThatLiesAtItsPlace(t *testing.T) {
	dir := t.TempDir()
	_, err := twoKernels(t, "oci:"+dir+"/from:v1")
	require.NoError(t, err)
	from := mustParse(t, "oci:"+dir+"/from:v1")
	one, err := Copy(t.Context(), from, mustParse(t, "oci-archive:"+dir+"/1.tar"), nil, quiet(t))
	require.NoError(t, err)
	want, err := os.ReadFile(dir + "/1.tar")
	require.NoError(t, err)

	blobs := "2.tar.partial/blobs/sha256/"
	write(t, dir, blobs+strings.Repeat("0", 64), "another image")
	write(t, dir, "2.tar.partial/index.json", `{"schemaVersion":2,"manifests":[{"digest":"sha256:`+strings.Repeat("0", 64)+`","size":1}]}`)
	img, err := openAt(t, from.String(), Options{})
	require.NoError(t, err)
	write(t, dir, blobs+img.manifest.Layers[0].Digest.Hex, "half")
	_, err = Copy(t.Context(), from, mustParse(t, "oci-archive:"+dir+"/2.tar"), nil, quiet(t))
	require.NoError(t, err)
	got, err := os.ReadFile(dir + "/2.tar")
	require.NoError(t, err)
	require.Equal(t, want, got)

	doc, err := json.Marshal(one)
	require.NoError(t, err)
	require.Contains(t, string(doc), `"digest":"sha256:`)
	require.Contains(t, string(doc), `"skipped":[]`)
}
