package term

import (
	"os"
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/sys/unix"

	_ "fitout/tui/term/guard" // before Bubble Tea asks the terminal
)

// The size that is taken when nothing says otherwise.
const (
	DefaultWidth  = 80
	DefaultHeight = 24
)

// Size asks the descriptor that is drawn on. 0x0, the normal state of a serial
// line, falls back to COLUMNS and LINES and then to 80x24; known is false then.
func Size(out *os.File, env func(string) string) (width, height int, known bool) {
	if ws, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 && ws.Row > 0 {
		return int(ws.Col), int(ws.Row), true
	}
	return fallback(env("COLUMNS"), DefaultWidth), fallback(env("LINES"), DefaultHeight), false
}

// fallback reads a size from the environment; nonsense is the default.
func fallback(text string, otherwise int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 10000 {
		return otherwise
	}
	return n
}

// SizeFilter replaces the size 0x0, at which nothing would be erased or drawn
// right, by the one given. It is a tea.WithFilter function.
func SizeFilter(width, height int) func(tea.Model, tea.Msg) tea.Msg {
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		if ws, ok := msg.(tea.WindowSizeMsg); ok && (ws.Width <= 0 || ws.Height <= 0) {
			return tea.WindowSizeMsg{Width: width, Height: height}
		}
		return msg
	}
}
