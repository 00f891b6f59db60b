package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Read returns the events of the run whose directory is dir, in order. A run
// that has written none yet has none. Lines that a power cut damaged are left
// out; a last line without its newline counts when it is whole.
func Read(dir string) ([]Event, error) {
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return parse(data, true), nil
}

// parse takes lines; the last one also without a newline when atRest is set.
func parse(data []byte, atRest bool) []Event {
	var events []Event
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		if !ended && !atRest {
			break
		}
		if e, ok := decode(line); ok {
			events = append(events, e)
		}
		data = rest
	}
	return events
}

// decode reads one line. A damaged one (cut, zeros, two lines run together by
// a lost block) is none; a JSON object that was cut never parses.
func decode(line []byte) (Event, bool) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil || e.Seq == 0 || e.Event == "" {
		return Event{}, false
	}
	return e, true
}

// Reader follows one journal by pulling: [Reader.Next] returns what is new and
// never waits. It holds no lock; any number may read while the runner writes.
type Reader struct {
	path string
	file *os.File
	part []byte // the start of a line whose end is not there yet
}

// Open makes a reader at the beginning of the journal in the run directory
// dir. The journal need not be there yet.
func Open(dir string) *Reader { return &Reader{path: filepath.Join(dir, File)} }

// Next returns up to max new events (0: all), none when there is nothing new.
// Only whole lines count.
func (r *Reader) Next(max int) ([]Event, error) {
	if r.file == nil {
		f, err := os.Open(r.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("following the journal: %w", err)
		}
		r.file = f
	}
	var events []Event
	chunk := make([]byte, 64<<10)
	for {
		events = append(events, r.take(max, len(events))...)
		if max > 0 && len(events) >= max {
			return events, nil
		}
		n, err := r.file.Read(chunk)
		r.part = append(r.part, chunk[:n]...)
		if n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return events, fmt.Errorf("following the journal: %w", err)
			}
			return events, nil
		}
	}
}

// take removes whole lines from part, until max events are there with have.
func (r *Reader) take(max, have int) []Event {
	var events []Event
	for max == 0 || have+len(events) < max {
		end := bytes.IndexByte(r.part, '\n')
		if end < 0 {
			break
		}
		if e, ok := decode(r.part[:end]); ok {
			events = append(events, e)
		}
		r.part = r.part[end+1:]
	}
	return events
}

// Close lets go of the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
