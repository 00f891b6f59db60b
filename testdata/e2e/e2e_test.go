// Package e2e_test drives the built program on throw-away machines, as an
// operator does: over the serial console, and headless.
package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// fitout is the binary under test.
var fitout string

func TestMain(m *testing.M) { program.Main(m, &fitout) }

// The cards, as an answers file names them.
const (
	e1000eID  = "8086:10d3"
	nvmeID    = "1b36:0010"
	vmxnet3ID = "15ad:07b0"
)

// node is a machine with what the tests ask of it.
type node struct {
	t *testing.T
	*vm.Machine
}

// start boots a machine with fitout, and with programs of this directory.
func start(t *testing.T, cfg vm.Config, programs ...string) node {
	t.Helper()
	cfg.Tools = map[string]string{"fitout": fitout}
	dir := t.TempDir()
	for _, name := range programs {
		cfg.Tools[name] = tool(t, dir, "fitout/testdata/e2e/"+name)
	}
	return node{t, vm.Start(t, cfg)}
}

// tool builds a program of testdata for the machine.
func tool(t *testing.T, dir, pkg string) string {
	t.Helper()
	file := filepath.Join(dir, filepath.Base(pkg))
	require.NoError(t, program.Build(file, pkg))
	return file
}

// on is the same machine in a sub-test.
func (n node) on(t *testing.T) node { return node{t, n.Machine} }

// exits runs a command that must end with that code, and returns its output.
func (n node) exits(code int, cmd string) string {
	n.t.Helper()
	out, got := n.RunFor(5*time.Minute, cmd)
	require.Equal(n.t, code, got, "%s\n%s", cmd, out)
	return out
}

// ok runs a command that must succeed.
func (n node) ok(cmd string) string {
	n.t.Helper()
	return strings.TrimSpace(n.exits(0, cmd))
}

// json runs a read verb and reads the one document that it prints.
func (n node) json(into any, cmd string) {
	n.t.Helper()
	out := n.exits(0, cmd+" 2>/tmp/errors")
	require.NoError(n.t, json.Unmarshal([]byte(out), into), "%s\n%s", cmd, out)
}

// driver is the driver that the function in that slot is bound to, "" for none.
func (n node) driver(slot string) string {
	n.t.Helper()
	return n.ok("basename \"$(readlink /sys/bus/pci/devices/0000:00:" + slot + "/driver)\"")
}

// loaded says whether the kernel has the module.
func (n node) loaded(module string) bool {
	n.t.Helper()
	_, code := n.Run("test -d /sys/module/" + module)
	return code == 0
}

// state is all that a refused or undone run must leave as it was: the loaded
// modules, the bindings, /etc, what is staged for the kernel, the firmware path.
func (n node) state() string {
	n.t.Helper()
	return n.ok(`lsmod | cut -d' ' -f1 | sort
ls -l /sys/bus/pci/devices/*/driver | sed 's/.*:..\.[0-9] [0-9:]* //; s/.* \/sys/\/sys/'
find /etc -type f -exec sha256sum {} + | sort -k 2
find /run/fitout -name '*.ko*' 2>/dev/null
find /var/lib/fitout/tree /var/lib/fitout/firmware 2>/dev/null
cat /sys/module/firmware_class/parameters/path`)
}

// write puts a file on the machine.
func (n node) write(path, text string) {
	n.t.Helper()
	require.NoError(n.t, n.WriteFile(path, text))
}

// answer is one device rule of an answers file.
type answer struct {
	id string
	// driver is a catalog entry, or image a reference.
	driver, image string
	when          string
	licence       string // accepted, by this name
	risks         string // accepted, with commas between
}

// file writes the answers file.
func (a answer) file() string {
	what := "driver: " + a.driver
	if a.image != "" {
		what = "image: {reference: '" + a.image + "'}"
	}
	text := fmt.Sprintf("apiVersion: fitout/v1\nkind: Answers\nmetadata: {name: e2e}\ndevices:\n  - match: {id: %q}\n    %s\n    when: %s\n", a.id, what, a.when)
	if a.licence != "" {
		text += fmt.Sprintf("licences:\n  - {id: %s, digest: %q, accepted: true, by: ops@example.com, at: \"2026-11-30T12:00:00Z\"}\n", a.licence, images.LicenceDigest())
	}
	if a.risks != "" {
		text += "acceptRisks: [" + a.risks + "]\n"
	}
	return text
}

// apply writes the answers and runs them.
func (n node) apply(code int, a answer) string {
	n.t.Helper()
	n.write("/root/answers.yaml", a.file())
	return n.exits(code, "fitout --answers-file /root/answers.yaml")
}

func kernel(t *testing.T, meta debian.Meta) debian.Kernel {
	t.Helper()
	k, err := debian.Newest(meta)
	require.NoError(t, err)
	return k
}

func build(t *testing.T, spec images.Spec) imageOf {
	t.Helper()
	img, err := images.Build(spec)
	require.NoError(t, err)
	return imageOf{t, img}
}
