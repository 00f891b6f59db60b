package tui

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"fitout/tui/internal/fake"
	"fitout/tui/pages"
	"fitout/tui/term"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

var steps = flag.Int("walk", 20000, "keys that the random walk presses")

// alphabet is what the random walk presses: every named key, every letter that
// means something, and words that act.
func alphabet() []string {
	keys := []string{"n", "n", "enter", "enter", "enter", "down", "down", "up", "accept", "run", "b", "unsigned-module", "in-use"}
	for k := range named {
		if k != "ctrl+c" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for r := rune(' '); r < 127; r++ {
		if r != 'q' {
			keys = append(keys, string(r))
		}
	}
	return keys
}

// randomNode is a node of random kinds.
func randomNode(r *rand.Rand) func(*fake.Engine) {
	return func(e *fake.Engine) {
		states := []finding.State{finding.StateOK, finding.StateNeedsDriver, finding.StateWrongDriver, finding.StateUpdate, finding.StateNoImage,
			finding.StateFailed, finding.StatePassedThrough, finding.StateVirtualFunction, finding.StateNotNeeded, "never-heard-of"}
		e.Many(r.Intn(40))
		for i := range e.Node.Kinds {
			e.Node.Kinds[i].State = states[r.Intn(len(states))]
			e.Node.Devices[i].State = e.Node.Kinds[i].State
			if r.Intn(2) == 0 {
				e.Want(i)
			}
			if r.Intn(4) == 0 {
				e.Node.Kinds[i].Name = "Ünïcode® name\twith a tab\x1b[31m, and far too long for any column of any table that was ever drawn"
			}
		}
		e.Node.Maintenance.State = []string{"in-maintenance", "in-service", "unknown", "not-a-cluster-node", "odd"}[r.Intn(5)]
		if r.Intn(3) == 0 {
			e.Missing = []string{"unsigned-module", "in-use"}
		}
		e.Node.Host.AtBoot, e.Node.Host.SideTree = r.Intn(2) == 0, r.Intn(2) == 0
		plays := []func(*journal.Writer, *plan.Plan){fake.Succeed, fake.FailAt(3, true), fake.FailAt(2, false), fake.Vanish, fake.EndAs("odd", 3)}
		e.Play = plays[r.Intn(len(plays))]
	}
}

// TestRandomKeysNeverBreakTheScreenOrActUnasked presses random keys on random
// nodes at random sizes.
func TestRandomKeysNeverBreakTheScreenOrActUnasked(t *testing.T) {
	t.Chdir(t.TempDir()) // texts are saved where the keys say
	keys := alphabet()
	visited := map[string]bool{}
	for seed := int64(1); len(visited) < 3 || seed*300 <= int64(*steps); seed++ {
		r := rand.New(rand.NewSource(seed))
		p := []term.Profile{basic, basic, rich}[r.Intn(3)]
		w, hgt := 40+r.Intn(100), 10+r.Intn(40)
		h := newHarness(t, p, w, hgt, randomNode(r))
		h.m.c.SaveDir, h.m.c.AnswersPath = "saved", "saved/answers.yaml"
		var trail []string
		for i := 0; i < 300 && !h.quit; i++ {
			k := keys[r.Intn(len(keys))]
			if r.Intn(4) == 0 {
				k = onward(h, r)
			}
			trail = append(trail, k)
			words := h.wordOf()
			runs := len(h.engine.Started())
			before := h.chosen()
			_, risks := h.m.top().(*pages.Risks) // going back from there takes none
			h.keys(k)
			checkStep(t, h, seed, trail, w, hgt)
			if !risks && (k == "b" || k == "esc" || k == "left") {
				require.Equal(t, before, h.chosen(), "seed %d: going back changed an answer: %v", seed, trail)
			}
			if now := len(h.engine.Started()); now > runs {
				require.True(t, words && (k == "enter" || k == "ctrl+j"), "seed %d: a run began by %q: %v", seed, k, trail)
			}
			visited[fmt.Sprintf("%T", h.m.top())] = true
		}
	}
	t.Logf("pages visited: %d", len(visited))
	require.GreaterOrEqual(t, len(visited), 12, "the walk sees most pages: %v", visited)
}

// onward is a key that leads on from a page, so that the walk gets to the end.
func onward(h *harness, r *rand.Rand) string {
	switch p := h.m.top().(type) {
	case *pages.Hardware:
		return []string{"n", "n", "space", "down"}[r.Intn(4)]
	case *pages.Images:
		return []string{"enter", "enter", "1", "0", "2"}[r.Intn(5)]
	case *pages.Maintenance:
		return []string{"3", "enter"}[r.Intn(2)]
	case *pages.Licence:
		return []string{"accept", "enter"}[r.Intn(2)]
	case *pages.Risks:
		return []string{strings.Fields(p.Title())[0], "unsigned-module", "in-use", "enter"}[r.Intn(4)]
	case *pages.Plan:
		return []string{"run", "enter"}[r.Intn(2)]
	}
	return "enter"
}

// TestAnySizeIsDrawn resizes to sizes no terminal should have.
func TestAnySizeIsDrawn(t *testing.T) {
	for _, s := range screens {
		for _, p := range []term.Profile{basic, rich} {
			h := newHarness(t, p, 80, 24, s.change)
			h.keys(s.keys...)
			r := rand.New(rand.NewSource(7))
			for range 40 {
				w, hgt := r.Intn(50), r.Intn(20)
				h.send(tea.WindowSizeMsg{Width: w, Height: hgt})
				fits(t, h.view(), p, max(w, 2), max(hgt, 2))
			}
		}
	}
}

// chosen are the answers as they stand, finished or not.
func (h *harness) chosen() string {
	if h.m.c.Choices == nil {
		return ""
	}
	data, err := json.Marshal(h.m.c.Choices.Answers())
	require.NoError(h.t, err)
	return string(data)
}

// seesCursor holds that a page with a list shows the line that the cursor is on.
func (h *harness) seesCursor(trail []string) {
	h.t.Helper()
	view, marks := ansi.Strip(h.view()), h.m.c.Theme.Marks
	switch h.m.top().(type) {
	case *pages.Hardware:
		if strings.Contains(view, "Nothing to fit out.") || strings.Contains(view, "No device matches") {
			return
		}
	case *pages.Device, *pages.Images, *pages.When:
	default:
		return
	}
	require.Equal(h.t, 1, strings.Count(view, "\n "+marks.Cursor+" "), "%v: one cursor:\n%s", trail, view)
}

// wordOf says that the plan page holds the whole word.
func (h *harness) wordOf() bool {
	_, ok := h.m.top().(*pages.Plan)
	return ok && strings.Contains(ansi.Strip(h.view()), "[run")
}

func checkStep(t *testing.T, h *harness, seed int64, trail []string, w, hgt int) {
	t.Helper()
	view := h.view()
	if h.quit {
		return
	}
	rows := strings.Split(view, "\n")
	require.LessOrEqual(t, len(rows), hgt-1, "seed %d %v:\n%s", seed, trail, view)
	fits(t, view, h.m.profile, w, hgt)
	h.seesCursor(trail)
	require.NotEmpty(t, h.m.top().Keys(), "seed %d: a page without keys", seed)
	require.NotEmpty(t, h.m.top().Help(), "seed %d: a page without help", seed)
	require.LessOrEqual(t, len(h.timers), 50, "seed %d: timers pile up", seed)
}

// TestEveryPageHasAWayOut goes to every page and leaves it by b or Esc until the
// first page, or by q.
func TestEveryPageHasAWayOut(t *testing.T) {
	for _, s := range screens {
		t.Run(s.name, func(t *testing.T) {
			h := newHarness(t, basic, 80, 24, s.change)
			h.keys(s.keys...)
			h.wait(2 * time.Second)
			for i := 0; i < 20 && len(h.m.stack) > 1; i++ {
				h.keys("esc", "esc")
				if len(h.m.stack) > 1 && !h.m.top().Typing() {
					h.keys("b")
				}
			}
			require.Len(t, h.m.stack, 1, "%s: not left:\n%s", s.name, h.view())
			h.keys("esc", "q", "q")
			require.True(t, h.quit, "%s: q does not quit:\n%s", s.name, h.view())
		})
	}
}
