package term

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal is returned when there is no terminal to ask at.
var ErrNoTerminal = errors.New("there is no terminal here: use `ssh -t`, or answer with `fitout apply --answers-file FILE`")

// IsTerminal says whether f is a terminal.
func IsTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Input is where keys come from: in when it is a terminal, else the
// controlling terminal (a script piped into a shell has the script as its
// standard input). Piped bytes are never taken for keys.
func Input(in *os.File) (tty *os.File, opened bool, err error) {
	if IsTerminal(in) {
		return in, false, nil
	}
	tty, err = os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false, ErrNoTerminal
	}
	return tty, true, nil
}

// Name is the device's path ("/dev/ttyS0"), "" when it cannot be told.
func Name(f *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return ""
	}
	if path == "/dev/console" || path == "/dev/tty0" {
		return activeConsole(path)
	}
	return path
}

// activeConsole names the device behind /dev/console: the last one listed is
// the one that reads come from (Documentation/admin-guide/serial-console.rst).
func activeConsole(otherwise string) string {
	data, err := os.ReadFile("/sys/class/tty/console/active")
	if err != nil {
		return otherwise
	}
	last := ""
	for _, word := range strings.Fields(string(data)) {
		last = word
	}
	if last == "" {
		return otherwise
	}
	return "/dev/" + last
}

// speeds maps the kernel's speed codes to baud (asm-generic/termbits.h).
var speeds = map[uint32]int{
	unix.B300: 300, unix.B600: 600, unix.B1200: 1200, unix.B2400: 2400, unix.B4800: 4800,
	unix.B9600: 9600, unix.B19200: 19200, unix.B38400: 38400, unix.B57600: 57600,
	unix.B115200: 115200, unix.B230400: 230400, unix.B460800: 460800, unix.B921600: 921600,
}

// Speed is the line's speed in baud, 0 when it cannot be told.
func Speed(f *os.File) int {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return 0
	}
	return speeds[t.Cflag&unix.CBAUD]
}

// Flush throws away what was typed ahead, before a page that acts on a word.
func Flush(f *os.File) {
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}

// Saved is a terminal's state as it was found.
type Saved struct {
	file *os.File
	mode *unix.Termios
}

// Save remembers the modes of f; nil for what is no terminal.
func Save(f *os.File) *Saved {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	return &Saved{file: f, mode: t}
}

// Restore sets the modes back exactly. It never waits for output to drain, as
// TCSETSW would on a terminal that does not read.
func (s *Saved) Restore() error {
	if s == nil {
		return nil
	}
	if err := unix.IoctlSetTermios(int(s.file.Fd()), unix.TCSETS, s.mode); err != nil {
		return fmt.Errorf("giving the terminal its modes back: %w", err)
	}
	return nil
}

// leaveScreen shows the cursor, ends attributes, bracketed paste and the
// alternate screen. Bubble Tea does this when it ends in order; this is for
// the ways out on which it cannot.
const leaveScreen = "\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1049l\r\n"
