package tui

import (
	"context"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"fitout/tui/internal/fake"
	"fitout/tui/look"
	"fitout/tui/pages"
	"fitout/tui/term"
	"fitout/workflow"
	"fitout/workflow/answers"
)

var (
	basic = term.Profile{Mode: term.Basic}
	rich  = term.Profile{Mode: term.Rich, Color: true}
)

// harness runs the root model without a terminal and with its own clock:
// commands are carried out at once, timers when the clock gets there.
type harness struct {
	t       testing.TB
	m       *model
	engine  *fake.Engine
	now     time.Time
	timers  []timer
	quit    bool
	flushes int
	from    *answers.Answers // what the wizard begins from
	shells  int
}

type timer struct {
	at  time.Time
	msg tea.Msg
}

func (h *harness) Flush()         { h.flushes++ }
func (h *harness) Shell() tea.Cmd { h.shells++; return nil }

// Quiet is true: what comes in goes straight to the model.
func (h *harness) Quiet(time.Duration) bool { return true }

// newHarness starts the wizard on the fake node. change, when given, changes
// the node first.
func newHarness(t testing.TB, p term.Profile, w, hgt int, change func(*fake.Engine)) *harness {
	t.Helper()
	h := &harness{t: t, now: fake.Began, engine: fake.New(t.TempDir())}
	h.engine.AtOnce = true
	at := fake.Began
	h.engine.Now = func() time.Time { at = at.Add(time.Second); return at }
	if change != nil {
		change(h.engine)
	}
	h.begin(h.engine, p, w, hgt)
	return h
}

// begin starts the wizard on an engine.
func (h *harness) begin(engine workflow.Wizard, p term.Profile, w, hgt int) {
	h.t.Helper()
	t := h.t
	c := newCommon(context.Background(), engine, Options{Version: "0.1.0", AnswersPath: t.TempDir() + "/answers.yaml", Begin: h.from}, look.New(p))
	c.Now = func() time.Time { return h.now }
	c.Timer = func(d time.Duration, m tea.Msg) tea.Cmd {
		return func() tea.Msg { h.timers = append(h.timers, timer{h.now.Add(d), m}); return nil }
	}
	h.m = newModel(c, p, w, hgt, h)
	h.do(h.m.Init())
	h.wait(time.Second)
}

// do carries out a command and what follows from it.
func (h *harness) do(cmd tea.Cmd) {
	if cmd == nil || h.quit {
		return
	}
	msg := cmd()
	if msg == nil {
		return
	}
	if v := reflect.ValueOf(msg); v.Kind() == reflect.Slice && v.Type().Elem() == reflect.TypeOf(tea.Cmd(nil)) {
		for i := 0; i < v.Len(); i++ { // tea.Batch and tea.Sequence
			h.do(v.Index(i).Interface().(tea.Cmd))
		}
		return
	}
	h.send(msg)
}

func (h *harness) send(msg tea.Msg) {
	if _, ok := msg.(tea.QuitMsg); ok {
		h.quit = true
		return
	}
	_, cmd := h.m.Update(msg)
	h.do(cmd)
}

// wait lets time pass and the timers of that time ring.
func (h *harness) wait(d time.Duration) {
	end := h.now.Add(d)
	for !h.quit {
		next := -1
		for i, t := range h.timers {
			if !t.at.After(end) && (next < 0 || t.at.Before(h.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := h.timers[next]
		h.timers = append(h.timers[:next], h.timers[next+1:]...)
		if t.at.After(h.now) {
			h.now = t.at
		}
		h.send(t.msg)
	}
	h.now = end
}

// named are keys that are not characters.
var named = map[string]tea.KeyMsg{
	"enter": {Type: tea.KeyEnter}, "esc": {Type: tea.KeyEsc}, "up": {Type: tea.KeyUp}, "down": {Type: tea.KeyDown}, "left": {Type: tea.KeyLeft},
	"right": {Type: tea.KeyRight}, "pgup": {Type: tea.KeyPgUp}, "pgdown": {Type: tea.KeyPgDown}, "home": {Type: tea.KeyHome}, "end": {Type: tea.KeyEnd},
	"tab": {Type: tea.KeyTab}, "space": {Type: tea.KeySpace, Runes: []rune{' '}}, "bs": {Type: tea.KeyBackspace}, "ctrl+h": {Type: tea.KeyCtrlH},
	"ctrl+c": {Type: tea.KeyCtrlC}, "ctrl+j": {Type: tea.KeyCtrlJ}, "ctrl+l": {Type: tea.KeyCtrlL}, "ctrl+n": {Type: tea.KeyCtrlN}, "ctrl+p": {Type: tea.KeyCtrlP},
	"ctrl+t": {Type: tea.KeyCtrlT}, "ctrl+u": {Type: tea.KeyCtrlU}, "ctrl+z": {Type: tea.KeyCtrlZ}, "f1": {Type: tea.KeyF1}, "f4": {Type: tea.KeyF4},
}

// keys presses keys a second apart: names from the table, or words typed letter
// by letter.
func (h *harness) keys(list ...string) *harness {
	h.t.Helper()
	for _, k := range list {
		if msg, ok := named[k]; ok {
			h.press(msg)
			continue
		}
		for _, r := range k {
			h.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		}
	}
	return h
}

func (h *harness) press(k tea.KeyMsg) {
	h.wait(400 * time.Millisecond)
	h.send(k)
	h.wait(600 * time.Millisecond)
}

func (h *harness) view() string { return h.m.View() }

// sees holds that texts are on the screen.
func (h *harness) sees(texts ...string) *harness {
	h.t.Helper()
	for _, text := range texts {
		require.Contains(h.t, ansi.Strip(h.view()), text)
	}
	return h
}

// on holds which page is on top.
func (h *harness) on(title string) *harness {
	h.t.Helper()
	require.True(h.t, strings.HasPrefix(h.m.top().Title(), title), "on page %q, not %q:\n%s", h.m.top().Title(), title, h.view())
	return h
}

// page is the top page.
func page[P pages.Page](h *harness) P {
	h.t.Helper()
	p, ok := h.m.top().(P)
	require.True(h.t, ok, "the page is %T:\n%s", h.m.top(), h.view())
	return p
}

// at says which page is on top.
func (h *harness) at(title string) bool { return strings.HasPrefix(h.m.top().Title(), title) }

// risk is the name that the risk page wants typed.
func (h *harness) risk() string {
	h.t.Helper()
	m := regexp.MustCompile(`only with the risk  (\S+)`).FindStringSubmatch(ansi.Strip(h.view()))
	require.NotNil(h.t, m, h.view())
	return m[1]
}
