package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fitout/tui/internal/fake"
	"fitout/tui/pages"
	"fitout/workflow/plan"
)

// What a basic screen may send: 115200 baud are 11,520 bytes a second.
const (
	firstFrame = 2000
	cursorMove = 250
	pageTurn   = 1500
	runningPS  = 1300
)

// meter counts what reaches a terminal.
type meter struct {
	mu sync.Mutex
	n  int
	b  bytes.Buffer
}

func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n += len(p)
	return m.b.Write(p)
}

// since is what was sent since the last question.
func (m *meter) since() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.n
	m.n = 0
	return n
}

// live draws the harness's page for real and sends what is drawn to a meter.
type live struct {
	*meter
	program *tea.Program
	done    chan struct{}
}

func (h *harness) live() *live {
	h.t.Helper()
	h.m.c.Timer, h.m.c.Now = nil, time.Now
	h.m.shown = time.Now().Add(-time.Second)
	l := &live{meter: &meter{}, done: make(chan struct{})}
	r, w := io.Pipe()
	l.program = tea.NewProgram(h.m, tea.WithContext(context.Background()), tea.WithInput(r), tea.WithOutput(l), tea.WithoutSignalHandler(),
		tea.WithoutBracketedPaste(), tea.WithFPS(framesBasic))
	go func() {
		defer close(l.done)
		_, _ = l.program.Run()
	}()
	h.t.Cleanup(func() {
		l.program.Kill()
		w.Close()
		<-l.done
	})
	l.program.Send(tea.WindowSizeMsg{Width: h.m.width, Height: h.m.height})
	time.Sleep(300 * time.Millisecond)
	return l
}

func (l *live) key(name string) int {
	l.since()
	msg, ok := named[name]
	if !ok {
		msg = key(name)
	}
	l.program.Send(msg)
	time.Sleep(150 * time.Millisecond)
	return l.since()
}

// cost is what one page sends: its first frame, a cursor move, the detail block
// that follows at rest, a page turn, a second of nothing.
type cost struct{ first, move, rest, turn, idle int }

func (h *harness) measure() cost {
	l := h.live()
	c := cost{first: l.since()}
	c.move = l.key("down")
	time.Sleep(500 * time.Millisecond)
	c.rest = l.since()
	c.move = max(c.move, l.key("up"))
	time.Sleep(500 * time.Millisecond)
	c.turn = max(l.key("pgdown"), l.key("pgup"))
	time.Sleep(500 * time.Millisecond)
	l.since()
	time.Sleep(1200 * time.Millisecond)
	c.idle = l.since()
	return c
}

// costs measures every page but the running one, in basic at 80x24.
func costs(t testing.TB) []cost {
	t.Helper()
	list := make([]cost, len(screens))
	var wg sync.WaitGroup
	for i, s := range screens {
		if strings.HasPrefix(s.name, "running") {
			continue
		}
		h := newHarness(t, basic, 80, 24, s.change)
		h.keys(s.keys...)
		h.wait(2 * time.Second)
		if _, form := h.m.top().(*pages.Custom); !form && h.m.top().Typing() {
			h.keys("esc") // what was begun to be typed is taken back
		}
		wg.Go(func() { list[i] = h.measure() })
	}
	wg.Wait()
	return list
}

// TestBytesStayWithinTheBudgetOfASlowLine holds the budget on every page.
func TestBytesStayWithinTheBudgetOfASlowLine(t *testing.T) {
	for i, c := range costs(t) {
		name := screens[i].name
		if c.first == 0 {
			continue
		}
		assert.LessOrEqual(t, c.first, firstFrame, "%s: first frame", name)
		assert.LessOrEqual(t, c.turn, pageTurn, "%s: page turn", name)
		if !scrolls[name] {
			assert.LessOrEqual(t, c.move, cursorMove, "%s: cursor move", name)
		}
		assert.Zero(t, c.idle, "%s: idle", name)
	}
}

// BenchmarkBytesOfEveryPage prints the table of which the README has a part.
func BenchmarkBytesOfEveryPage(b *testing.B) {
	for b.Loop() {
		most := cost{}
		fmt.Printf("\n%-20s %6s %6s %6s %6s %6s\n", "bytes (80x24, basic)", "first", "move", "rest", "turn", "idle")
		for i, c := range costs(b) {
			if c.first == 0 {
				continue
			}
			fmt.Printf("%-20s %6d %6d %6d %6d %6d\n", screens[i].name, c.first, c.move, c.rest, c.turn, c.idle)
			most.first, most.turn = max(most.first, c.first), max(most.turn, c.turn)
		}
		b.ReportMetric(float64(most.first), "most-B/frame")
		b.ReportMetric(float64(most.turn), "most-B/turn")
	}
}

// BenchmarkBytesOfARunWithAChattyLog measures the running page's bytes a second.
func BenchmarkBytesOfARunWithAChattyLog(b *testing.B) {
	for b.Loop() {
		rate, _ := chatty(b)
		b.ReportMetric(float64(rate), "B/s")
	}
}

// scrolls are pages without a cursor: a line down there is a page of text moved.
var scrolls = map[string]bool{"licence": true, "licence-name": true, "plan-full": true, "help": true, "why": true, "result": true, "trouble": true}

// chatty follows a run that logs 50 lines a second, and returns the bytes a
// second and all that was drawn.
func chatty(t testing.TB) (rate int, drawn string) {
	t.Helper()
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) {
		e.AtOnce, e.Now = false, nil
		e.Play = fake.Paced(3*time.Second, 50)
	})
	p := &plan.Plan{Steps: fake.Steps("nvidia-open-580")}
	run, err := h.engine.Start(context.Background(), p)
	require.NoError(t, err)
	h.m.c.Now = time.Now
	h.m.stack = []pages.Page{pages.NewRunning(h.m.c, run, p)}
	l := h.live()
	time.Sleep(time.Second)
	l.since()
	const span = 6
	time.Sleep(span * time.Second)
	rate = l.since() / span
	l.mu.Lock()
	defer l.mu.Unlock()
	return rate, l.b.String()
}

func TestRunningPageIsCheapUnderAChattyLog(t *testing.T) {
	t.Parallel()
	rate, drawn := chatty(t)
	require.LessOrEqual(t, rate, runningPS)
	require.Greater(t, rate, 100, "the log is shown")
	require.Contains(t, drawn, "depmod and modprobe")
}
