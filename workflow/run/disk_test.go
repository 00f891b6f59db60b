package run_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// smallDisk is a tmpfs of its own for one node.
func smallDisk(t *testing.T, size string) string {
	require.Zero(t, os.Getuid(), "mounts a small tmpfs: run as root")
	mnt := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", mnt, "tmpfs", 0, "size="+size))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH)) })
	return mnt
}

// leave fills the disk but for so many pages.
func leave(t *testing.T, n *hostops.Node, pages int) {
	free, _, err := n.Free("/")
	require.NoError(t, err)
	f, err := os.Create(n.Path("/filler"))
	require.NoError(t, err)
	defer f.Close()
	for range int(free/4096) - pages {
		_, err = f.Write(make([]byte, 4096))
		require.NoError(t, err)
	}
}

// The disk gets full at each write in turn: first while the run is made and
// its journal reserved, then at any write of any step. Either the run is done,
// or the state before is there, and the exit code says which.
func TestFullDiskAtEveryWrite(t *testing.T) {
	want := undisturbed(t)
	reserve := int(journal.DefaultLimits().LogBytes+journal.DefaultLimits().Reserve) / 4096
	seen := map[int]int{}
	for _, from := range []int{0, reserve - 2} {
		for pages := from; pages < from+24; pages++ {
			n, p := nodeAt(t, smallDisk(t, "8m"))
			leave(t, n, pages)
			dir := run.Dir(stateDir, firstRun)
			if n.MkdirAll(dir, 0o700) != nil || plan.Save(n, dir, p) != nil {
				require.Equal(t, want.before, fingerprint(t, n), "%d pages", pages)
				seen[-1]++
				continue
			}
			var stderr bytes.Buffer
			o := options()
			o.Stderr = &stderr
			exit := run.Execute(context.Background(), n, dir, kinds, o)
			seen[exit]++
			if exit == 0 {
				require.Equal(t, want.after, fingerprint(t, n), "%d pages", pages)
				continue
			}
			require.Contains(t, []int{6, 7}, exit, "%d pages: %s", pages, stderr.String())
			require.Equal(t, want.before, fingerprint(t, n), "%d pages", pages)
			require.Contains(t, stderr.String()+summary(t, n, dir).Message, "no space left on device")
			if exit == 6 {
				require.Contains(t, stderr.String(), "free space in "+stateDir)
			}
		}
	}
	for _, exit := range []int{-1, 0, 6, 7} {
		require.NotZero(t, seen[exit], "exit %d never came: %v", exit, seen)
	}
}

// Another program takes the rest of the disk while a step runs: its undo and
// the whole story are still written down.
func TestDiskFilledWhileAStepRuns(t *testing.T) {
	want := undisturbed(t)
	for _, step := range []string{"new", "loaded", "replaced"} {
		t.Run(step, func(t *testing.T) {
			n, p := nodeAt(t, smallDisk(t, "8m"))
			fault(t, n, step, "do fill")
			dir := prepareRun(t, n, p, firstRun)
			require.Equal(t, 7, execute(n, dir, journal.ModeRun))
			require.Equal(t, want.before, fingerprint(t, n))
			s := summary(t, n, dir)
			require.Equal(t, journal.OutcomeUndone, s.Outcome)
			require.Contains(t, s.Message, "no space left on device")
		})
	}
}

func TestReadOnlyStateDirectoryRefusesTheRunAndSaysWhere(t *testing.T) {
	n, p := node(t)
	require.NoError(t, n.MkdirAll(stateDir, 0o755))
	require.NoError(t, unix.Mount("tmpfs", n.Path(stateDir), "tmpfs", unix.MS_RDONLY, "size=64k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(n.Path(stateDir), unix.MNT_DETACH)) })
	before := fingerprint(t, n)
	_, err := run.Start(n, stateDir, p, self(n))
	require.ErrorIs(t, err, unix.EROFS)
	require.ErrorContains(t, err, stateDir)
	require.Equal(t, before, fingerprint(t, n))
}

// The state directory turns read-only (a failing disk) after the plan was
// written: the runner does not begin, and says why.
func TestStateDirectoryThatTurnedReadOnly(t *testing.T) {
	n, p := nodeAt(t, smallDisk(t, "8m"))
	dir := prepareRun(t, n, p, firstRun)
	before := fingerprint(t, n)
	require.NoError(t, unix.Mount("", n.Root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	var stderr bytes.Buffer
	o := options()
	o.Stderr = &stderr
	require.Equal(t, 6, run.Execute(context.Background(), n, dir, kinds, o))
	require.Contains(t, stderr.String(), "read-only file system")
	require.Equal(t, before, fingerprint(t, n))
}

func TestHistoryGoesOnWithADamagedRunInIt(t *testing.T) {
	n, p := node(t)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 0, execute(n, dir, journal.ModeRun))
	require.NoError(t, n.WriteFile(dir+"/plan.json", nil, 0o600)) // empty after a hard reset
	second := prepareRun(t, n, p, "2026-1130-02")
	require.Equal(t, 0, execute(n, second, journal.ModeRun))
	all, err := run.List(n, stateDir)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Contains(t, all[0].Damaged, "plan.json")
	require.True(t, all[0].InEffect)
	require.Empty(t, all[1].Damaged)
	require.ErrorContains(t, run.CanRollback(n, stateDir, firstRun), "record is damaged")
	require.Error(t, run.CanRollback(n, stateDir, fmt.Sprint(firstRun, "9")), "a run that is not there")
}
