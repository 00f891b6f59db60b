package tui

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestStartOnATerminalThatAnswersNothing(t *testing.T) {
	for _, mode := range []string{"version", "wizard"} {
		best := time.Hour
		for i := 0; i < 3; i++ {
			began := time.Now()
			c := open(t, start{mode: mode, w: 80, h: 24, env: []string{"TERM=xterm-256color", "LANG=C.UTF-8"}})
			require.Eventually(t, func() bool { return strings.Contains(c.output(), "fitout 0.1.0") }, 10*time.Second, 2*time.Millisecond)
			best = min(best, time.Since(began))
			require.NotContains(t, c.output(), "\x1b]11;?", "the terminal is asked for its colours")
			require.NotContains(t, c.output(), "\x1b[6n", "the terminal is asked for its cursor")
		}
		t.Logf("%s: first output after %v", mode, best.Round(time.Millisecond))
	}
}

func TestSizeOfNothingShowsAWholeScreen(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard"})
	c.sees("NVIDIA H100")
	c.sees("q quit")
	c.types("n")
	c.sees("3/7 Image")
	c.sees("nvidia-open-580")
	require.NotContains(t, c.screen(), "Secure Boot", "lines of the page before stay on the screen")
	require.Equal(t, 0, countHigh(c.output()))
	// A terminal that answers the one question after the first frame is believed.
	_, err := c.master.WriteString("\x1b[15;60R")
	require.NoError(t, err)
	c.sees("this terminal is 60x15")
	c.types("\x03")
	c.ends(11)
}

// Keys come from a terminal of 160 columns, the screen is drawn on one of 80.
func TestNoLineIsWiderThanTheTerminalDrawnOn(t *testing.T) {
	t.Parallel()
	keys, wide, err := pty.Open()
	require.NoError(t, err)
	defer keys.Close()
	defer wide.Close()
	require.NoError(t, pty.Setsize(wide, &pty.Winsize{Rows: 50, Cols: 160}))
	c := open(t, start{mode: "wizard", w: 80, h: 24, stdin: wide, env: []string{"COLUMNS=160", "LINES=50"}})
	for _, page := range []struct{ key, shows string }{{"", "NVIDIA H100"}, {"n", "3/7 Image"}, {"\x03", ""}} {
		time.Sleep(350 * time.Millisecond)
		_, err := keys.WriteString(page.key)
		require.NoError(t, err)
		c.sees(page.shows)
	}
	c.ends(11)
	drawn := vt10x.New(vt10x.WithSize(160, 50)) // what is too wide, at any moment, is seen as such
	for chunk := range slices.Chunk([]byte(c.output()), 32) {
		_, err := drawn.Write(chunk)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimRight(drawn.String(), " \n"), "\n")
		require.LessOrEqual(t, len(lines), 24)
		for _, l := range lines {
			require.LessOrEqual(t, len([]rune(strings.TrimRight(l, " "))), 80, l)
		}
	}
}

func countHigh(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] > 126 {
			n++
		}
	}
	return n
}

func TestSplitEscapeSequencesAreKeys(t *testing.T) {
	c := open(t, start{mode: "keys", w: 80, h: 24})
	c.sees("down 0")
	sent, stalled := 0, 0 // a busy machine may stall the sender itself
	for _, gap := range []time.Duration{200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		for i := 0; i < 334; i++ {
			if c.split(gap, "\x1b", "[", "B") {
				stalled++
			}
			sent++
			time.Sleep(gap)
		}
	}
	for i := 0; i < 30; i++ { // a slow line: 30 ms between bytes
		if c.split(30*time.Millisecond, "\x1b", "[B") {
			stalled++
		}
		sent++
		time.Sleep(30 * time.Millisecond)
	}
	c.types("q")
	c.ends(0)
	m := regexp.MustCompile(`total down (\d+) other (\d+)`).FindStringSubmatch(c.output())
	require.NotNil(t, m)
	t.Logf("%d keys sent, %d of them stalled by the sender; read %s, misread into %s", sent, stalled, m[1], m[2])
	require.GreaterOrEqual(t, atoi(m[1]), sent-stalled)
	require.LessOrEqual(t, atoi(m[2]), 2*stalled)
	require.Less(t, stalled, sent/10, "the machine is too busy to measure")
}

// split sends a key in pieces and says whether a piece came later than the
// reader waits, for reasons of the machine.
func (c *console) split(gap time.Duration, parts ...string) (stalled bool) {
	for n, part := range parts {
		began := time.Now()
		if n > 0 {
			time.Sleep(gap)
		}
		_, err := c.master.WriteString(part)
		require.NoError(c.t, err)
		stalled = stalled || time.Since(began) > 45*time.Millisecond
	}
	return stalled
}

func TestPasteOfTwoHundredLinesRunsNothing(t *testing.T) {
	t.Parallel()
	paste := strings.Repeat("run\rn\r\raccept\rrun\r", 50)
	for _, pace := range []int{len(paste), 16, 1} {
		c := open(t, start{mode: "wizard", w: 80, h: 24})
		c.toPlan()
		for i := 0; i < len(paste); i += pace {
			_, err := c.master.WriteString(paste[i:min(i+pace, len(paste))])
			require.NoError(t, err)
			if pace < len(paste) {
				time.Sleep(time.Duration(pace) * 87 * time.Microsecond) // 115200 baud
			}
		}
		time.Sleep(500 * time.Millisecond)
		require.Empty(t, c.runs(), "in pieces of %d bytes", pace)
		require.NotContains(t, c.screen(), "7/7")
		c.types("\x03")
		c.ends(11)
	}
}

func TestPastedReferenceArrivesWhole(t *testing.T) {
	t.Parallel()
	reference := "registry.example:5000/a/b@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, text := range []string{reference + "\n", "\x1b[200~" + reference + "\n\x1b[201~"} {
		c := open(t, start{mode: "wizard", w: 120, h: 40, env: []string{"TERM=vt220"}})
		c.sees("NVIDIA H100")
		c.types("n")
		c.sees("recommended:")
		c.types("c")
		c.sees("Image     [")
		c.types(text)
		c.sees(reference[len(reference)-40:])
		c.types("\x1b[B") // the paste pressed no Enter: the first field has the focus still
		c.sees("> User")
		c.types("\x03")
		c.ends(11)
	}
}

func TestResizeStormLeavesAWholeScreen(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "many", w: 80, h: 24})
	c.sees("card-000")
	for i := 0; i < 120; i++ {
		w, h := uint16(40+(i*37)%120), uint16(10+(i*13)%50)
		require.NoError(t, pty.Setsize(c.master, &pty.Winsize{Rows: h, Cols: w}))
		time.Sleep(3 * time.Millisecond)
	}
	require.NoError(t, pty.Setsize(c.master, &pty.Winsize{Rows: 24, Cols: 80}))
	c.mu.Lock()
	c.vt.Resize(80, 24)
	c.mu.Unlock()
	c.types("\x0c")
	c.sees("q quit")
	c.sees("1/300")
	c.types("\x03")
	c.ends(11)
}

func TestTerminalIsGivenBackOnEverySignal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sig  unix.Signal
		code int
	}{{unix.SIGTERM, 143}, {unix.SIGHUP, 129}, {unix.SIGQUIT, 131}, {unix.SIGINT, 11}} {
		for _, env := range [][]string{nil, {"TERM=xterm-256color", "LANG=C.UTF-8"}} {
			for _, mode := range []string{"wizard", "supervised"} {
				c := open(t, start{mode: mode, w: 80, h: 24, env: env, modes: func(m *unix.Termios) { m.Iflag &^= unix.ICRNL; m.Lflag &^= unix.ECHO }})
				c.sees("NVIDIA H100")
				require.NoError(t, c.cmd.Process.Signal(tc.sig))
				c.ends(tc.code)
			}
		}
	}
}

func TestStopSignalDoesNotStopTheScreen(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard", w: 80, h: 24})
	c.sees("NVIDIA H100")
	require.NoError(t, c.cmd.Process.Signal(unix.SIGTSTP))
	c.types("n")
	c.sees("3/7 Image")
	c.types("\x03")
	c.ends(11)
}

func TestTerminalIsGivenBackAfterAPanic(t *testing.T) {
	t.Parallel()
	for mode, code := range map[string]int{"command": 1, "goroutine": 2} {
		c := open(t, start{mode: mode, w: 80, h: 24})
		c.sees("NVIDIA H100")
		c.types("n")
		c.ends(code)
		require.Contains(t, c.output(), "a bug in a "+mode)
	}
}

func TestTerminalIsGivenBackAfterAKilledChild(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "supervised", w: 80, h: 24, env: []string{"TERM=xterm-256color", "LANG=C.UTF-8"}})
	c.sees("NVIDIA H100")
	children, err := exec.Command("sh", "-c", "cat /proc/"+itoa(c.cmd.Process.Pid)+"/task/*/children").Output()
	require.NoError(t, err)
	child := atoi(strings.Fields(string(children))[0])
	require.NoError(t, unix.Kill(child, unix.SIGKILL))
	c.ends(137)
}

func TestTerminalThatDoesNotReadHoldsNothingUp(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard", w: 80, h: 24, unread: true})
	time.Sleep(500 * time.Millisecond)
	for i := 0; i < 200; i++ { // enough frames to fill the line's buffer
		_, _ = c.master.WriteString("\x0c")
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, c.cmd.Process.Signal(unix.SIGTERM))
	select {
	case <-c.done:
	case <-time.After(3 * time.Second):
		t.Fatal("the program waits for a terminal that does not read")
	}
	require.Equal(t, 143, c.exit)
	after, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, *c.before, *after)
}

func TestLostLineEndsTheScreen(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wizard", "supervised"} {
		c := open(t, start{mode: mode, w: 80, h: 24})
		c.sees("NVIDIA H100")
		c.deaf.Store(true)
		<-c.unread
		require.NoError(t, c.slave.Close())
		require.NoError(t, c.master.Close())
		select {
		case <-c.done:
		case <-time.After(5 * time.Second):
			t.Fatal("the program is still there 5 s after its terminal went")
		}
	}
}

func TestKeysComeFromTheTerminalWhenInputIsAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	_, err = w.WriteString("run\nn\nq\n")
	require.NoError(t, err)
	c := open(t, start{mode: "wizard", w: 80, h: 24, stdin: r})
	c.sees("NVIDIA H100")
	c.types("n")
	c.sees("3/7 Image")
	c.types("\x03")
	c.ends(11)
}

func TestNoTerminalAtAllIsSaidInOneSentence(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"FITOUT_TEST_CHILD=wizard", "FITOUT_TEST_DIR=" + t.TempDir(), "TERM=xterm"}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 5, cmd.ProcessState.ExitCode())
	require.NotContains(t, string(out), "\x1b")
	require.Contains(t, string(out), "ssh -t")
	require.Contains(t, string(out), "--answers-file")
	require.Equal(t, 1, strings.Count(string(out), "\n"))
}

func TestShellAndBack(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard", w: 80, h: 24})
	c.sees("NVIDIA H100")
	c.types("!")
	c.sees("exit comes back")
	c.types("echo $((40+2))-$(stty -a | grep -c ' icanon')\r")
	c.sees("42-1")
	c.types("exit\r")
	c.sees("Back from the shell")
	c.types("n")
	c.sees("3/7 Image")
	c.types("\x03")
	c.ends(11)
}

func TestWholeWalkOnAPlainTerminal(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard"})
	c.toPlan()
	require.Empty(t, c.runs())
	c.types("run", "\r")
	c.sees("2 of 2 devices as wanted")
	require.Len(t, c.runs(), 1)
	c.types("q")
	c.ends(0)
	require.Equal(t, 0, countHigh(c.output()), "bytes above 126 on a plain terminal")
	plain := c.output()[strings.LastIndex(c.output(), "\x1b[?25h"):]
	require.Contains(t, plain, "DONE  2 of 2 devices as wanted", "the result stays in the scrollback")
}

func TestLineEndsAndBackspacesOfSerialPrograms(t *testing.T) {
	t.Parallel()
	c := open(t, start{mode: "wizard", w: 80, h: 24})
	c.sees("NVIDIA H100")
	c.types("n")
	c.sees("recommended:")
	c.types("\n") // LF for Enter
	c.sees("4/7 Licence")
	c.types("acx", "\b", "cept", "\r")
	c.sees("Accepted by")
	c.types("\x03")
	c.ends(11)
}

func TestScreenChosenByCtrlTIsThereAtTheNextStart(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), []string{"TERM=xterm-256color", "LANG=C.UTF-8"}
	c := open(t, start{mode: "wizard", w: 80, h: 24, env: env, dir: dir})
	c.sees("❯ [✓]")
	time.Sleep(400 * time.Millisecond)
	c.types("\x14")
	c.sees("> [x]")
	c.types("\x03")
	c.ends(11)
	again := open(t, start{mode: "wizard", w: 80, h: 24, env: env, dir: dir})
	again.sees("> [x]")
	require.NotContains(t, again.output(), "❯")
	again.types("\x03")
	again.ends(11)
	other := open(t, start{mode: "wizard", w: 80, h: 24, env: []string{"TERM=tmux-256color", "LANG=C.UTF-8"}, dir: dir})
	other.sees("❯ [✓]")
	other.types("\x03")
	other.ends(11)
}
