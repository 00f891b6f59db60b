package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

const (
	kernelA = hosts.KernelA
	kernelB = hosts.KernelB
	kernelC = "6.1.0-54-amd64" // has no build in these tests
)

// node builds a node of files.
func node(t testing.TB, parts ...hosts.Files) *hostops.Node {
	t.Helper()
	return hostops.At(hosts.Write(t, parts...), nil)
}

// testModules is where real Debian modules lie.
const testModules = "../../testdata/modules"

// e100 is a two-module driver with firmware, builds for the kernels given, its
// files already in the node's store.
func e100(t testing.TB, n *hostops.Node, kernels ...string) Driver {
	t.Helper()
	d := Driver{Name: "intel-e100", Version: "3.5", Digest: "sha256:aa", Builds: map[string]Build{},
		Load: []string{"mii", "e100"}, Parameters: map[string][]string{"e100": {"debug=3"}},
		Replaces: []string{"e100"}, OnMissing: "stop", Devices: []string{"8086:1229"}}
	for _, rel := range kernels {
		dir := "/run/store/" + rel
		b := Build{Release: rel, Dir: dir, FirmwareDir: dir + "/fw", Firmware: []string{"e100/d101m_ucode.bin"}}
		for _, m := range []string{"mii", "e100"} {
			content, err := os.ReadFile(filepath.Join(testModules, kernelA, m+".ko"))
			require.NoError(t, err)
			b.Modules = append(b.Modules, "opt/lib/modules/"+m+".ko")
			require.NoError(t, n.WriteFile(dir+"/opt/lib/modules/"+m+".ko", content, 0o644))
		}
		require.NoError(t, n.WriteFile(dir+"/fw/e100/d101m_ucode.bin", []byte("ucode"), 0o644))
		d.Builds[rel] = b
	}
	return d
}

// dummy is a one-module driver without devices.
func dummy(t testing.TB, n *hostops.Node, name string, kernels ...string) Driver {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testModules, kernelA, "dummy.ko"))
	require.NoError(t, err)
	d := Driver{Name: name, Builds: map[string]Build{}, Load: []string{"dummy"}, OnMissing: "stop"}
	for _, rel := range kernels {
		dir := "/run/store2/" + rel
		require.NoError(t, n.WriteFile(dir+"/dummy.ko", content, 0o644))
		d.Builds[rel] = Build{Release: rel, Dir: dir, Modules: []string{"dummy.ko"}}
	}
	return d
}

// family detects, with a small program to install.
func family(t testing.TB, n *hostops.Node) Family {
	t.Helper()
	require.NoError(t, n.WriteFile("/run/store/fitout", []byte("#!/bin/true\n"), 0o755))
	return Detect(n).Using("/run/store/fitout", "1.0")
}

// lines collects what actions say.
type lines struct{ text []string }

func (l *lines) Line(s string)         { l.text = append(l.text, s) }
func (l *lines) Progress(int64, int64) {}

// apply does what the runner does, with a journal in between: every action is
// written as JSON after Prepare and after Do, and read back.
func apply(t testing.TB, n *hostops.Node, actions []hostops.Action) []hostops.Action {
	t.Helper()
	ctx := context.Background()
	var done []hostops.Action
	for _, a := range actions {
		ok, err := a.Done(ctx, n)
		require.NoError(t, err, a.Kind())
		if ok {
			continue
		}
		require.NoError(t, a.Prepare(ctx, n), a.Kind())
		a = reread(t, a)
		require.NoError(t, a.Do(ctx, n, &lines{}), a.Kind())
		ok, err = a.Done(ctx, n)
		require.NoError(t, err)
		require.True(t, ok, "%s is not done after Do", a.Kind())
		done = append(done, reread(t, a))
	}
	return done
}

func reread(t testing.TB, a hostops.Action) hostops.Action {
	t.Helper()
	b, err := json.Marshal(a)
	require.NoError(t, err)
	for _, make := range Actions() {
		if c := make(); c.Kind() == a.Kind() {
			require.NoError(t, json.Unmarshal(b, c))
			return c
		}
	}
	t.Fatalf("no action of kind %s", a.Kind())
	return nil
}

func undo(t testing.TB, n *hostops.Node, actions []hostops.Action) {
	t.Helper()
	for i := len(actions) - 1; i >= 0; i-- {
		require.NoError(t, actions[i].Undo(context.Background(), n, &lines{}), actions[i].Kind())
	}
}

// fingerprint is every file, link and directory of a node with its content,
// but for what logs and the store hold.
func fingerprint(t testing.TB, n *hostops.Node) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(n.Root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, n.Root)
		if strings.HasPrefix(rel, "/run/store") || rel == "/dev/kmsg" {
			return nil
		}
		line := rel + " " + d.Type().String()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			line += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %s", hashBytes(b)[:12])
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// stateOf makes the state directory, as fitout's own journal has by then.
func stateOf(t testing.TB, n *hostops.Node, f Family) string {
	t.Helper()
	require.NoError(t, n.WriteFile(f.Layout().State+"/runs/1", nil, 0o644))
	return f.Layout().State
}

func mustPersist(t *testing.T, f Family, d Driver) []hostops.Action {
	t.Helper()
	actions, err := f.Persist(d, "auto")
	require.NoError(t, err)
	return actions
}

func remove(t *testing.T, f Family, name string) []hostops.Action {
	t.Helper()
	actions, err := f.Remove(name, true)
	require.NoError(t, err)
	return actions
}
