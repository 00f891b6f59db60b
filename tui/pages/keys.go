package pages

import (
	tea "github.com/charmbracelet/bubbletea"
)

// Action is what a key means on every page.
type Action string

// The actions.
const (
	None     Action = ""
	Up       Action = "up"
	Down     Action = "down"
	PageUp   Action = "page up"
	PageDown Action = "page down"
	First    Action = "first"
	Last     Action = "last"
	Select   Action = "select"
	Go       Action = "go on"
	Back     Action = "back"
	Field    Action = "next field"
	Search   Action = "search"
	Help     Action = "help"
	Redraw   Action = "redraw"
	Toggle   Action = "rich/basic"
	Shell    Action = "shell"
	Leave    Action = "quit"
	Stop     Action = "stop"
	Suspend  Action = "suspend"
)

// KeyRow is one row of the table of keys: help prints it, and Means reads it.
type KeyRow struct {
	Action Action
	Keys   []string // as Bubble Tea names them
	Shown  string   // as people name them
	Does   string
}

// KeyTable is every key that means the same on all pages. Serial programs send
// LF for Enter and ^H for Backspace; F-keys of a VT220 are local to it, so each
// has a letter or a control key beside it.
var KeyTable = []KeyRow{
	{Up, []string{"up", "k", "ctrl+p"}, "Up  k  Ctrl-P", "one line up"},
	{Down, []string{"down", "j", "ctrl+n"}, "Down  j  Ctrl-N", "one line down"},
	{PageUp, []string{"pgup", "ctrl+b", "alt+v"}, "PgUp  Ctrl-B", "one page up"},
	{PageDown, []string{"pgdown", "ctrl+f", "ctrl+v"}, "PgDn  Ctrl-F", "one page down"},
	{First, []string{"home", "g", "ctrl+a", "alt+<"}, "Home  g", "to the first line"},
	{Last, []string{"end", "G", "ctrl+e", "alt+>"}, "End  G", "to the last line"},
	{Select, []string{" "}, "Space", "select"},
	{Go, []string{"enter", "ctrl+j", "ctrl+m", "right", "l"}, "Enter  Right  l", "go on"},
	{Back, []string{"b", "esc", "left", "h"}, "b  Esc  Left  h", "back; answers are kept"},
	{Field, []string{"tab", "shift+tab"}, "Tab", "to the text field and back"},
	{Search, []string{"/"}, "/", "search or filter"},
	{Help, []string{"?", "f1"}, "?  F1", "help for this page"},
	{Redraw, []string{"ctrl+l"}, "Ctrl-L", "draw the screen again"},
	{Toggle, []string{"ctrl+t", "f4"}, "Ctrl-T  F4", "rich or basic screen"},
	{Shell, []string{"!"}, "!", "a shell; exit comes back here"},
	{Leave, []string{"q"}, "q", "quit"},
	{Stop, []string{"ctrl+c"}, "Ctrl-C", "before the run: quit; in the run: stop after this step"},
	{Suspend, []string{"ctrl+z"}, "Ctrl-Z", "nothing: a stopped program would leave the line unusable"},
}

var meanings = func() map[string]Action {
	m := map[string]Action{}
	for _, row := range KeyTable {
		for _, k := range row.Keys {
			m[k] = row.Action
		}
	}
	return m
}()

// Means is what a key means, None for a key without a meaning of its own.
func Means(k tea.KeyMsg) Action {
	if k.Paste {
		return None
	}
	return meanings[k.String()]
}

// enter says that a key is Enter itself, and not another key that goes on: in
// text fields only Enter does. Serial programs may send LF.
func enter(k tea.KeyMsg) bool { return k.Type == tea.KeyEnter || k.Type == tea.KeyCtrlJ }

// IsText says that a key is what pasted text is made of: characters and line
// ends.
func IsText(k tea.KeyMsg) bool {
	return k.Type == tea.KeyRunes || k.Type == tea.KeySpace || k.Type == tea.KeyTab || enter(k)
}

// onward says that a key goes on from a page of the wizard where n has no other
// meaning: it goes on from the first page, so it does from these.
func onward(k tea.KeyMsg) bool { return Means(k) == Go || letter(k) == 'n' }

// letter is the plain character of a key, 0 for others.
func letter(k tea.KeyMsg) rune {
	if k.Type == tea.KeyRunes && len(k.Runes) == 1 && !k.Alt && !k.Paste {
		return k.Runes[0]
	}
	return 0
}

// digit is the digit of a key, -1 for others.
func digit(k tea.KeyMsg) int {
	if r := letter(k); r >= '0' && r <= '9' {
		return int(r - '0')
	}
	return -1
}
