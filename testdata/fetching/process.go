package fetching

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/program"
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
	require.NoError(t, program.Build(bin, "fitout/cmd/fitout"))
	return bin
}

// cost is what a command used up, its children included.
type cost struct {
	CPU, Wall time.Duration
	// RSS is the most memory that one of its processes had, in bytes.
	RSS int64
	// Written is what they gave to disks, in bytes.
	Written int64
	Out     string
}

// run runs a shell command line in dir with more environment. Memory is asked of
// time(1): what the kernel counts for a child of this process begins with what
// this process has.
func run(t testing.TB, dir string, env []string, line string) cost {
	peak := filepath.Join(t.TempDir(), "peak")
	cmd := exec.Command("time", "-q", "-f", "%M", "-o", peak, "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Run()
	wall := time.Since(begun)
	require.NoError(t, err, "%s: %s", line, errs.String())
	raw, err := os.ReadFile(peak)
	require.NoError(t, err)
	kib, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	require.NoError(t, err)
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()), Wall: wall, RSS: kib << 10,
		Written: used.Oublock << 9, Out: out.String()}
}
