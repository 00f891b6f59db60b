package vm

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hinshun/vt10x"
)

// The console's size, that of a VT220.
const (
	Columns = 80
	Rows    = 24
)

// Keys as a VT220 sends them.
const (
	Enter = "\r"
	CtrlC = "\x03"
	CtrlL = "\x0c"
)

// keptLog bounds what is kept of everything that was written, in bytes.
const keptLog = 4 << 20

// Console is the machine's first serial port with a terminal on it.
type Console struct {
	mu      sync.Mutex
	conn    net.Conn
	term    vt10x.Terminal
	log     []byte
	changed chan struct{} // closed at every change
	mirror  io.Writer     // of people
}

// newConsole is a terminal that answers no query (cursor position, …), like a
// real serial line with nobody on it.
func newConsole() *Console {
	return &Console{changed: make(chan struct{}), term: vt10x.New(vt10x.WithSize(Columns, Rows), vt10x.WithWriter(io.Discard))}
}

// attach connects the console to the serial port of a machine that starts.
func (c *Console) attach(conn net.Conn) {
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if n > 0 {
				c.received(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
}

func (c *Console) received(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term.Write(data)
	c.log = append(c.log, data...)
	if len(c.log) > keptLog {
		c.log = c.log[len(c.log)-keptLog/2:]
	}
	if c.mirror != nil {
		c.mirror.Write(data)
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Mirror copies what the machine writes from now on.
func (c *Console) Mirror(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mirror = w
}

// Type sends keys.
func (c *Console) Type(keys string) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn == nil {
		return fmt.Errorf("typing %q: the machine is not started", keys)
	}
	_, err := io.WriteString(conn, keys)
	return err
}

// Screen is what the terminal shows, line by line, without trailing blanks.
func (c *Console) Screen() (lines [Rows]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for y := range lines {
		var line strings.Builder
		for x := range Columns {
			r := c.term.Cell(x, y).Char
			if r == 0 {
				r = ' '
			}
			line.WriteRune(r)
		}
		lines[y] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// Text is the screen as one text.
func (c *Console) Text() string {
	lines := c.Screen()
	return strings.TrimRight(strings.Join(lines[:], "\n"), "\n")
}

// Log is everything that was written to the port, up to a bound.
func (c *Console) Log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.log)
}

// End is the last lines that were written to the port.
func (c *Console) End(lines int) string {
	all := strings.Split(strings.ReplaceAll(c.Log(), "\r", ""), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// WaitFor waits until the screen shows the text.
func (c *Console) WaitFor(text string, limit time.Duration) error {
	return c.WaitUntil(fmt.Sprintf("%q", text), limit, func(screen string) bool { return strings.Contains(screen, text) })
}

// WaitUntil waits until the screen is as told; what says how, for the error.
func (c *Console) WaitUntil(what string, limit time.Duration, ok func(screen string) bool) error {
	timeout := time.After(limit)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if ok(c.Text()) {
			return nil
		}
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("the screen did not show %s within %s; it shows:\n%s", what, limit, c.Text())
		}
	}
}

// Settle waits until nothing was written for a while: a screen has been drawn to
// its end. It gives up after the limit, for screens that never rest.
func (c *Console) Settle(quiet, limit time.Duration) {
	timeout := time.After(limit)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(quiet):
			return
		case <-timeout:
			return
		}
	}
}

// tail keeps the end of what a program wrote.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 8192 {
		t.buf = t.buf[len(t.buf)-4096:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
