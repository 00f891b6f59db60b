package term

import (
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/stretchr/testify/require"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestRichOnlyWhenEverythingSaysSo(t *testing.T) {
	utf8 := []string{"TERM", "xterm-256color", "LANG", "en_US.UTF-8"}
	for _, tc := range []struct {
		name   string
		facts  Facts
		mode   Mode
		reason string
	}{
		{"ssh in a colour terminal", Facts{TTY: "/dev/pts/3", Env: env(utf8...)}, Rich, "UTF-8"},
		{"serial console", Facts{TTY: "/dev/ttyS0", Env: env(utf8...)}, Basic, "ttyS0"},
		{"ARM serial console", Facts{TTY: "/dev/ttyAMA0", Env: env(utf8...)}, Basic, "ttyAMA0"},
		{"hypervisor console", Facts{TTY: "/dev/hvc0", Env: env(utf8...)}, Basic, "hvc0"},
		{"vt220", Facts{Env: env("TERM", "vt220", "LANG", "C.UTF-8")}, Basic, "TERM=vt220"},
		{"Linux console", Facts{TTY: "/dev/tty1", Env: env("TERM", "linux", "LANG", "C.UTF-8", "COLORTERM", "truecolor")}, Basic, "TERM=linux"},
		{"no TERM", Facts{Env: env("LANG", "C.UTF-8")}, Basic, "TERM is not set"},
		{"unknown TERM", Facts{Env: env("TERM", "hologram", "LANG", "C.UTF-8")}, Basic, "hologram is not known"},
		{"LANG=C", Facts{Env: env("TERM", "xterm", "LANG", "C")}, Basic, "locale"},
		{"LC_ALL wins over LANG", Facts{Env: env("TERM", "xterm", "LANG", "C", "LC_ALL", "de_DE.utf8")}, Rich, "UTF-8"},
		{"NO_COLOR", Facts{Env: env(append(utf8, "NO_COLOR", "1")...)}, Basic, "NO_COLOR"},
		{"--basic", Facts{Env: env(utf8...), WantBasic: true}, Basic, "--basic"},
		{"--line", Facts{Env: env(utf8...), WantLine: true}, Line, "--line"},
		{"TERM=dumb", Facts{Env: env("TERM", "dumb", "LANG", "C.UTF-8")}, Line, "TERM=dumb"},
		{"9600 baud", Facts{TTY: "/dev/ttyS1", Speed: 9600, Env: env(utf8...)}, Line, "9600"},
		{"115200 baud", Facts{TTY: "/dev/ttyS1", Speed: 115200, Env: env(utf8...)}, Basic, "serial"},
		{"20x5", Facts{Width: 20, Height: 5, Env: env(utf8...)}, Line, "40x10"},
		{"60x15", Facts{Width: 60, Height: 15, Env: env(utf8...)}, Rich, "UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.facts.Width == 0 {
				tc.facts.Width, tc.facts.Height = 80, 24
			}
			p := Detect(tc.facts)
			require.Equal(t, tc.mode, p.Mode)
			require.Contains(t, p.Reason, tc.reason)
			require.Equal(t, tc.mode == Rich, p.Color)
		})
	}
}

func TestNoColorKeepsTheRichScreenWithoutColour(t *testing.T) {
	p := Detect(Facts{Width: 80, Height: 24, NoColor: true, Env: env("TERM", "xterm", "LANG", "C.UTF-8")})
	require.Equal(t, Rich, p.Mode)
	require.False(t, p.Color)
}

func TestTrueColourIsBelievedOfXtermOnly(t *testing.T) {
	f := Facts{Width: 80, Height: 24, Env: env("TERM", "linux", "COLORTERM", "truecolor")}
	require.False(t, Detect(f).TrueColor)
	f.Env = env("TERM", "xterm-256color", "COLORTERM", "truecolor", "LANG", "C.UTF-8")
	require.True(t, Detect(f).TrueColor)
}

func TestSizeOfNothingIsReplaced(t *testing.T) {
	filter := SizeFilter(80, 24)
	require.Equal(t, tea.WindowSizeMsg{Width: 80, Height: 24}, filter(nil, tea.WindowSizeMsg{}))
	require.Equal(t, tea.WindowSizeMsg{Width: 60, Height: 15}, filter(nil, tea.WindowSizeMsg{Width: 60, Height: 15}))
	require.Equal(t, tea.QuitMsg{}, filter(nil, tea.QuitMsg{}))
}

func TestPrintkGoesToTheConsolesThatAreListed(t *testing.T) {
	for _, tc := range []struct {
		tty, active string
		want        bool
	}{
		{"/dev/ttyS0", "tty0 ttyS0\n", true},
		{"/dev/tty1", "tty0 ttyS0\n", true},
		{"/dev/tty1", "ttyS0\n", false},
		{"/dev/ttyS1", "tty0 ttyS0\n", false},
		{"/dev/pts/0", "tty0 ttyS0\n", false},
		{"", "tty0", false},
	} {
		require.Equal(t, tc.want, isConsole(tc.tty, tc.active), "%s on %q", tc.tty, tc.active)
	}
}
