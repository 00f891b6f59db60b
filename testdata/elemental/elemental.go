// Package elemental is a strict stand-in for the upgrade of an Elemental
// system: a new OS root, the chroot that sees /oem and the persistent
// partition where the real one does, and the real stage executor in it
// (command runstage). Tests that use it run as root.
package elemental

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/hosts"
	"fitout/testdata/program"
)

// Form is a toolkit: how it treats a broken file and, of the state directory
// State on the running system, the path Seen in the upgrade's chroot.
type Form struct {
	Name, Version string
	Files         hosts.Files
	State, Seen   string
}

// Forms are the two toolkits. In an upgrade pod /usr/local is not the host's;
// the host is reached through its first process.
func Forms() []Form {
	return []Form{
		{"toolkit v2", "v2", hosts.Elemental2(), "/run/elemental/persistent/fitout", "/run/elemental/persistent/fitout"},
		{"toolkit v1 of Harvester", "v1", hosts.Harvester(), "/var/lib/third-party/fitout", "/proc/1/root/var/lib/third-party/fitout"},
	}
}

// NewRoot is an OS image being built: a shell, kmod, a libc, and kernels.
func NewRoot(t testing.TB, kernels ...string) string {
	t.Helper()
	root := hosts.TempRoot(t)
	for _, tool := range []string{"/bin/sh", "/usr/sbin/depmod"} {
		CopyProgram(t, root, tool, tool)
	}
	for _, rel := range kernels {
		for p, content := range hosts.Kernel("/lib/modules", rel) {
			require.NoError(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
			require.NoError(t, os.WriteFile(root+p, []byte(content), 0o644))
		}
	}
	require.NoError(t, os.MkdirAll(root+"/lib/modules/6.99-orphan", 0o755))
	require.NoError(t, os.MkdirAll(root+"/dev", 0o755))
	require.NoError(t, os.WriteFile(root+"/dev/null", nil, 0o666))
	return root
}

// CopyProgram puts a program of this machine and its libraries below root.
func CopyProgram(t testing.TB, root, from, to string) {
	t.Helper()
	files := map[string]string{from: to}
	out, _ := exec.Command("ldd", from).Output()
	for _, w := range strings.Fields(string(out)) {
		if strings.HasPrefix(w, "/") {
			files[w] = w
		}
	}
	for src, dst := range files {
		b, err := os.ReadFile(src)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(root+dst), 0o755))
		require.NoError(t, os.WriteFile(root+dst, b, 0o755))
	}
}

// Upgrade moves /oem and the state directory of the node at nodeRoot to where
// the chroot sees them, runs the stage with the real executor, and moves them
// back. A process that a hook leaves behind fails the test, because the real
// toolkit then empties the host's /oem and /dev. exit is what the toolkit would
// end with; output what a strict run shows.
func (f Form) Upgrade(t testing.TB, nodeRoot, newRoot, stage string, strict bool) (exit int, output string) {
	t.Helper()
	move := func(from, to string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.Rename(from, to))
	}
	move(nodeRoot+f.State, newRoot+f.Seen)
	move(nodeRoot+"/oem", newRoot+"/oem")
	args := []string{"-form", f.Version, newRoot, stage}
	if strict {
		args = append([]string{"-strict"}, args...)
	}
	cmd := exec.Command(runstage(t), args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	require.Empty(t, inside(t, newRoot), "a process was left in the chroot")
	move(newRoot+f.Seen, nodeRoot+f.State)
	move(newRoot+"/oem", nodeRoot+"/oem")
	require.NotEqual(t, 99, cmd.ProcessState.ExitCode(), "these tests need root: %s", out.String())
	return cmd.ProcessState.ExitCode(), out.String()
}

// runstage is the path of the executor's command, built once a test program.
func runstage(t testing.TB) string { return commandPath(t, builtRunstage) }

// Toolkit is the path of the stand-in for elemental, a static program.
func Toolkit(t testing.TB) string { return commandPath(t, builtToolkit) }

// commandPath is the path of a command of this package that was built once.
func commandPath(t testing.TB, built func() (*os.File, error)) string {
	t.Helper()
	f, err := built()
	require.NoError(t, err)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
}

var (
	builtRunstage = builder("runstage")
	builtToolkit  = builder("toolkit")
)

// builder builds a command once, static, and keeps it open without a name, so
// that no file is left behind.
func builder(name string) func() (*os.File, error) {
	return sync.OnceValues(func() (*os.File, error) {
		dir, err := os.MkdirTemp("", "fitout-"+name+"-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, name)
		if err := program.Build(file, "fitout/testdata/elemental/"+name); err != nil {
			return nil, err
		}
		return os.Open(file)
	})
}

// inside lists processes whose root or working directory is below dir.
func inside(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	for _, what := range []string{"root", "cwd"} {
		links, err := filepath.Glob("/proc/[0-9]*/" + what)
		require.NoError(t, err)
		for _, l := range links {
			if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, dir) {
				out = append(out, l)
			}
		}
	}
	return out
}
