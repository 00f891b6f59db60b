package fetching

import (
	"encoding/base64"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

var update = flag.Bool("update", false, "write what was measured into the README")

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
// and hash the layers that have to be read with the system's own programs.
func tools(fitout, crane, ref, release string, blobs []string) []tool {
	account := images.Username + ":'" + images.Password + "'"
	limit := tool{"limit: `sha256`, `zcat`, `sha256` of the layers", "true"}
	for _, b := range blobs {
		limit.line += fmt.Sprintf(" && openssl dgst -sha256 %[1]s && zcat %[1]s | openssl dgst -sha256", b)
	}
	return []tool{
		{"`fitout image inspect`", fmt.Sprintf("%s image inspect --json --kernel %s %s", fitout, release, ref)},
		{"`crane export \\| tar x`", fmt.Sprintf("mkdir out && %s export %s - | tar x -C out opt/lib/modules/%s", crane, ref, release)},
		{"`skopeo copy`, `umoci unpack`", fmt.Sprintf("skopeo copy -q --src-creds %s --src-cert-dir $CERTS docker://%s oci:layout:x && umoci unpack --rootless --image layout:x out", account, ref)},
		limit,
	}
}

// site is Debian's registry, and what a client of it needs.
func site(t testing.TB) (*images.Registry, []string) {
	r, err := images.ServeDebian(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	home, certs := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(certs, "ca.crt"), []byte(r.CA), 0o644))
	auth := base64.StdEncoding.EncodeToString([]byte(images.Username + ":" + images.Password))
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.Addr, auth), 0o600))
	return r, []string{"DOCKER_CONFIG=" + home, "CERTS=" + certs, "SSL_CERT_FILE=" + filepath.Join(certs, "ca.crt"), "TMPDIR=" + onDisk(t)}
}

// userland is some 400 MB that no node wants: all modules of a kernel, in a place
// where none are looked for.
func userland(t testing.TB, k debian.Kernel) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(k.Modules(), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(p)
		rel, _ := filepath.Rel(k.Modules(), p)
		out["usr/share/app/"+rel] = string(raw)
		return err
	}))
	return out
}

// packed is the image that fitout image pack makes of the modules.
func packed(t testing.TB, kernels []debian.Kernel, names []string) v1.Image {
	dir := filepath.Join(t.TempDir(), "layout")
	to, err := image.ParseReference("oci:" + dir + ":1")
	require.NoError(t, err)
	_, err = image.Pack(t.Context(), image.PackOptions{Output: to, Work: t.TempDir(), Kernels: trees(t, kernels, names), Reach: image.Options{Arch: "amd64"}})
	require.NoError(t, err)
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	img, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return img
}

// blobs writes the layers that one kernel needs to files: all, or of a packed
// image its own.
func blobs(t testing.TB, img v1.Image, release string) (files []string) {
	layers, err := img.Layers()
	require.NoError(t, err)
	manifest, err := img.Manifest()
	require.NoError(t, err)
	for i, l := range layers {
		if r := manifest.Layers[i].Annotations["org.fitout.kernel.release"]; r != "" && r != release {
			continue
		}
		r, err := l.Compressed()
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.gz", i))
		f, err := os.Create(file)
		require.NoError(t, err)
		_, err = f.ReadFrom(r)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		files = append(files, file)
	}
	return files
}

// BenchmarkPeers gets one kernel of six out of the same images with different
// tools. With -update its tables go into the README.
func BenchmarkPeers(b *testing.B) {
	ks := kernels(b)
	names, release := modules(b, ks), ks[0].Release
	r, env := site(b)
	own, cr := fitout(b), crane(b)
	build := func(extra map[string]string) v1.Image {
		img, err := images.Build(images.Spec{Kernels: ks, Modules: names, Extra: extra})
		require.NoError(b, err)
		return img
	}
	cases := []struct {
		name, says string
		img        func() v1.Image
	}{
		{"plain", "six kernels with 41 modules each in one gzip layer", func() v1.Image { return build(nil) }},
		{"large", "the same on 400 MB of other files", func() v1.Image { return build(userland(b, ks[0])) }},
		{"packed", "the same modules as `fitout image pack` writes them", func() v1.Image { return packed(b, ks, names) }},
	}
	var tables []string
	for _, c := range cases {
		ref := "drivers/" + c.name + ":1"
		b.Run(c.name, func(b *testing.B) {
			img := c.img()
			require.NoError(b, r.Push(img, ref))
			all := tools(own, cr, r.Addr+"/"+ref, release, blobs(b, img, release))
			for b.Loop() {
				table := compare(b, env, all)
				b.Log("\n" + table)
				tables = append(tables, "Image: "+c.says+".\n\n"+table)
			}
		})
	}
	if *update {
		writeMeasured(b, strings.Join(tables, "\n"))
	}
}

// compare runs all tools in turns and gives the medians as a table.
func compare(b *testing.B, env []string, all []tool) string {
	spent := make([][]cost, len(all))
	for range rounds {
		for i, t := range all {
			dir := onDisk(b)
			spent[i] = append(spent[i], run(b, dir, env, t.line))
			require.NoError(b, os.RemoveAll(dir))
		}
	}
	cpu := func(c cost) float64 { return c.CPU.Seconds() }
	own := median(spent[0], cpu)
	var table strings.Builder
	fmt.Fprintln(&table, "| | CPU s | fitout takes of it | wall s | peak MiB | MB to disk |\n|---|---|---|---|---|---|")
	for i, t := range all {
		ratio := own / median(spent[i], cpu)
		fmt.Fprintf(&table, "| %s | %.2f | %.2fx | %.2f | %.0f | %.0f |\n", t.name, median(spent[i], cpu), ratio,
			median(spent[i], func(c cost) float64 { return c.Wall.Seconds() }),
			median(spent[i], func(c cost) float64 { return float64(c.RSS) / (1 << 20) }),
			median(spent[i], func(c cost) float64 { return float64(c.Written) / 1e6 }))
		b.ReportMetric(ratio, "cpu/"+[]string{"fitout", "crane", "umoci", "limit"}[i])
	}
	return table.String()
}

func median(all []cost, of func(cost) float64) float64 {
	var values []float64
	for _, c := range all {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// writeMeasured puts the tables into the README.
func writeMeasured(t testing.TB, tables string) {
	const file, opens, closes = "../../README.md", "<!-- measured by make peers -->\n", "<!-- to here -->\n"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(readme), opens)
	require.True(t, found, "the README has a place for the tables")
	_, after, found := strings.Cut(rest, closes)
	require.True(t, found)
	day := time.Now().Format(time.DateOnly)
	text := fmt.Sprintf("Measured on %s, medians of %d rounds in turns.\n\n%s\n", day, rounds, tables)
	require.NoError(t, os.WriteFile(file, []byte(before+opens+text+closes+after), 0o644))
}
