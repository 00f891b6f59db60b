package main

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// screen collects what the program writes to its terminal.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// What make demo does, seen from a person's terminal: the command is typed at
// the machine's prompt, keys go there, and Ctrl-] ends it all.
func TestConsoleIsOpenedOnATerminal(t *testing.T) {
	cmd := exec.Command("../run", "--bare", "--fitout", "/bin/true", "--exec", "echo typed-$((6 * 7))")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	defer tty.Close()
	var s screen
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	has := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(s.String(), text) }, 4*time.Minute, 100*time.Millisecond, "%q; so far:\n%s", text, &s)
	}
	has("typed-42")
	_, err = tty.WriteString("echo by-hand-$((6 * 9))\r")
	require.NoError(t, err)
	has("by-hand-54")
	_, err = tty.Write([]byte{leave})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

func TestWithoutATerminalItAsksForACommand(t *testing.T) {
	out, err := exec.Command("../run", "--bare").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "standard input is no terminal: use --command CMD")
}
