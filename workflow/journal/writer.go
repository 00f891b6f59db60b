package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Limits bound what a run may write. A driver that floods its log must neither
// fill the disk nor hold the run up.
type Limits struct {
	// LogBytes is how much log and progress a run may write in all.
	LogBytes int64
	// LineBytes is where one log line is cut.
	LineBytes int
	// LinesPerSecond is the lasting rate of log lines; Burst may come at once.
	LinesPerSecond, Burst float64
	// ProgressEvery is the least time between two progress events of a step.
	ProgressEvery time.Duration
	// Reserve is disk space taken at the start for step events, on top of
	// LogBytes, so that a disk that fills up later cannot stop an undo from
	// being written down.
	Reserve int64
}

// DefaultLimits fit a node whose state partition is small: 5 MiB a run at most,
// given back when the journal is closed.
func DefaultLimits() Limits {
	return Limits{
		LogBytes: 4 << 20, LineBytes: 4 << 10,
		LinesPerSecond: 200, Burst: 2000,
		ProgressEvery: 250 * time.Millisecond,
		Reserve:       1 << 20,
	}
}

// flushAfter is how long a log line may wait in memory: half of the interval
// in which screens pull.
const flushAfter = 250 * time.Millisecond

// Writer appends events to one run's journal. It may be used by several
// goroutines.
type Writer struct {
	run    string
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	file     *os.File
	seq      int64
	buf      bytes.Buffer
	torn     bool // the file may end in half a line
	flushing bool // a delayed flush is under way
	closed   bool

	logBytes int64
	full     bool // LogBytes reached, and said
	tokens   float64
	refilled time.Time
	dropped  int64            // lines since the last time it was said
	progress map[string]Event // newest progress event that is not written, by step
	progAt   map[string]time.Time
}

// Option changes how a journal is written.
type Option func(*Writer)

// WithClock takes the time of events from now.
func WithClock(now func() time.Time) Option { return func(w *Writer) { w.now = now } }

// WithLimits replaces [DefaultLimits].
func WithLimits(l Limits) Option { return func(w *Writer) { w.limits = l } }

// Create opens the journal of the run whose directory is dir (its base name is
// the run's id) for appending: a new one, or the one of an interrupted run,
// whose events it counts on from. Half a line at its end, left by a power cut,
// is closed off and stays; readers skip it. The caller holds the run lock.
func Create(dir string, opts ...Option) (*Writer, error) {
	w := &Writer{
		run: filepath.Base(dir), limits: DefaultLimits(), now: time.Now,
		progress: map[string]Event{}, progAt: map[string]time.Time{},
	}
	for _, o := range opts {
		o(w)
	}
	w.tokens, w.refilled = w.limits.Burst, w.now()
	path := filepath.Join(dir, File)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	for _, e := range parse(old, true) {
		w.seq = max(w.seq, e.Seq)
	}
	w.torn = len(old) > 0 && old[len(old)-1] != '\n'
	w.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := w.reserve(int64(len(old)), w.limits.LogBytes+w.limits.Reserve); err != nil {
		w.file.Close()
		return nil, fmt.Errorf("reserving %d KiB for the journal %s: %w", (w.limits.LogBytes+w.limits.Reserve)>>10, path, err)
	}
	if err := syncDir(dir); err != nil {
		w.file.Close()
		return nil, fmt.Errorf("syncing %s: %w", dir, err)
	}
	return w, nil
}

// reserve takes n bytes of blocks for what may still be written behind size,
// without changing the file's size. File systems that cannot do it go without.
func (w *Writer) reserve(size, n int64) error {
	if n <= 0 {
		return nil
	}
	err := unix.Fallocate(int(w.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, n)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return err
	}
	return nil
}

// Append writes one event. Time, Seq and Run are filled in. Log and progress
// events are buffered, and may be left out (see [Limits]) without an error;
// every other event is on the disk when Append returns nil.
func (w *Writer) Append(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("writing the journal of run %s: %w", w.run, os.ErrClosed)
	}
	switch e.Event {
	case Log:
		w.log(e)
		return nil
	case Progress:
		w.note(e)
		return nil
	}
	w.settle()
	w.encode(e)
	if e.Event == StepEv && (e.State == Running || e.State == Undoing) {
		return w.flush()
	}
	return w.sync()
}

// Sync puts everything that was appended on the disk.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	return w.sync()
}

// Shrink gives back the space reserved for logs and keeps what step events
// need. The runner calls it before it undoes: putting a file back takes space
// too, and the disk may be full.
func (w *Writer) Shrink() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.flush() != nil {
		return
	}
	if st, err := w.file.Stat(); err == nil && w.file.Truncate(st.Size()) == nil {
		_ = w.reserve(st.Size(), w.limits.Reserve) // without it, writes may fail and say so
	}
}

// Close syncs, gives back the reserved space and closes. Later events are
// refused.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.settle()
	err := w.sync()
	if st, serr := w.file.Stat(); serr == nil {
		_ = w.file.Truncate(st.Size()) // frees blocks beyond the end
	}
	w.closed = true
	return errors.Join(err, w.file.Close())
}

// log takes a log line, or counts it as dropped.
func (w *Writer) log(e Event) {
	now := w.now()
	w.tokens = min(w.limits.Burst, w.tokens+max(0, now.Sub(w.refilled).Seconds())*w.limits.LinesPerSecond)
	w.refilled = now
	if w.full || w.tokens < 1 {
		w.dropped++
		return
	}
	w.tokens--
	w.sayDropped()
	e.Message = cut(e.Message, w.limits.LineBytes)
	w.logBytes += int64(w.encode(e))
	if w.logBytes >= w.limits.LogBytes {
		w.full = true
		w.encode(Event{Event: Log, Code: CodeLogDropped, Message: fmt.Sprintf(
			"the log of this run reached %d KiB; further lines are only counted", w.limits.LogBytes>>10)})
	}
	w.soon()
}

// note takes a progress event: at most one each interval, the newest last.
func (w *Writer) note(e Event) {
	now := w.now()
	if at, ok := w.progAt[e.Step]; ok && now.Sub(at) >= 0 && now.Sub(at) < w.limits.ProgressEvery {
		w.progress[e.Step] = e
		return
	}
	delete(w.progress, e.Step)
	w.progAt[e.Step] = now
	if !w.full {
		w.logBytes += int64(w.encode(e))
		w.soon()
	}
}

// settle writes what was held back: the last progress, the count of lines
// left out.
func (w *Writer) settle() {
	for step, e := range w.progress {
		w.encode(e)
		delete(w.progress, step)
	}
	w.sayDropped()
}

func (w *Writer) sayDropped() {
	if w.dropped == 0 {
		return
	}
	n := w.dropped
	w.dropped = 0
	w.encode(Event{Event: Log, Code: CodeLogDropped, Total: n, Message: fmt.Sprintf("%d lines of log left out here", n)})
}

// encode puts one line into the buffer and returns its length.
func (w *Writer) encode(e Event) int {
	w.seq++
	e.Seq, e.Run = w.seq, w.run
	if e.Time.IsZero() {
		e.Time = w.now()
	}
	line, err := json.Marshal(e)
	if err != nil { // an action's JSON that is none: say so instead
		e.Message, e.Action = fmt.Sprintf("%s (its data could not be written: %v)", e.Message, err), nil
		line, _ = json.Marshal(e)
	}
	w.buf.Write(line)
	w.buf.WriteByte('\n')
	if w.buf.Len() > 64<<10 {
		_ = w.flush() // an error shows again at the next boundary
	}
	return len(line) + 1
}

// flush hands the buffer to the kernel. After a short write the rest is kept
// for the next try only as far as whole lines go.
func (w *Writer) flush() error {
	if w.buf.Len() == 0 {
		return nil
	}
	if w.torn {
		if _, err := w.file.Write([]byte{'\n'}); err != nil {
			return fmt.Errorf("writing the journal of run %s: %w", w.run, err)
		}
		w.torn = false
	}
	n, err := w.file.Write(w.buf.Bytes())
	if err == nil {
		w.buf.Reset()
		return nil
	}
	// The line that was cut is written again whole; its first half is skipped
	// by readers.
	whole := bytes.LastIndexByte(w.buf.Bytes()[:n], '\n') + 1
	w.torn = n > whole
	w.buf.Next(whole)
	return fmt.Errorf("writing the journal of run %s: %w", w.run, err)
}

func (w *Writer) sync() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("syncing the journal of run %s: %w", w.run, err)
	}
	return nil
}

// soon flushes a little later, once for all lines that come meanwhile.
func (w *Writer) soon() {
	if w.flushing {
		return
	}
	w.flushing = true
	time.AfterFunc(flushAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.flushing = false
		if !w.closed {
			_ = w.flush()
		}
	})
}

// cut shortens a line to n bytes, at a character, and makes it valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = fmt.Sprintf("%s (%d bytes more)", s[:n], len(s)-n)
	}
	return s
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
