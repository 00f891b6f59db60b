package kmod_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/hostops"
)

const (
	release    = "6.1.0-57-amd64"
	modulesDir = "/lib/modules/" + release
	realFiles  = "../../testdata/modules"
)

// newNode builds a node that runs Debian's 6.1.0-57-amd64: the excerpts of its
// tables and the real modules of testdata/modules at their places.
func newNode(t testing.TB) *hostops.Node {
	t.Helper()
	n := hostops.At(t.TempDir(), nil)
	put(t, n, "/proc/sys/kernel/osrelease", release+"\n")
	put(t, n, "/proc/modules", "")
	put(t, n, "/dev/kmsg", "")
	put(t, n, "/proc/self/status", "Name:\tfitout\nCapEff:\t000001ffffffffff\n")
	excerpts, err := filepath.Glob("testdata/" + release + "/modules.*")
	require.NoError(t, err)
	require.NotEmpty(t, excerpts)
	for _, f := range excerpts {
		putFile(t, n, path.Join(modulesDir, filepath.Base(f)), f)
	}
	for name, place := range places(t) {
		f := filepath.Join(realFiles, release, filepath.Base(place))
		if _, err := os.Stat(f); err == nil {
			putFile(t, n, path.Join(modulesDir, place), f)
		} else {
			require.ErrorIs(t, err, os.ErrNotExist, name)
		}
	}
	return n
}

// places are the paths of the modules in modules.dep, by name.
func places(t testing.TB) map[string]string {
	b, err := os.ReadFile("testdata/" + release + "/modules.dep")
	require.NoError(t, err)
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		file, _, _ := strings.Cut(line, ":")
		found[module.NameOf(file)] = file
	}
	return found
}

func put(t testing.TB, n *hostops.Node, p, content string) {
	t.Helper()
	require.NoError(t, n.WriteFile(p, []byte(content), 0o644))
}

func putFile(t testing.TB, n *hostops.Node, p, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	put(t, n, p, string(b))
}

// addDevice puts a PCI function on the node.
func addDevice(t testing.TB, n *hostops.Node, addr, modalias string) {
	t.Helper()
	real := "/sys/devices/pci0000:00/" + addr
	put(t, n, real+"/modalias", modalias+"\n")
	put(t, n, real+"/driver_override", "(null)\n")
	require.NoError(t, n.Symlink("../../../devices/pci0000:00/"+addr, "/sys/bus/pci/devices/"+addr))
	require.NoError(t, n.MkdirAll("/sys/bus/pci/drivers", 0o755))
}

// recorder keeps what an action says.
type recorder struct{ lines []string }

func (r *recorder) Line(text string)      { r.lines = append(r.lines, text) }
func (r *recorder) Progress(int64, int64) {}
func (r *recorder) text() string          { return strings.Join(r.lines, "\n") }

const (
	e100Card = "pci:v00008086d00001229sv00008086sd0000000Cbc02sc00i00"
	ne2kCard = "pci:v000010ECd00008029sv00001AF4sd00001100bc02sc00i00"
	e825Card = "pci:v00008086d0000FFF1sv00008086sd00000000bc02sc00i00"
)
