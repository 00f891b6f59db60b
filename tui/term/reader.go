package term

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// joinWait is how long an unfinished escape sequence is waited for. A lone Esc
// is seen that much later; a key whose bytes come 30 ms apart is still a key.
const joinWait = 50 * time.Millisecond

// Typing faster than this, and longer than pasteBytes in one burst, is a paste
// and not a person.
const (
	burstGap   = 8 * time.Millisecond
	pasteBytes = 16
)

// Reader reads keys from a terminal for Bubble Tea. It is an *os.File to its
// caller, so raw mode and epoll go on working, and it adds what v1 lacks:
//
//   - escape sequences and UTF-8 characters that arrive in pieces are joined;
//   - blocks of text that no person types are marked as a paste, also where the
//     terminal has no bracketed paste (a serial line);
//   - the answer to a cursor position question is taken out of the keys;
//   - end of input and EIO, which Bubble Tea swallows, are told as a hang-up.
type Reader struct {
	*os.File
	// Hangup is called once when the terminal is gone.
	Hangup func()
	// Cursor is called with the answer to a cursor position question.
	Cursor func(row, col int)

	wait   time.Duration // how long an unfinished key is waited for
	last   time.Time     // end of the previous read
	burst  int           // text bytes since the last pause
	inside bool          // between the terminal's own marks of a paste
	gone   atomic.Bool
	born   time.Time
	came   atomic.Int64 // when bytes were last read, in nanoseconds after born
}

// NewReader wraps a terminal.
func NewReader(f *os.File) *Reader { return &Reader{File: f, wait: joinWait, born: time.Now()} }

var (
	cursorAnswer = regexp.MustCompile(`\x1b\[(\d{1,4});(\d{1,4})R`)
	pasteOpen    = []byte("\x1b[200~")
	pasteClose   = []byte("\x1b[201~")
)

// Read reads at least one whole key.
func (r *Reader) Read(p []byte) (int, error) {
	room := len(p) - len(pasteOpen) - len(pasteClose) - 1
	if room < utf8.UTFMax {
		return r.File.Read(p)
	}
	for {
		n, err := r.read(p[:room])
		if err != nil {
			return n, err
		}
		for n < room && unfinished(p[:n]) && r.more() {
			m, err := r.read(p[n:room])
			if err != nil {
				break
			}
			n += m
		}
		if n = r.takeCursorAnswer(p[:n]); n == 0 {
			if !r.more() {
				// Bubble Tea takes an empty read for nothing at all.
				return 0, nil
			}
			continue
		}
		return r.markPaste(p, n), nil
	}
}

// read retries EINTR, which Go's own preemption signals cause, and reports a
// terminal that is gone.
func (r *Reader) read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(r.Fd()), p)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			if r.poll(-1) {
				continue
			}
			return 0, io.EOF
		case err != nil, n == 0:
			if r.Hangup != nil && !r.gone.Swap(true) {
				r.Hangup()
			}
			return 0, io.EOF
		}
		r.came.Store(int64(time.Since(r.born)))
		return n, nil
	}
}

// Quiet says that nothing came in for that long and that nothing waits to be
// read. It is asked from other goroutines.
func (r *Reader) Quiet(d time.Duration) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0 && time.Since(r.born)-time.Duration(r.came.Load()) >= d
}

// more waits for the rest of a key.
func (r *Reader) more() bool { return r.poll(r.wait) }

// poll says whether bytes came within the limit (negative: for ever).
func (r *Reader) poll(limit time.Duration) bool {
	end := time.Now().Add(limit)
	for {
		ms := -1
		if limit >= 0 {
			if ms = int(time.Until(end).Milliseconds()); ms < 0 {
				ms = 0
			}
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}, ms)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n > 0
	}
}

// unfinished says whether the bytes end inside an escape sequence or a UTF-8
// character.
func unfinished(b []byte) bool {
	if i := bytes.LastIndexByte(b, 0x1b); i >= 0 && len(b)-i < 32 && !complete(b[i+1:]) {
		return true
	}
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			return c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:])
		}
	}
	return false
}

// complete says whether what follows an ESC is a whole key.
func complete(rest []byte) bool {
	switch {
	case len(rest) == 0:
		return false
	case rest[0] == 'O': // SS3 and one byte
		return len(rest) > 1
	case rest[0] == '[':
		if len(rest) > 1 && rest[1] == '[' { // the Linux console's F1 to F5
			return len(rest) > 2
		}
		for _, c := range rest[1:] {
			if c >= 0x40 && c <= 0x7e {
				return true
			}
		}
		return false
	}
	return true // Alt and a letter
}

// takeCursorAnswer removes the answer to a cursor question and passes it on.
func (r *Reader) takeCursorAnswer(b []byte) int {
	if r.Cursor == nil {
		return len(b)
	}
	m := cursorAnswer.FindSubmatchIndex(b)
	if m == nil {
		return len(b)
	}
	row, _ := strconv.Atoi(string(b[m[2]:m[3]]))
	col, _ := strconv.Atoi(string(b[m[4]:m[5]]))
	if row < 2 {
		return len(b) // shift+F3 of some terminals looks the same
	}
	r.Cursor(row, col)
	return m[0] + copy(b[m[0]:], b[m[1]:])
}

// markPaste puts the marks of a bracketed paste around a block of text that
// nobody can have typed. Escapes inside it are dropped.
func (r *Reader) markPaste(p []byte, n int) int {
	now := time.Now()
	if now.Sub(r.last) > burstGap {
		r.burst = 0
	}
	r.last = now
	b := p[:n]
	was := r.inside
	if i, j := bytes.LastIndex(b, pasteOpen), bytes.LastIndex(b, pasteClose); i >= 0 || j >= 0 {
		r.inside = i > j
		return n
	}
	if was {
		return n // the terminal marks pastes itself
	}
	text := textOf(b)
	r.burst += len(text)
	if r.burst < pasteBytes || held(text) {
		return n
	}
	out := append([]byte(nil), pasteOpen...)
	out = append(out, text...)
	out = append(out, pasteClose...)
	return copy(p, out)
}

// keySequence is one key that is sent as an escape sequence.
var keySequence = regexp.MustCompile(`\x1b(\[\[?[0-9;?]*[A-Za-z~^$@]|O[A-Za-z])`)

// textOf is b without keys and lone escapes.
func textOf(b []byte) []byte {
	return bytes.ReplaceAll(keySequence.ReplaceAll(b, nil), []byte{0x1b}, nil)
}

// held says that the block is one key held down while the line was stalled.
func held(text []byte) bool {
	for _, c := range text {
		if c != text[0] {
			return false
		}
	}
	return true
}
