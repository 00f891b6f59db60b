package term

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChosenScreenIsRememberedForThatKindOfLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "screens.json")
	serial, ssh := Place("/dev/ttyS0", "vt220"), Place("/dev/pts/3", "xterm")
	require.Equal(t, "ttyS vt220", serial)
	require.Equal(t, "pts xterm", ssh)
	require.Equal(t, serial, Place("/dev/ttyS1", "vt220"))
	require.Empty(t, Recall(file, serial))
	require.NoError(t, Remember(file, ssh, Basic))
	require.NoError(t, Remember(file, serial, Rich))
	require.Equal(t, Basic, Recall(file, ssh))
	require.Equal(t, Rich, Recall(file, serial))

	require.NoError(t, os.WriteFile(file, []byte(`{"pts xterm": "ba`), 0o644))
	require.Empty(t, Recall(file, ssh), "a torn file says nothing")
	require.NoError(t, Remember(file, ssh, Basic))
	require.Equal(t, Basic, Recall(file, ssh))
}

func TestRememberedScreenGivesWayToFlagsAndToLineMode(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"TERM": "xterm-256color", "LANG": "C.UTF-8"}[name]
	}
	for name, c := range map[string]struct {
		facts Facts
		want  Mode
	}{
		"basic was chosen on a rich terminal": {Facts{Env: env, Width: 80, Height: 24, Chosen: Basic}, Basic},
		"rich was chosen on a serial line":    {Facts{TTY: "/dev/ttyS0", Env: env, Width: 80, Height: 24, Chosen: Rich}, Rich},
		"--basic":                             {Facts{Env: env, Width: 80, Height: 24, Chosen: Rich, WantBasic: true}, Basic},
		"too small for any screen":            {Facts{Env: env, Width: 30, Height: 24, Chosen: Rich}, Line},
		"a word that is no mode":              {Facts{Env: env, Width: 80, Height: 24, Chosen: "fancy"}, Rich},
	} {
		require.Equal(t, c.want, Detect(c.facts).Mode, name)
	}
	require.Equal(t, "Ctrl-T chose it here before", Detect(Facts{Env: env, Width: 80, Height: 24, Chosen: Basic}).Reason)
	require.False(t, Detect(Facts{TTY: "/dev/ttyS0", Env: env, Width: 80, Height: 24, Chosen: Rich}).Color, "a serial line stays without colour")
}
