package term

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// errGone is returned for writes after the terminal was given up.
var errGone = errors.New("the terminal takes no more output")

// Writer writes frames to a terminal for Bubble Tea. A terminal that stops
// reading holds it up, and only it: after Abandon every write, also one that
// is waiting, returns at once, so the program can always end.
type Writer struct {
	*os.File
	abandoned atomic.Bool
}

// NewWriter wraps a terminal.
func NewWriter(f *os.File) *Writer { return &Writer{File: f} }

// Abandon gives the terminal up.
func (w *Writer) Abandon() { w.abandoned.Store(true) }

// Stuck says whether the terminal is not reading at this moment.
func (w *Writer) Stuck() bool { return !w.ready(0) }

// slice bounds one write, so that a slow line is asked often whether it still
// reads: a terminal's kernel buffer takes at least 256 bytes when it is ready.
const slice = 256

// pollMillis is how often an abandoned writer is noticed.
const pollMillis = 100

// Write writes all of p, waiting for the terminal as long as it is not
// abandoned.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if w.abandoned.Load() {
			return done, errGone
		}
		if !w.ready(pollMillis) {
			continue
		}
		n, err := unix.Write(int(w.Fd()), p[done:min(len(p), done+slice)])
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// WriteString keeps io.WriteString off the file underneath.
func (w *Writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// ready waits up to ms for room.
func (w *Writer) ready(ms int) bool {
	fds := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, ms)
	return err == nil && n > 0
}

var _ io.StringWriter = (*Writer)(nil)
