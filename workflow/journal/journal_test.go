package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/workflow/journal"
)

// runDir makes a run's directory.
func runDir(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "2026-1130-01")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func create(t *testing.T, dir string, opts ...journal.Option) *journal.Writer {
	w, err := journal.Create(dir, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func appendAll(t *testing.T, w *journal.Writer, events ...journal.Event) {
	for _, e := range events {
		require.NoError(t, w.Append(e))
	}
}

var story = []journal.Event{
	{Event: journal.Start, Mode: journal.ModeRun, BootID: "b1", Kernel: "6.1.0-57-amd64", Of: 2,
		Steps: []journal.StepTitle{{ID: "stage", Title: "stage e1000e"}, {ID: "load", Title: "load e1000e"}}},
	{Event: journal.StepEv, Step: "stage", N: 1, Of: 2, State: journal.Running},
	{Event: journal.StepEv, Step: "stage", N: 1, Of: 2, State: journal.Prepared, Action: json.RawMessage(`{"Dir":"/run/fitout/x"}`)},
	{Event: journal.Log, Step: "stage", Message: "unpacked 3 files"},
	{Event: journal.Progress, Step: "stage", N: 1, Done: 10, Total: 20},
	{Event: journal.StepEv, Step: "stage", N: 1, Of: 2, State: journal.OK},
	{Event: journal.StepEv, Step: "load", N: 2, Of: 2, State: journal.Running},
	{Event: journal.StepEv, Step: "load", N: 2, Of: 2, State: journal.Prepared, Action: json.RawMessage(`{"Module":"e1000e"}`)},
	{Event: journal.StepEv, Step: "load", N: 2, Of: 2, State: journal.Failed, Code: "symbol-crc", Message: "the kernel refused it"},
	{Event: journal.StepEv, Step: "stage", N: 1, Of: 2, State: journal.Undone},
	{Event: journal.Done, Outcome: journal.OutcomeNotUndone, Exit: 8, NotUndone: []string{"load: module still there"}},
}

func TestSummaryTellsTheRunFromItsEventsAlone(t *testing.T) {
	dir := runDir(t)
	appendAll(t, create(t, dir), story...)
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Len(t, events, len(story))
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
		require.Equal(t, "2026-1130-01", e.Run)
	}
	s := journal.Summarise(events)
	require.Equal(t, "stage e1000e", s.Steps[0].Title)
	require.Equal(t, journal.Undone, s.Steps[0].State)
	require.Nil(t, s.Steps[0].Action)
	require.EqualValues(t, 20, s.Steps[0].Total)
	require.Equal(t, journal.Failed, s.Steps[1].State)
	require.Equal(t, "symbol-crc", s.Steps[1].Code)
	require.JSONEq(t, `{"Module":"e1000e"}`, string(s.Steps[1].Action))
	require.Equal(t, 1, s.Failed)
	require.True(t, s.Ended)
	require.Equal(t, 8, s.Exit)
	require.Equal(t, []string{"load: module still there"}, s.NotUndone)
	require.Equal(t, "b1", s.BootID)
	require.EqualValues(t, 1, s.Lines)
}

func TestSummaryOfAResumedRunHasNotEnded(t *testing.T) {
	s := journal.Summarise(append(append([]journal.Event{}, story...), journal.Event{
		Event: journal.Start, Mode: journal.ModeResume, BootID: "b2", Steps: story[0].Steps}))
	require.False(t, s.Ended)
	require.Equal(t, "b2", s.BootID)
	require.Equal(t, -1, s.Failed)
	require.NotNil(t, s.Steps[1].Action, "what was prepared before stays known")
}

// A power cut leaves the file cut anywhere, or with zeros where data was not
// written yet. No earlier line may be lost, and the next run's writer goes on
// behind it.
func TestJournalCutAtEveryByteOfItsLastTwoLines(t *testing.T) {
	dir := runDir(t)
	w := create(t, dir)
	appendAll(t, w, story...)
	require.NoError(t, w.Close())
	whole, err := os.ReadFile(filepath.Join(dir, journal.File))
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	kept := len(strings.Join(lines[:len(lines)-2], ""))
	for _, zeros := range []int{0, 512} {
		for at := kept; at <= len(whole); at++ {
			cutDir := filepath.Join(t.TempDir(), "2026-1130-01")
			require.NoError(t, os.Mkdir(cutDir, 0o700))
			damaged := append(append([]byte{}, whole[:at]...), make([]byte, zeros)...)
			require.NoError(t, os.WriteFile(filepath.Join(cutDir, journal.File), damaged, 0o600))

			before, err := journal.Read(cutDir)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(before), len(story)-2, "cut at %d", at)
			require.Equal(t, story[len(before)-1].State, before[len(before)-1].State)

			w, err := journal.Create(cutDir)
			require.NoError(t, err)
			require.NoError(t, w.Append(journal.Event{Event: journal.Start, Mode: journal.ModeResume}))
			require.NoError(t, w.Close())
			after, err := journal.Read(cutDir)
			require.NoError(t, err)
			require.Len(t, after, len(before)+1, "cut at %d, %d zeros", at, zeros)
			require.Equal(t, before[len(before)-1].Seq+1, after[len(after)-1].Seq)
		}
	}
}

func TestOrderIsBySequenceWhenTheClockIsSetBackAYear(t *testing.T) {
	dir := runDir(t)
	clock := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	w := create(t, dir, journal.WithClock(func() time.Time { return clock }))
	appendAll(t, w, story[0], story[1])
	clock = clock.AddDate(-1, 0, 0)
	appendAll(t, w, story[2], story[3], story[4], story[4], story[5])
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Equal(t, journal.OK, events[len(events)-1].State)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
	}
	require.Equal(t, 2025, events[len(events)-1].Time.Year())
}

func TestFloodingDriverNeitherFillsTheDiskNorStalls(t *testing.T) {
	dir := runDir(t)
	limits := journal.DefaultLimits()
	limits.LogBytes = 256 << 10
	w := create(t, dir, journal.WithLimits(limits))
	const flood = 500_000
	line := strings.Repeat("e1000e: detected hardware unit hang ", 300) // 10 kB
	for range flood {
		require.NoError(t, w.Append(journal.Event{Event: journal.Log, Step: "load", Message: line}))
	}
	require.NoError(t, w.Append(journal.Event{Event: journal.StepEv, Step: "load", N: 1, State: journal.OK}))
	require.NoError(t, w.Close())

	st, err := os.Stat(filepath.Join(dir, journal.File))
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(300<<10))
	var sys unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, journal.File), &sys))
	require.Less(t, sys.Blocks*512, int64(400<<10), "reserved space is given back")

	events, err := journal.Read(dir)
	require.NoError(t, err)
	s := journal.Summarise(events)
	said := int64(0)
	for _, e := range events {
		if e.Event == journal.Log {
			require.LessOrEqual(t, len(e.Message), limits.LineBytes+40)
		}
		if e.Code == journal.CodeLogDropped && e.Total == 0 {
			said++
		}
	}
	require.EqualValues(t, 1, said, "that the bound was reached is said once")
	require.EqualValues(t, flood, s.Lines+s.Dropped, "every line is there or counted")
	require.Equal(t, journal.OK, events[len(events)-1].State)
}

func TestRateLimitLetsASteadyLogThrough(t *testing.T) {
	dir := runDir(t)
	clock := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	w := create(t, dir, journal.WithClock(func() time.Time { return clock }))
	for range 5000 {
		clock = clock.Add(10 * time.Millisecond)
		require.NoError(t, w.Append(journal.Event{Event: journal.Log, Message: "100 lines a second"}))
	}
	require.NoError(t, w.Sync())
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.EqualValues(t, 5000, journal.Summarise(events).Lines)
}

func TestProgressIsThinnedAndItsLastValueKept(t *testing.T) {
	dir := runDir(t)
	clock := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	w := create(t, dir, journal.WithClock(func() time.Time { return clock }))
	appendAll(t, w, story[0])
	for i := range 10_000 {
		clock = clock.Add(time.Millisecond)
		require.NoError(t, w.Append(journal.Event{Event: journal.Progress, Step: "stage", N: 1, Done: int64(i + 1), Total: 10_000}))
	}
	appendAll(t, w, story[5])
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Less(t, len(events), 60)
	require.EqualValues(t, 10_000, journal.Summarise(events).Steps[0].Done)
}

func TestFullDiskCannotSilenceStepBoundaries(t *testing.T) {
	require.Zero(t, os.Getuid(), "mounts a small tmpfs: run as root")
	mnt := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", mnt, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH)) })
	dir := filepath.Join(mnt, "2026-1130-01")
	require.NoError(t, os.Mkdir(dir, 0o700))
	limits := journal.DefaultLimits()
	limits.LogBytes, limits.Reserve = 512<<10, 512<<10
	w := create(t, dir, journal.WithLimits(limits))
	appendAll(t, w, story[:3]...)
	fill(t, filepath.Join(mnt, "fill"))
	for i := range 4000 {
		require.NoError(t, w.Append(journal.Event{Event: journal.Log, Message: fmt.Sprint(i, strings.Repeat(".", 200))}))
	}
	appendAll(t, w, story[3:]...)
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Equal(t, journal.Done, events[len(events)-1].Event)

	t.Run("a run that cannot reserve its journal does not start", func(t *testing.T) {
		second := filepath.Join(mnt, "2026-1130-02")
		require.NoError(t, os.Mkdir(second, 0o700))
		_, err := journal.Create(second, journal.WithLimits(limits))
		require.ErrorIs(t, err, unix.ENOSPC)
	})
}

// Without reserved space (a file system that cannot) a write fails half way;
// when there is room again the cut line is written once more, whole.
func TestHalfWrittenLineIsWrittenAgain(t *testing.T) {
	require.Zero(t, os.Getuid(), "mounts a small tmpfs: run as root")
	mnt := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", mnt, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH)) })
	dir := filepath.Join(mnt, "2026-1130-01")
	require.NoError(t, os.Mkdir(dir, 0o700))
	w := create(t, dir, journal.WithLimits(journal.Limits{LogBytes: 0, Reserve: 0}))
	appendAll(t, w, story[0])
	fill(t, filepath.Join(mnt, "fill"))
	big := journal.Event{Event: journal.FindingT, Message: strings.Repeat("x", 9000)}
	require.ErrorIs(t, w.Append(big), unix.ENOSPC)
	require.NoError(t, os.Remove(filepath.Join(mnt, "fill")))
	appendAll(t, w, story[1])
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Len(t, events[1].Message, 9000)
}

// fill takes all space that is left.
func fill(t *testing.T, path string) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			require.ErrorIs(t, err, unix.ENOSPC)
			return
		}
	}
}

func TestReaderPullsWholeLinesOnly(t *testing.T) {
	dir := runDir(t)
	r := journal.Open(dir)
	defer r.Close()
	got, err := r.Next(0)
	require.NoError(t, err)
	require.Empty(t, got, "no journal yet")

	w := create(t, dir)
	appendAll(t, w, story[:3]...)
	got, err = r.Next(2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	got, err = r.Next(2)
	require.NoError(t, err)
	require.Len(t, got, 1)

	f, err := os.OpenFile(filepath.Join(dir, journal.File), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(`{"seq":4,"event":"log","mess`)
	require.NoError(t, err)
	got, err = r.Next(0)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = f.WriteString("age\":\"later\"}\n")
	require.NoError(t, err)
	got, err = r.Next(0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, "later", got[0].Message)
}

func TestLogLinesReachReadersWithoutAStepBoundary(t *testing.T) {
	dir := runDir(t)
	w := create(t, dir)
	r := journal.Open(dir)
	defer r.Close()
	appendAll(t, w, journal.Event{Event: journal.Log, Message: "pulling"})
	require.Eventually(t, func() bool {
		got, err := r.Next(0)
		return err == nil && len(got) == 1
	}, 2*time.Second, 20*time.Millisecond)
}

func TestJournalInAReadOnlyDirectoryIsAnError(t *testing.T) {
	require.Zero(t, os.Getuid(), "mounts a tmpfs: run as root")
	mnt := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", mnt, "tmpfs", unix.MS_RDONLY, "size=64k"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH)) })
	_, err := journal.Create(mnt)
	require.ErrorIs(t, err, unix.EROFS)
}

func TestUnknownFieldsAndEventsAreIgnored(t *testing.T) {
	dir := runDir(t)
	lines := `{"seq":1,"event":"start","run":"2026-1130-01","steps":[{"id":"load","title":"load","colour":"red"}]}
{"seq":2,"event":"weather","sky":"grey"}
{"seq":3,"event":"step","step":"load","n":1,"state":"ok","new":{}}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, journal.File), []byte(lines), 0o600))
	events, err := journal.Read(dir)
	require.NoError(t, err)
	require.Equal(t, journal.OK, journal.Summarise(events).Steps[0].State)
}
