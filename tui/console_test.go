package tui

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// console is a pty with a terminal emulator on it and the program in it. The
// emulator answers no questions, as a serial line does.
type console struct {
	t      *testing.T
	master *os.File
	slave  *os.File // kept open, to look at its modes
	cmd    *exec.Cmd
	dir    string
	vt     vt10x.Terminal
	before *unix.Termios

	deaf   atomic.Bool   // stop reading
	unread chan struct{} // closed when nobody reads any more
	mu     sync.Mutex
	raw    bytes.Buffer
	done   chan struct{}
	exited bool
	exit   int
}

// start runs a child mode on a pty. size "" leaves it unset.
type start struct {
	mode   string
	w, h   uint16
	env    []string
	stdin  *os.File // nil: the pty
	modes  func(*unix.Termios)
	unread bool   // nobody reads what the program writes
	dir    string // the engine's; "": a new one
}

func open(t *testing.T, s start) *console {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	c := &console{t: t, master: master, slave: slave, dir: t.TempDir(), done: make(chan struct{}), unread: make(chan struct{}), vt: vt10x.New(vt10x.WithSize(80, 24))}
	if s.w > 0 {
		require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: s.h, Cols: s.w}))
		c.vt.Resize(int(s.w), int(s.h))
	}
	if s.dir != "" {
		c.dir = s.dir
	}
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	if s.modes != nil {
		s.modes(mode)
		require.NoError(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode))
	}
	c.before, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append([]string{"FITOUT_TEST_CHILD=" + s.mode, "FITOUT_TEST_DIR=" + c.dir, "PATH=" + os.Getenv("PATH"), "TERM=vt220", "HOME=" + c.dir}, s.env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	if s.stdin != nil {
		c.cmd.Stdin = s.stdin
	}
	c.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	require.NoError(t, c.cmd.Start())
	if !s.unread {
		go c.read()
	}
	go func() {
		_ = c.cmd.Wait()
		c.exit = c.cmd.ProcessState.ExitCode()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if c.deaf.Store(true); !s.unread {
			<-c.unread
		}
		master.Close()
		slave.Close()
	})
	return c
}

func (c *console) read() {
	defer close(c.unread)
	buf := make([]byte, 4096)
	for !c.deaf.Load() {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(c.master.Fd()), Events: unix.POLLIN}}, 20); n <= 0 {
			continue
		}
		n, err := c.master.Read(buf)
		c.mu.Lock()
		c.raw.Write(buf[:n])
		_, _ = c.vt.Write(buf[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen is what a person sees.
func (c *console) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vt.String()
}

// output is every byte so far.
func (c *console) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

func (c *console) sees(text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.screen(), text) }, 10*time.Second, 20*time.Millisecond,
		"%q is not on the screen:\n%s", text, lazy(c.screen))
}

// lazy is called when a message is printed.
type lazy func() string

func (l lazy) String() string { return l() }

// types sends bytes, after the moment in which a new page is deaf.
func (c *console) types(keys ...string) {
	c.t.Helper()
	time.Sleep(350 * time.Millisecond)
	for _, k := range keys {
		_, err := c.master.WriteString(k)
		require.NoError(c.t, err)
		time.Sleep(30 * time.Millisecond)
	}
}

// ends waits for the end of the program and holds its exit code and that the
// terminal is as it was.
func (c *console) ends(code int) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		c.t.Fatalf("still there after 10 s:\n%s", c.screen())
	}
	require.Equal(c.t, code, c.exit, "%s", lazy(c.screen))
	after, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	require.NoError(c.t, err)
	require.Equal(c.t, *c.before, *after, "the terminal's modes")
	require.Eventually(c.t, func() bool { return shown(c.output()) }, 3*time.Second, 20*time.Millisecond, "the cursor is hidden, or the alternate screen stays")
}

// shown says that a cursor that was hidden is shown again, and an alternate
// screen left.
func shown(out string) bool {
	after := func(off, on string) bool {
		i := strings.LastIndex(out, off)
		return i < 0 || strings.LastIndex(out, on) > i
	}
	return after("\x1b[?25l", "\x1b[?25h") && after("\x1b[?1049h", "\x1b[?1049l")
}

// toPlan walks to the plan page.
func (c *console) toPlan() {
	c.t.Helper()
	c.sees("1/7 Hardware")
	c.sees("NVIDIA H100")
	c.types("n")
	c.sees("recommended:")
	c.types("\r")
	c.sees("4/7 Licence")
	c.types("accept", "\r")
	c.sees("Accepted by")
	c.types("\r")
	c.sees("5/7 When")
	c.types("\r")
	c.sees("To run it, type")
}

// runs are the runs that were started.
func (c *console) runs() []string {
	list, err := filepath.Glob(c.dir + "/2026-*")
	require.NoError(c.t, err)
	return list
}
