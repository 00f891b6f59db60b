package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"fitout/tui/internal/fake"
	"fitout/tui/look"
	"fitout/tui/term"
)

var update = flag.Bool("update", false, "write the golden files of the screens")

func TestMain(m *testing.M) {
	time.Local = time.UTC // journals are shown in local time
	flag.Parse()
	if child := os.Getenv("FITOUT_TEST_CHILD"); child != "" {
		os.Exit(runChild(child))
	}
	_ = flag.Set("test.parallel", "8") // tests on a pty mostly wait
	os.Exit(m.Run())
}

// toPlan are the keys from the first page to the plan.
var toPlan = []string{"n", "enter", "accept", "enter", "enter", "enter"}

// screens is every page, with the way to it.
var screens = []struct {
	name   string
	keys   []string
	change func(*fake.Engine)
}{
	{"hardware", nil, nil},
	{"hardware-filter", []string{"/", "intel"}, nil},
	{"hardware-all", []string{"a", "end"}, nil},
	{"hardware-nothing", nil, func(e *fake.Engine) { e.Node.Kinds, e.Node.Devices = nil, nil }},
	{"hardware-many", []string{"pgdown"}, func(e *fake.Engine) { e.Many(120) }},
	{"device", []string{"enter"}, nil},
	{"maintenance", []string{"n"}, func(e *fake.Engine) { e.Node.Maintenance.State = "in-service" }},
	{"image", []string{"n"}, nil},
	{"image-blocked", []string{"n", "3"}, nil},
	{"image-none", []string{"down", "space", "up", "space", "n"}, nil},
	{"why", []string{"n", "3", "w"}, nil},
	{"other-image", []string{"n", "c", "oci-archive:/media/usb/x.tar", "tab", "jane", "tab", "secret"}, nil},
	{"licence", []string{"n", "enter", "acc"}, nil},
	{"licence-name", []string{"n", "enter", "accept", "enter"}, nil},
	{"when", []string{"n", "enter", "accept", "enter", "enter"}, nil},
	{"when-impossible", []string{"n", "enter", "accept", "enter", "enter"}, func(e *fake.Engine) { e.Node.Host.SideTree, e.Node.Host.AtBoot = false, false }},
	{"risk", toPlan, func(e *fake.Engine) { e.Missing = []string{"unsigned-module", "in-use"} }},
	{"plan", append(append([]string{}, toPlan...), "3", "ru"), nil},
	{"plan-full", append(append([]string{}, toPlan...), "v"), nil},
	{"trouble", toPlan, func(e *fake.Engine) { e.PlanErr = fake.Lifeline }},
	{"running", append(append([]string{}, toPlan...), "run", "enter"), func(e *fake.Engine) { e.Play = fake.Vanish }},
	{"running-log", append(append([]string{}, toPlan...), "run", "enter", "l"), func(e *fake.Engine) { e.Play = fake.Vanish }},
	{"result", append(append([]string{}, toPlan...), "run", "enter"), nil},
	{"failure", append(append([]string{}, toPlan...), "run", "enter"), func(e *fake.Engine) { e.Play = fake.FailAt(4, true) }},
	{"failure-not-undone", append(append([]string{}, toPlan...), "run", "enter"), func(e *fake.Engine) { e.Play = fake.FailAt(4, false) }},
	{"cut-short", nil, func(e *fake.Engine) { e.Break("2026-1130-01") }},
	{"undo", append(append([]string{}, toPlan...), "run", "enter", "u"), func(e *fake.Engine) { e.Play = fake.FailAt(4, false) }},
	{"in-progress", nil, func(e *fake.Engine) { e.Hold("2026-1130-01") }},
	{"history", []string{"H"}, nil},
	{"help", []string{"n", "?"}, nil},
}

var sizes = []struct{ w, h int }{{80, 24}, {120, 40}, {60, 15}}

// TestScreensAreAsTheyWere compares every page with its golden file and holds
// the rules of plain terminals.
func TestScreensAreAsTheyWere(t *testing.T) {
	for _, s := range screens {
		for _, p := range []term.Profile{basic, rich} {
			for _, size := range sizes {
				name := fmt.Sprintf("%s.%s.%dx%d", s.name, p.Mode, size.w, size.h)
				t.Run(name, func(t *testing.T) {
					h := newHarness(t, p, size.w, size.h, s.change)
					h.keys(s.keys...)
					h.wait(2 * time.Second)
					view := hideTemp(h.view(), h.engine.Dir, h.m.c.SaveDir)
					fits(t, h.view(), p, size.w, size.h)
					path := filepath.Join("testdata", "golden", name+".txt")
					if *update {
						require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
						require.NoError(t, os.WriteFile(path, []byte(view+"\n"), 0o644))
					}
					want, err := os.ReadFile(path)
					require.NoError(t, err, "go test ./tui -update writes it")
					require.Equal(t, string(want), view+"\n")
				})
			}
		}
	}
}

// hideTemp takes the test's own directories out of a screen; what is cut off at
// the line's end goes with them.
func hideTemp(view string, dirs ...string) string {
	for _, dir := range dirs {
		for n := len(dir); n > 8; n-- {
			if i := strings.Index(view, dir[:n]); i >= 0 {
				end := i + strings.IndexAny(view[i:]+"\n", " \n\x1b")
				view = view[:i] + "/var/lib/fitout/..." + view[end:]
			}
		}
	}
	return view
}

// fits holds that a screen keeps the last row and column free, and that a basic
// one is ASCII without colour.
func fits(t testing.TB, view string, p term.Profile, w, h int) {
	t.Helper()
	rows := strings.Split(view, "\n")
	require.LessOrEqual(t, len(rows), h-1, "too many rows:\n%s", view)
	for _, row := range rows {
		require.LessOrEqual(t, look.Width(row), w-1, "too wide: %q", row)
		if p.Mode != term.Rich {
			for _, c := range []byte(row) {
				require.True(t, c < 127 && (c >= 32 || c == 27), "byte %#x in a basic screen: %q", c, row)
			}
			for _, seq := range strings.Split(row, "\x1b[")[1:] {
				code, _, _ := strings.Cut(seq, "m")
				require.Contains(t, []string{"0", "1", "7", "1;7"}, code, "colour in a basic screen: %q", row)
			}
		}
	}
}

// TestCursorIsSeenWithoutAttributes holds that the marker alone tells where the
// cursor is and what is selected.
func TestCursorIsSeenWithoutAttributes(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	for i := 0; i < 5; i++ {
		require.Equal(t, 1, strings.Count(ansi.Strip(h.view()), "\n > "), "one cursor:\n%s", h.view())
		h.keys("down")
	}
}
