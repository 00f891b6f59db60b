package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// Line is one record of the kernel log.
type Line struct {
	Seq      uint64
	Since    time.Duration // since boot
	Priority int           // 0 emergency … 7 debug
	Text     string
	// Device is what the driver core says the line is about: "pci:0000:03:00.0"
	// or "" (DEVICE= of /dev/kmsg).
	Device string
}

func (l Line) String() string { return fmt.Sprintf("[%12.6f] %s", l.Since.Seconds(), l.Text) }

// Log is a window on the kernel log: what was written since it was opened.
// A flooding driver cannot fill memory (the first and the last lines are kept,
// the rest is counted) nor hold the reader up (a call reads a bounded amount).
type Log struct {
	mu    sync.Mutex
	fd    int
	rest  []byte
	first []Line
	last  []Line
	after time.Duration // lines that are older are passed over
	// dropped counts lines not kept, lost those the kernel overwrote unread.
	dropped, lost int
}

// What one window keeps, in lines, and what one call reads at most, in bytes.
const (
	keepFirst = 256
	keepLast  = 768
	readBound = 8 << 20
	maxRecord = 8 << 10 // of /dev/kmsg, with its keys
)

// OpenLog opens a window at the end of the kernel log. When the log may not be
// read (no privilege, no /dev/kmsg) the error says so; a nil *Log is valid and
// has no lines.
func OpenLog(n *hostops.Node) (*Log, error) { return openLog(n, io.SeekEnd) }

// OpenLogSince opens a window that begins in the past, as far back as the
// kernel's buffer goes: after is the time since boot.
func OpenLogSince(n *hostops.Node, after time.Duration) (*Log, error) {
	l, err := openLog(n, io.SeekStart)
	if l != nil {
		l.after = after
	}
	return l, err
}

// LogSinceBoot are the lines about a subject that the kernel still has.
func LogSinceBoot(n *hostops.Node, subject string) ([]string, error) {
	l, err := OpenLogSince(n, 0)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.About(subject), nil
}

// ProcessStart is when this process began, as the kernel's log counts time:
// since boot (/proc/self/stat, field 22, in clock ticks of 10 ms).
func ProcessStart() time.Duration {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The command's name, field 2, may hold blanks and ends with the last ")".
	_, rest, _ := strings.Cut(string(b[max(0, bytes.LastIndexByte(b, ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func openLog(n *hostops.Node, whence int) (*Log, error) {
	fd, err := unix.Open(n.Path("/dev/kmsg"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the kernel log /dev/kmsg cannot be read: %w", err)
	}
	if _, err := unix.Seek(fd, 0, whence); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("the kernel log /dev/kmsg cannot be read from there: %w", err)
	}
	return &Log{fd: fd}, nil
}

// Close ends the window.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 {
		return nil
	}
	err := unix.Close(l.fd)
	l.fd = -1
	return err
}

// Lines are the records since OpenLog, oldest first. Of a flood the first 256
// and the last 768 are there, with a line between that counts the others.
func (l *Log) Lines() []Line {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fill()
	lines := slices.Clone(l.first)
	last := l.last[max(0, len(l.last)-keepLast):]
	if dropped := l.dropped + len(l.last) - len(last); dropped+l.lost > 0 {
		lines = append(lines, Line{Priority: 4, Text: fmt.Sprintf("(%d lines not kept, %d times the kernel overwrote lines before they were read)", dropped, l.lost)})
	}
	return append(lines, last...)
}

// About are the texts of the lines that speak of any of the subjects: a device
// address ("0000:03:00.0"), a driver or a module.
func (l *Log) About(subjects ...string) []string {
	var texts []string
	for _, line := range l.Lines() {
		if line.About(subjects...) {
			texts = append(texts, line.Text)
		}
	}
	return texts
}

// About says whether the line speaks of any of the subjects, as a whole word.
// '-' and '_' are equal.
func (l Line) About(subjects ...string) bool {
	text := strings.ReplaceAll(l.Text, "-", "_")
	for _, s := range subjects {
		s = strings.ReplaceAll(s, "-", "_")
		if s == "" {
			continue
		}
		if strings.HasSuffix(strings.ReplaceAll(l.Device, "-", "_"), ":"+s) || hasWord(text, s) {
			return true
		}
	}
	return false
}

func hasWord(text, word string) bool {
	part := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		if (i == 0 || !part(text[i-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = i + 1
	}
}

// fill reads what is there, up to a bound; a later call goes on.
func (l *Log) fill() {
	buf := make([]byte, maxRecord)
	for got := 0; got < readBound && l.fd >= 0; {
		n, err := unix.Read(l.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPIPE): // overwritten before we came; the next read goes on
			l.lost++
			continue
		case err != nil || n == 0:
			return
		}
		got += n
		l.take(buf[:n])
	}
}

// take cuts input into records: a line, and the lines after it that begin with
// a blank.
func (l *Log) take(b []byte) {
	l.rest = append(l.rest, b...)
	for {
		end := recordEnd(l.rest)
		if end == 0 {
			break
		}
		if line, ok := parseRecord(string(l.rest[:end])); ok {
			l.keep(line)
		}
		l.rest = append(l.rest[:0], l.rest[end:]...)
	}
	if len(l.rest) > 4*maxRecord {
		l.rest = l.rest[:0] // not a record of any kernel
	}
}

// recordEnd is the length of the first whole record: up to the last of its
// lines. A read of /dev/kmsg ends with its record; what a file ends with counts
// as whole too.
func recordEnd(b []byte) int {
	for i, c := range b {
		if c == '\n' && (i+1 == len(b) || b[i+1] != ' ') {
			return i + 1
		}
	}
	return 0
}

func (l *Log) keep(line Line) {
	if line.Since < l.after {
		return
	}
	if len(l.first) < keepFirst {
		l.first = append(l.first, line)
		return
	}
	l.last = append(l.last, line)
	if len(l.last) == 2*keepLast { // rarely, so that a flood costs little
		l.dropped += keepLast
		l.last = append(l.last[:0], l.last[keepLast:]...)
	}
}

// parseRecord reads "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];TEXT" and the
// " KEY=VALUE" lines after it (kernel, Documentation/ABI/testing/dev-kmsg).
// Bytes the kernel escaped as \x0a and the like stay escaped, so that a driver
// cannot forge lines.
func parseRecord(record string) (Line, bool) {
	head, rest, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return Line{}, false
	}
	priority, err1 := strconv.Atoi(fields[0])
	seq, err2 := strconv.ParseUint(fields[1], 10, 64)
	usec, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return Line{}, false
	}
	text, keys, _ := strings.Cut(rest, "\n")
	line := Line{Seq: seq, Since: time.Duration(usec) * time.Microsecond, Priority: priority & 7, Text: text}
	for key := range strings.Lines(keys) {
		if d, ok := strings.CutPrefix(strings.TrimRight(key, "\n"), " DEVICE="); ok {
			line.Device = strings.TrimPrefix(d, "+")
		}
	}
	return line, true
}
