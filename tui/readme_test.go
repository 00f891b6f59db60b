package tui

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/tui/internal/fake"
	"fitout/workflow"
)

// pictureCatalog is what the README's node may have.
const pictureCatalog = `apiVersion: fitout/v1
kind: Catalog
date: 2026-11-28
drivers:
  - name: intel-e100
    title: Intel PRO/100, out-of-tree
    vendor: Intel
    match: ["pci:v00008086d00001229sv*sd*bc02sc00i*"]
    modules: [e100]
    images: [{kernel: '^6\.1\.0-\d+-amd64$', reference: 'registry.example:5000/drivers/e100:3.5.24'}]
    licence: {id: intel-e100, file: /licenses/LICENSE}
`

// pictureNode is a node with network cards that its kernel has no module for,
// and a registry, under the name that a mirror's configuration gives it, that
// has one for one of them.
func pictureNode(t *testing.T) *workflow.Engine {
	t.Helper()
	e := realEngineWith(t, nodes.Bridge,
		nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"},
		nodes.Card{Address: "0000:06:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"},
		nodes.Card{Address: "0000:08:00.0", ID: "8086:10d3", Subsystem: "8086:a01f", Class: "020000"},
		nodes.Card{Address: "0000:00:02.0", ID: "1af4:1000", Subsystem: "1af4:0001", Class: "020000", Driver: "virtio-pci", Module: "virtio_pci"},
		nodes.Disk)
	r := serveDriver(t, "drivers/e100:3.5.24")
	auth := strings.ReplaceAll(r.DockerConfig(), images.GuestHost, r.Addr)
	for file, text := range map[string]string{
		"/etc/docker/certs.d/" + r.Addr + "/ca.crt": r.CA,
		"/etc/containers/auth.json":                 auth,
		"/etc/containers/registries.conf":           fmt.Sprintf("[[registry]]\nlocation = \"registry.example:5000\"\n[[registry.mirror]]\nlocation = %q\n", r.Addr),
		// A whole node: root's capabilities, the kernel's symbol versions, firmware.
		"/proc/self/status":                  "Name:\tfitout\nCapEff:\t000001ffffffffff\n",
		"/lib/firmware/e100/d101m_ucode.bin": "firmware",
		"/lib/firmware/e100/d101s_ucode.bin": "firmware",
		"/lib/firmware/e100/d102e_ucode.bin": "firmware",
	} {
		require.NoError(t, e.Node.WriteFile(file, []byte(text), 0o600))
	}
	symvers, err := e.Node.ReadFile("/lib/modules/" + nodes.Release + "/Module.symvers")
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile("/lib/modules/"+nodes.Release+"/build/Module.symvers", symvers, 0o644))
	file := t.TempDir() + "/picture.yaml"
	require.NoError(t, os.WriteFile(file, []byte(pictureCatalog), 0o644))
	e.Catalog, err = catalog.Load(file)
	require.NoError(t, err)
	e.Catalog.Date = "2026-11-28" // whatever comes with the program
	return e
}

// TestPicturesOfTheReadmeAreTheProgramsOwn draws two pages of the wizard on a
// built node and compares them with the README. -update writes them there.
func TestPicturesOfTheReadmeAreTheProgramsOwn(t *testing.T) {
	h := &harness{t: t, now: fake.Began}
	h.begin(inProcess{pictureNode(t)}, basic, 80, 24)
	pictures := []string{picture(h)}
	h.keys("n")
	for i := 0; i < 20 && !strings.Contains(h.view(), "recommended:"); i++ {
		if h.at("2/7") {
			h.keys("enter")
		}
		h.wait(1e9)
	}
	h.on("3/7 Image")
	pictures = append(pictures, picture(h))
	const file, opens, closes = "../README.md", "<!-- the program's own screens: make screens -->\n```text\n", "\n```\n"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(readme), opens)
	require.True(t, found, "the README has a place for the pictures")
	there, after, found := strings.Cut(rest, closes)
	require.True(t, found)
	want := strings.Join(pictures, "\n\n")
	if *update && there != want {
		require.NoError(t, os.WriteFile(file, []byte(before+opens+want+closes+after), 0o644))
		return
	}
	require.Equal(t, want, there, "make screens writes it")
}

// picture is a screen as plain text, without the blank lines at its end that
// only hold the key line down.
func picture(h *harness) string {
	h.t.Helper()
	fits(h.t, h.view(), basic, 80, 24)
	lines := strings.Split(ansi.Strip(h.view()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	for strings.Contains(text, "\n\n\n") {
		text = strings.ReplaceAll(text, "\n\n\n", "\n\n")
	}
	return text
}
