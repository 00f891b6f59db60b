package image

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// unpacked lays an image out as a container's root, by another library than
// this package and by tar.
func unpacked(t *testing.T, img v1.Image) string {
	t.Helper()
	root := t.TempDir()
	r := mutate.Extract(img)
	defer r.Close()
	cmd := exec.Command("tar", "-x", "-C", root)
	cmd.Stdin = r
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	return root
}

// baseImage has what KMM's init container runs: sh and cp.
func baseImage(t *testing.T) string {
	busybox, err := os.ReadFile("/bin/busybox")
	require.NoError(t, err, "busybox-static (make deps)")
	executable := func(name string) ent {
		return ent{name: name, data: string(busybox), head: func(h *tar.Header) { h.Mode = 0o755 }}
	}
	return asLayout(t, imageOf(t, layerOf(t, executable("bin/sh"), executable("bin/cp"), executable("bin/mkdir"), ent{name: "licenses/base", data: "terms of the base"})))
}

// KMM reads a packed image as any other: its worker copies the modules out with
// the image's own sh and cp, firmware too, and gives modprobe that directory
// (kernel-module-management de3f8c9, internal/pod/workerpodmanager.go).
func TestKMMReadsAPackedImage(t *testing.T) {
	dir := t.TempDir()
	o := kmmPack(t, dir)
	base := mustParse(t, "oci:"+baseImage(t))
	o.Base, o.Reach.Arch = &base, ""
	p, err := Pack(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, p.Layers, 4)
	require.Equal(t, "base", p.Layers[0].Kind)
	require.True(t, p.Layers[0].Kept)

	index, err := ocilayout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	m, err := index.IndexManifest()
	require.NoError(t, err)
	img, err := index.Image(m.Manifests[0].Digest)
	require.NoError(t, err)
	root := unpacked(t, img)
	out := filepath.Join(root, "tmp")
	const script = `set -e
/bin/mkdir -p /tmp/opt/lib/modules; /bin/cp -R /opt/lib/modules/6.1.0-57-amd64 /tmp/opt/lib/modules;
/bin/mkdir -p /tmp/firmware; /bin/cp -R /firmware/* /tmp/firmware;`
	worker := []string{"chroot", root, "/bin/sh", "-c", script}
	if os.Geteuid() != 0 {
		worker = append([]string{"unshare", "-r"}, worker...)
	}
	said, err := exec.Command(worker[0], worker[1:]...).CombinedOutput()
	require.NoError(t, err, string(said))
	require.FileExists(t, filepath.Join(out, "firmware/e100/d101m_ucode.bin"))
	link, err := os.Readlink(filepath.Join(out, "opt/lib/modules/6.1.0-57-amd64/host"))
	require.NoError(t, err)
	require.Equal(t, "/lib/modules/6.1.0-57-amd64", link)
	said, err = exec.Command("modprobe", "-d", filepath.Join(out, "opt"), "-S", "6.1.0-57-amd64", "--show-depends", "e100").CombinedOutput()
	require.NoError(t, err, string(said))
	require.Less(t, strings.Index(string(said), "mii.ko"), strings.Index(string(said), "e100.ko"))

	// A node takes nothing of the base, not its licences either; a copy of some
	// kernels keeps it.
	inv, _ := fetched(t, "oci:"+dir, Want{Releases: []string{"6.1.0-57-amd64"}, Licences: true})
	require.Equal(t, p.Layers[1].Size+p.Layers[3].Size, inv.Fetched)
	require.Empty(t, inv.Licences)
	reach := quiet(t)
	reach.Arch = ""
	some, err := Copy(t.Context(), mustParse(t, "oci:"+dir), mustParse(t, "oci:"+t.TempDir()), []string{"6.1.0-57-amd64"}, reach)
	require.NoError(t, err)
	require.Equal(t, []string{"6.1.0-55-amd64"}, some.Skipped)
}

// kmmPack are two kernels and firmware, with KMM's link to the host's modules.
func kmmPack(t *testing.T, dir string) PackOptions {
	fw := t.TempDir()
	write(t, fw, "e100/d101m_ucode.bin", "firmware")
	return PackOptions{
		Kernels:  []PackKernel{kernelDir(t, "6.1.0-57-amd64", "e100.ko", "mii.ko"), kernelDir(t, "6.1.0-55-amd64", "dummy.ko")},
		Firmware: fw, HostLink: true, Output: mustParse(t, "oci:"+dir), Work: t.TempDir(), Reach: quiet(t),
	}
}

// What was pushed is the image that was packed, to any client; a kernel appended
// in the registry leaves the other layers' digests as they were.
func TestAppendInARegistryPushesTheNewLayerAlone(t *testing.T) {
	f := newRegistry(t, true)
	first := mustParse(t, f.host()+"/d:1")
	before := f.pack(PackOptions{Kernels: []PackKernel{kernelDir(t, "6.1.0-57-amd64", "e100.ko", "mii.ko")}, Output: first})
	after := f.pack(PackOptions{Kernels: []PackKernel{kernelDir(t, "6.1.0-55-amd64", "dummy.ko")}, Append: &first, Output: mustParse(t, f.host()+"/d:2")})
	require.Equal(t, before.Layers[0].Digest, after.Layers[0].Digest)
	var sent []string
	for _, r := range f.requests {
		if digest := r.URL.Query().Get("digest"); digest != "" {
			sent = append(sent, digest)
		}
	}
	require.Contains(t, sent, after.Layers[1].Digest)
	require.NotContains(t, sent, before.Layers[0].Digest, "it was there already")

	ref, err := name.ParseReference(f.host() + "/d:2")
	require.NoError(t, err)
	img, err := remote.Image(ref, remote.WithTransport(f.Client().Transport))
	require.NoError(t, err)
	digest, err := img.Digest()
	require.NoError(t, err)
	require.Equal(t, after.Digest, digest.String())
	root := unpacked(t, img)
	require.FileExists(t, filepath.Join(root, "opt/lib/modules/6.1.0-55-amd64/kernel/drivers/dummy.ko"))
	require.FileExists(t, filepath.Join(root, "opt/lib/modules/6.1.0-57-amd64/modules.dep"))
}
