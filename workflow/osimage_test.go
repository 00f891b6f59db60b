package workflow_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// osRoot is an operating system with the kernel of the built node, under a
// release; what is not its kernel is there too.
func osRoot(t *testing.T, e *workflow.Engine, release string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/lib/modules"), 0o755))
	require.NoError(t, os.CopyFS(filepath.Join(root, "usr/lib/modules", release), os.DirFS(e.Node.Path("/lib/modules/"+nodes.Release))))
	require.NoError(t, os.Symlink("usr/lib", filepath.Join(root, "lib")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/lib/modules/6.99-orphan"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "usr/bin/something"), []byte("large"), 0o4755))
	return root
}

// osImage is the root as a container image of two layers: the second replaces
// the kernel's index, as an update layer does.
func osImage(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(p)
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(root, p); err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}))
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	img, err = mutate.ConfigFile(img, config)
	require.NoError(t, err)
	require.NoError(t, images.WriteLayout(img, dir, "1"))
	return "oci:" + dir + ":1"
}

// squashfs is the root as Harvester ships it, on the node.
func squashfs(t *testing.T, e *workflow.Engine, root string) string {
	t.Helper()
	file := "/var/tmp/rootfs.squashfs"
	require.NoError(t, os.MkdirAll(filepath.Dir(e.Node.Path(file)), 0o755))
	out, err := exec.Command("mksquashfs", root, e.Node.Path(file), "-quiet", "-no-progress", "-noappend").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// extImage is the root as Elemental boots it, on the node.
func extImage(t *testing.T, e *workflow.Engine, root string) string {
	t.Helper()
	file := "/var/tmp/snapshot.img"
	require.NoError(t, os.MkdirAll(filepath.Dir(e.Node.Path(file)), 0o755))
	require.NoError(t, os.RemoveAll(e.Node.Path(file)))
	out, err := exec.Command("mke2fs", "-q", "-t", "ext2", "-d", root, e.Node.Path(file), "64M").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// inRoot runs a command of this machine with the paths of a built node.
type inRoot struct{ n *hostops.Node }

func (r inRoot) Look(name string) bool { _, err := exec.LookPath(name); return err == nil }

func (r inRoot) Run(ctx context.Context, argv ...string) ([]byte, error) {
	for i, a := range argv {
		words := strings.Split(a, " ")
		for w, word := range words {
			// In a request to debugfs the last path is this machine's.
			if strings.HasPrefix(word, "/") && w == len(words)-1 {
				words[w] = r.n.Path(word)
			}
		}
		argv[i] = strings.Join(words, " ")
	}
	return exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
}

// Before an upgrade is started, the image that it would install says whether
// the kept driver goes on working: whatever form the image has, and nothing of
// it stays on the node.
func TestImageOfTheNextSystemIsCheckedBeforeTheUpgrade(t *testing.T) {
	e := engineOn(t)
	e.Node.Exec = inRoot{e.Node}
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNowPersist)
	sum := sha256.Sum256([]byte(licenceText))
	a.Licences = []answers.Licence{{ID: "e100", Digest: "sha256:" + hex.EncodeToString(sum[:]), Accepted: true, By: "ops@example.com"}}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, said := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", said)

	for _, next := range []struct {
		release string
		ok      bool
	}{{nodes.Release, true}, {"6.1.0-99-amd64", false}} {
		root := osRoot(t, e, next.release)
		for form, ref := range map[string]string{"container image": osImage(t, root), "squashfs": squashfs(t, e, root), "ext image": extImage(t, e, root)} {
			got, done, err := e.OSImage(t.Context(), ref)
			require.NoError(t, err, form)
			require.NoFileExists(t, e.Node.Path(filepath.Join(got, "usr/bin/something")), form)
			c, err := e.CheckKernel(t.Context(), "", got)
			require.NoError(t, err, form)
			require.Equal(t, next.release, c.Kernel, form)
			require.Equal(t, next.ok, c.OK, "%s: %+v", form, c)
			done()
			require.False(t, e.Node.Exists(got), form)
			require.False(t, e.Node.Exists(filepath.Join(e.StateDir(), "work")), form)
		}
	}
	_, _, err = e.OSImage(t.Context(), driverImage(t, nodes.Release, nodes.Release, "e100"))
	require.ErrorContains(t, err, "no kernel modules below")
	require.Equal(t, workflow.ExitNoMatch, workflow.ExitOf(err))
}
