package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// point is a moment in a run: in front of a system call that changes something.
type point struct {
	number      string
	step, state string // what the journal ends with
	call, file  string
	runner      string // pid
}

func (p point) String() string {
	return fmt.Sprintf("%s: step %s %s, before %s %s", p.number, p.step, p.state, p.call, p.file)
}

func (p point) n() int {
	n, _ := strconv.Atoi(p.number)
	return n
}

// boundary says that the journal is about to be synced.
func (p point) boundary() bool {
	return p.call == "fsync" && strings.HasSuffix(p.file, "/journal.jsonl")
}

func points(text string) []point {
	var out []point
	for line := range strings.Lines(text) {
		f := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "")
		out = append(out, point{f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return out
}

// faults is a machine on which one run is disturbed again and again.
type faults struct {
	node
	// before and after the run, and booted after it.
	before, after, booted string
	points                []point
	injected              int
	lost                  bool // with the machine's reset, all that is volatile
}

const applyHeld = "/tools/hold /run/hold %s fitout apply -a /root/answers.yaml"

// undisturbed makes the run once, notes its points and where it leads, and rolls
// it back. The image is in the store before: planning reads it.
func (f *faults) undisturbed() {
	f.ok("fitout plan -a /root/answers.yaml && sync")
	f.before = f.fingerprint()
	require.NoError(f.t, f.Snapshot("start"))
	f.ok(fmt.Sprintf(applyHeld, "-"))
	f.after = f.fingerprint()
	f.points = points(f.ok("cat /run/hold/log"))
	require.NotEqual(f.t, f.before, f.after)
	require.NoError(f.t, f.Snapshot("done"))
	f.ok("sync")
	f.reset(point{})
	f.booted, f.lost = f.fingerprint(), false
	require.NoError(f.t, f.Restore("done"))
	f.ok("fitout rollback \"$(ls /var/lib/fitout/runs | grep -v last)\" --yes")
	require.Equal(f.t, f.before, f.fingerprint(), "rolled back in peace")
	require.NoError(f.t, f.Restore("start"))
}

// every is how many of the points to disturb the run at: all with FITOUT_FULL=1,
// every third, and one inside each step that has none of these, with FITOUT_FULL=3;
// a sample without it.
func every(t *testing.T) int {
	value := os.Getenv("FITOUT_FULL")
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	require.NoError(t, err, "FITOUT_FULL is a number")
	return n
}

// chosen are the points to disturb the run at: boundaries and the middle of every
// kind of step, or of these a sample.
func (f *faults) chosen(every int) []point {
	var all []point
	inside := map[string][]point{}
	for _, p := range f.points {
		switch {
		case p.boundary():
			all = append(all, p)
		case p.state == "prepared":
			inside[p.step] = append(inside[p.step], p)
		}
	}
	for _, list := range inside {
		all = append(all, list[len(list)/2])
	}
	slices.SortFunc(all, func(a, b point) int { return a.n() - b.n() })
	if every == 0 {
		moments := []string{"unload prepared", "load ok", "install-binary prepared"}
		last := all[len(all)-1] // all is said to be done, and has to be on the disk
		sample := slices.DeleteFunc(all, func(p point) bool {
			return !slices.Contains(moments, p.step+" "+p.state) || p.boundary() != (p.state == "ok")
		})
		require.Len(f.t, sample, len(moments))
		return append(sample, last)
	}
	var out []point
	steps := map[string]bool{}
	for i, p := range all {
		if i%every == 0 || !p.boundary() && !steps[p.step] {
			steps[p.step], out = true, append(out, p)
		}
	}
	return out
}

// at waits until the run is held, and says where.
func (f *faults) at() point {
	f.t.Helper()
	var p []point
	require.Eventually(f.t, func() bool {
		out, code := f.Run("cat /run/hold/at")
		if code == 0 {
			p = points(out)
		}
		return len(p) == 1
	}, patience, 200*time.Millisecond, "the run is not held")
	return p[0]
}

// kill ends the runner with a signal that it cannot catch. What it had begun in
// the kernel goes on.
func (f *faults) kill(p point) {
	f.ok("kill -9 " + p.runner + " && touch /run/hold/go")
	require.Eventually(f.t, func() bool {
		_, code := f.Run("pidof hold")
		return code != 0
	}, patience, 300*time.Millisecond, "who watched the run does not end")
	said := "its process is gone"
	if p.state == "done" {
		said = ": done\n" // its end is written
	}
	require.Contains(f.t, f.ok("cat /run/hold/said"), said)
}

// reset presses the reset button.
func (f *faults) reset(point) {
	require.NoError(f.t, f.Reset())
	f.lost = true
}

// resumed: the run goes on and ends as if nothing had been. One that had not
// begun is made anew; of one that had ended, all that it kept is there.
func (f *faults) resumed() {
	out, want := f.ok("fitout apply --resume"), f.after
	if strings.Contains(out, "No run was cut short") {
		switch {
		case f.fingerprint() == f.before:
			f.ok("fitout apply -a /root/answers.yaml")
		case f.lost:
			want = f.booted
		}
	}
	require.Equal(f.t, want, f.fingerprint())
}

// undone: the run is rolled back, and the node is as it was.
func (f *faults) undone() {
	id := f.ok("cd /var/lib/fitout/runs && ls -d */journal.jsonl | xargs -r grep -l '\"start\"' | cut -d/ -f1")
	if id != "" {
		f.ok("fitout rollback " + id + " --yes")
	}
	require.Equal(f.t, f.before, f.fingerprint())
}

// disturb is one fault at the point where the run is held, and both ends of it.
func (f *faults) disturb(t *testing.T, p point, name string, fault func(*faults, point)) {
	t.Run(name, func(t *testing.T) {
		f := &faults{node: f.on(t), before: f.before, after: f.after, booted: f.booted}
		fault(f, p)
		require.NoError(t, f.Snapshot("hurt"))
		for end, bring := range map[string]func(*faults){"resume": (*faults).resumed, "rollback": (*faults).undone} {
			t.Run(end, func(t *testing.T) {
				f := &faults{node: f.on(t), before: f.before, after: f.after, booted: f.booted, lost: f.lost}
				require.NoError(t, f.Restore("hurt"))
				bring(f)
			})
		}
	})
}

// kill -9 of the runner and a hard reset, at step boundaries and inside steps of
// a run that swaps, loads and keeps a driver: resumed, it ends where a run ends
// that nobody disturbs; rolled back, the node is as before.
func TestRunSurvivesKillAndResetAnywhere(t *testing.T) {
	t.Parallel()
	f := &faults{node: faultsMachine(t)}
	f.undisturbed()
	t.Logf("%d points in the run", len(f.points))
	chosen := f.chosen(every(t))
	require.NotEmpty(t, chosen)
	var numbers []string
	for _, p := range chosen {
		numbers = append(numbers, p.number)
	}
	f.ok("mkdir -p /run/hold && " + fmt.Sprintf(applyHeld, strings.Join(numbers, ",")) + " </dev/null >/run/hold/said 2>&1 &")
	for range chosen {
		p := f.at()
		require.NoError(t, f.Snapshot("here"))
		t.Run(p.String(), func(t *testing.T) {
			for name, fault := range map[string]func(*faults, point){"kill": (*faults).kill, "reset": (*faults).reset} {
				require.NoError(t, f.Restore("here"))
				f.disturb(t, p, name, fault)
				f.injected++
			}
		})
		require.NoError(t, f.Restore("here"))
		f.ok("touch /run/hold/go")
		require.Eventually(t, func() bool {
			_, code := f.Run("test -e /run/hold/go")
			return code != 0
		}, patience, 100*time.Millisecond)
	}
	t.Logf("%d faults at %d points, each resumed and rolled back", f.injected, len(chosen))
}
