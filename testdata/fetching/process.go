package fetching

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm/debian"
)

// onDisk is a directory that is no memory file system.
func onDisk(t testing.TB) string {
	base, err := debian.CacheDir("fetching")
	require.NoError(t, err)
	dir, err := os.MkdirTemp(base, "")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// fitout builds the program.
func fitout(t testing.TB) string {
	bin := filepath.Join(t.TempDir(), "fitout")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "fitout/cmd/fitout")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// cost is what a command used up, its children included.
type cost struct {
	CPU, Wall time.Duration
	// RSS is the most memory that one of its processes had, in bytes.
	RSS int64
	Out string
}

// run runs a shell command line in dir with more environment.
func run(t testing.TB, dir string, env []string, line string) cost {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Run()
	require.NoError(t, err, "%s: %s", line, errs.String())
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()), Wall: time.Since(begun), RSS: used.Maxrss << 10, Out: out.String()}
}
