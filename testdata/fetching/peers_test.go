package fetching

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/testdata/images"
)

// rounds is how often each tool does its job; all take turns, so that a busy
// minute of the machine hits each of them.
const rounds = 5

// tool does the job: out of an image in a registry, the modules of one kernel
// as files.
type tool struct{ name, line string }

// crane installs the version that go.mod names.
func crane(t testing.TB) string {
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/google/go-containerregistry").Output()
	require.NoError(t, err)
	bin := t.TempDir()
	cmd := exec.Command("go", "install", "github.com/google/go-containerregistry/cmd/crane@"+strings.TrimSpace(string(version)))
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return filepath.Join(bin, "crane")
}

// tools are fitout and its peers, with the limit last: what it takes to unpack
// and hash the same layers with the system's own programs.
func tools(t testing.TB, ref, release string, blobs []string) []tool {
	account := images.Username + ":'" + images.Password + "'"
	limit := tool{"limit: openssl sha256, zcat, sha256", "true"}
	for _, b := range blobs {
		limit.line += fmt.Sprintf(" && openssl dgst -sha256 %[1]s && zcat %[1]s | openssl dgst -sha256", b)
	}
	return []tool{
		{"fitout image inspect", fmt.Sprintf("%s image inspect --json --kernel %s %s", fitout(t), release, ref)},
		{"crane export | tar x", fmt.Sprintf("mkdir out && %s export %s - | tar x -C out opt/lib/modules/%s", crane(t), ref, release)},
		{"skopeo copy, umoci unpack", fmt.Sprintf("skopeo copy -q --src-creds %s --src-cert-dir $CERTS docker://%s oci:layout:x && umoci unpack --rootless --image layout:x out", account, ref)},
		limit,
		{"limit: zcat alone", "zcat " + strings.Join(blobs, " ") + " >/dev/null"},
	}
}

// site is Debian's registry with the images in it, and what a client needs.
func site(t testing.TB) (*images.Registry, []string) {
	r, err := images.ServeDebian(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	home, certs := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(certs, "ca.crt"), []byte(r.CA), 0o644))
	auth := base64.StdEncoding.EncodeToString([]byte(images.Username + ":" + images.Password))
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Addr, auth)), 0o600))
	return r, []string{"DOCKER_CONFIG=" + home, "CERTS=" + certs, "SSL_CERT_FILE=" + filepath.Join(certs, "ca.crt"), "TMPDIR=" + onDisk(t)}
}

// blobsOf writes the layers of an image to files.
func blobsOf(t testing.TB, img v1.Image) []string {
	layers, err := img.Layers()
	require.NoError(t, err)
	var files []string
	for i, l := range layers {
		r, err := l.Compressed()
		require.NoError(t, err)
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.gz", i))
		f, err := os.Create(name)
		require.NoError(t, err)
		_, err = f.ReadFrom(r)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		files = append(files, name)
	}
	return files
}

// BenchmarkPeers gets one kernel of six out of the same images with different
// tools. The images are one gzip layer for all kernels, and fitout image pack's
// layer for each.
func BenchmarkPeers(b *testing.B) {
	ks := kernels(b)
	names, release := modules(b, ks), ks[0].Release
	plain, err := images.Build(images.Spec{Kernels: ks, Modules: names})
	require.NoError(b, err)
	r, env := site(b)
	require.NoError(b, r.Push(plain, "drivers/plain:1"))
	packed := filepath.Join(b.TempDir(), "layout")
	to, err := image.ParseReference("oci:" + packed + ":1")
	require.NoError(b, err)
	o := image.PackOptions{Output: to, Work: b.TempDir(), Reach: image.Options{Arch: "amd64"}}
	for release, dir := range trees(b, ks, names) {
		o.Kernels = append(o.Kernels, image.PackKernel{Release: release, Dir: dir})
	}
	_, err = image.Pack(b.Context(), o)
	require.NoError(b, err)
	index, err := layout.ImageIndexFromPath(packed)
	require.NoError(b, err)
	manifest, err := index.IndexManifest()
	require.NoError(b, err)
	img, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(b, err)
	require.NoError(b, r.Push(img, "drivers/packed:1"))
	for name, img := range map[string]v1.Image{"plain": plain, "packed": img} {
		b.Run(name, func(b *testing.B) {
			all := tools(b, r.Addr+"/drivers/"+name+":1", release, blobsOf(b, img))
			for b.Loop() {
				compare(b, env, all)
			}
		})
	}
}

// compare runs all tools in turns and reports the medians, and fitout's ratio
// to each.
func compare(b *testing.B, env []string, all []tool) {
	spent := make([][]cost, len(all))
	for range rounds {
		for i, t := range all {
			dir := onDisk(b)
			spent[i] = append(spent[i], run(b, dir, env, t.line))
			require.NoError(b, os.RemoveAll(dir))
		}
	}
	cpu := func(c cost) time.Duration { return c.CPU }
	wall := func(c cost) time.Duration { return c.Wall }
	own := median(spent[0], cpu)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ncommand\tcpu s, median\tleast\twall s\tpeak MiB\tfitout's cpu to it")
	for i, t := range all {
		least := slices.MinFunc(spent[i], func(a, b cost) int { return int(a.CPU - b.CPU) })
		ratio := own.Seconds() / median(spent[i], cpu).Seconds()
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.2f\n", t.name, median(spent[i], cpu).Seconds(), least.CPU.Seconds(),
			median(spent[i], wall).Seconds(), float64(spent[i][0].RSS)/(1<<20), ratio)
		b.ReportMetric(ratio, "cpu/"+strings.Fields(t.name)[0]+fmt.Sprint(i))
	}
	w.Flush()
	b.Log(table.String())
}

func median(all []cost, of func(cost) time.Duration) time.Duration {
	var values []time.Duration
	for _, c := range all {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
