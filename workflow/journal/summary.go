package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// StepState is one step as far as the journal tells.
type StepState struct {
	ID, Title string
	N         int
	State     State
	// Message is the newest sentence about it; Code goes with a failure.
	Message, Code string
	// Done and Total are its progress in its own unit.
	Done, Total int64
	// Began and Ended are zero until then.
	Began, Ended time.Time
	// Action is what Undo needs, from when it was prepared; nil before, and
	// again after it was undone.
	Action json.RawMessage
}

// Summary is a run as far as its journal tells. Every view shows this.
type Summary struct {
	Run  string
	Mode Mode // of the last start
	// Steps in plan order.
	Steps []StepState
	// Rebooting: the node is being restarted by the run, or was and the run has
	// not gone on yet.
	Rebooting bool
	// Current is the index of the step under way, -1 for none.
	Current int
	// Ended is set when the last start has its done event; Outcome, Exit,
	// Message and NotUndone come from that.
	Ended     bool
	Outcome   Outcome
	Exit      int
	Message   string
	NotUndone []string
	// Failed is the index of the step that failed first, -1 for none; Cause is
	// the event that said so. The step's own words are others once it is undone.
	Failed int
	Cause  Event
	// Devices as the last step that measured them found them. Once that step
	// is undone, "it works" is no longer so; why one did not work stays.
	Devices []DeviceResult
	// measured is the number of that step.
	measured int
	// Question is the one that waits for an answer, nil for none.
	Question *Event
	Findings []Event
	// BootID and Kernel are of the last start; Began of the first.
	BootID, Kernel  string
	Began, Finished time.Time
	// Lines of log written, Dropped left out.
	Lines, Dropped int64
	LastSeq        int64
}

// NewSummary is the summary of no events.
func NewSummary() Summary { return Summary{Current: -1, Failed: -1} }

// Summarise folds events, in order, into a summary.
func Summarise(events []Event) Summary {
	s := NewSummary()
	for _, e := range events {
		s.Add(e)
	}
	return s
}

// Add takes the next event. Views that pull keep one summary and add to it.
func (s *Summary) Add(e Event) {
	s.LastSeq = max(s.LastSeq, e.Seq)
	if e.Run != "" {
		s.Run = e.Run
	}
	switch e.Event {
	case Start:
		s.start(e)
	case StepEv:
		s.step(e)
	case Progress:
		if i := s.find(e); i >= 0 {
			s.Steps[i].Done, s.Steps[i].Total = e.Done, e.Total
		}
	case Log:
		if e.Code == CodeLogDropped {
			s.Dropped += e.Total
		} else {
			s.Lines++
		}
	case Question:
		q := e
		s.Question = &q
	case FindingT:
		s.Findings = append(s.Findings, e)
	case Result:
		s.result(e)
	case Done:
		s.Ended, s.Current, s.Question = true, -1, nil
		s.Outcome, s.Exit, s.Message, s.NotUndone, s.Finished = e.Outcome, e.Exit, e.Message, e.NotUndone, e.Time
	}
}

func (s *Summary) start(e Event) {
	s.Mode, s.BootID, s.Kernel = e.Mode, e.BootID, e.Kernel
	if s.Began.IsZero() {
		s.Began = e.Time
	}
	s.Ended, s.Outcome, s.Exit, s.Message, s.NotUndone = false, "", 0, "", nil
	s.Rebooting = false
	s.Current, s.Failed, s.Cause, s.Question, s.Finished = -1, -1, Event{}, nil, time.Time{}
	for i, t := range e.Steps {
		if i >= len(s.Steps) {
			s.Steps = append(s.Steps, StepState{N: i + 1, State: Pending})
		}
		s.Steps[i].ID, s.Steps[i].Title = t.ID, t.Title
	}
}

// find is the index of an event's step; a step the start did not name is
// appended. -1 when the event names none.
func (s *Summary) find(e Event) int {
	if e.N >= 1 && e.N <= len(s.Steps) {
		return e.N - 1
	}
	for i := range s.Steps {
		if s.Steps[i].ID == e.Step {
			return i
		}
	}
	if e.Step == "" {
		return -1
	}
	s.Steps = append(s.Steps, StepState{ID: e.Step, Title: e.Step, N: e.N, State: Pending})
	return len(s.Steps) - 1
}

func (s *Summary) step(e Event) {
	i := s.find(e)
	if i < 0 {
		return
	}
	st := &s.Steps[i]
	st.State, st.Code = e.State, e.Code
	s.Rebooting = e.State == Rebooting
	if e.Message != "" {
		st.Message = e.Message
	}
	s.Question = nil
	switch e.State {
	case Running:
		s.Current = i
		st.Began, st.Ended, st.Done, st.Total = e.Time, time.Time{}, 0, 0
	case Prepared:
		s.Current = i
		st.Action = e.Action
	case Undoing, Rebooting:
		s.Current = i
	case Failed:
		s.Current = -1
		st.Ended = e.Time
		if s.Failed < 0 {
			s.Failed, s.Cause = i, e
		}
	case Skipped, OK, UndoFail:
		s.Current = -1
		st.Ended = e.Time
	case Undone:
		s.Current = -1
		st.Ended, st.Action = e.Time, nil
		if s.measured == i+1 {
			s.Devices = slices.DeleteFunc(s.Devices, func(d DeviceResult) bool { return d.OK })
		}
	}
}

// result keeps the newest result of a device.
func (s *Summary) result(e Event) {
	if e.Device == nil {
		return
	}
	s.measured = s.find(e) + 1
	for i := range s.Devices {
		if s.Devices[i].Address == e.Device.Address {
			s.Devices[i] = *e.Device
			return
		}
	}
	s.Devices = append(s.Devices, *e.Device)
}
