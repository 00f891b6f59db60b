package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
)

// TestMain is the program itself where a test starts this binary as a process
// of its own: as another user, or on a terminal.
func TestMain(m *testing.M) {
	if os.Getenv("FITOUT_TEST_PROGRAM") != "" {
		os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// person is somebody without rights, who can read what others may.
type person struct {
	t            *testing.T
	program, tmp string
}

// nobody uses a copy of this binary, which must lie where everybody can read.
func nobody(t *testing.T) person {
	t.Helper()
	dir, err := os.MkdirTemp("", "fitout-nobody-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	p := person{t, filepath.Join(dir, "fitout"), filepath.Join(dir, "tmp")}
	require.NoError(t, os.Mkdir(p.tmp, 0o755))
	require.NoError(t, os.Chmod(p.tmp, 0o777))
	from, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(p.program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return p
}

// runs starts the program as that person.
func (p person) runs(args ...string) result {
	p.t.Helper()
	cmd := exec.Command(p.program, args...)
	cmd.Env = []string{"FITOUT_TEST_PROGRAM=1", "TMPDIR=" + p.tmp, "PATH=" + os.Getenv("PATH"), "HOME=/"}
	cmd.Dir = p.tmp
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	_ = cmd.Run()
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// readable lets everybody reach a directory of the test.
func readable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&0o005 != 0o005 {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
	}
}

// e100Card is a card that e100 drives.
var e100Card = nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"}

// e100Image packs an image with e100 and what it needs, and says where.
func e100Image(t *testing.T) (reference string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	tree := filepath.Join(t.TempDir(), nodes.Release)
	require.NoError(t, os.MkdirAll(tree, 0o755))
	for _, name := range []string{"e100.ko", "mii.ko"} {
		b, err := os.ReadFile(filepath.Join("../../testdata/modules", nodes.Release, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(tree, name), b, 0o644))
	}
	r := call(t, "image", "pack", "oci:"+dir+":1", "--kernel", tree)
	require.Equal(t, 0, r.code, r.err)
	readable(t, dir)
	return "oci:" + dir + ":1"
}

// Who may not write the store reads an image all the same, and nothing of it
// stays anywhere.
func TestVerdictWithoutRootLeavesNothing(t *testing.T) {
	p := nobody(t)
	root := nodes.Build(t, e100Card, nodes.Disk)
	readable(t, root)
	reference := e100Image(t)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(root, "var/lib"), 0o555))
	r := p.runs("--root", root, "why", reference, "--device", e100Card.ID)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "kernel "+nodes.Release+": ")
	require.Contains(t, r.out, "8086:1229 by e100")
	left, err := os.ReadDir(p.tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoDirExists(t, filepath.Join(root, "var/lib/fitout"))
}

// Each verb that looks works without root, or says in one sentence why not.
func TestVerbsThatLookWorkWithoutRootOrSayWhyNot(t *testing.T) {
	p := nobody(t)
	root := nodes.Build(t, e100Card, nodes.Disk)
	readable(t, root)
	verbs := [][]string{{"check", "--kernel", nodes.Release}, {"devices"}, {"explain", "lockdown"}, {"status"}, {"history"}, {"logs"}, {"images"}, {"needs-reboot"}}
	fresh := map[string]int{"logs": 4, "needs-reboot": 20} // there was no run; none is needed
	for _, verb := range verbs {
		r := p.runs(append([]string{"--root", root}, verb...)...)
		require.Equal(t, fresh[verb[0]], r.code, "%s: %s", verb[0], r.err)
	}

	// What a run leaves is for its owner alone.
	state := filepath.Join(root, "var/lib/fitout")
	for _, dir := range []string{"drivers", "runs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(state, dir), 0o700))
	}
	require.NoError(t, os.Chmod(state, 0o700))
	needs := map[string]bool{"status": true, "history": true, "logs": true, "check": true, "needs-reboot": true}
	for _, verb := range verbs {
		r := p.runs(append([]string{"--root", root}, verb...)...)
		if !needs[verb[0]] {
			require.Equal(t, 0, r.code, "%s: %s", verb[0], r.err)
			continue
		}
		require.Equal(t, 12, r.code, verb[0])
		require.Regexp(t, `^fitout: this needs root: .*permission denied\n  cure: run it with sudo\n`, r.err, verb[0])
	}
}
