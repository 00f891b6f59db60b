// Package journal is the record of a run: one directory a run, one JSON line
// an event, synced at step boundaries. It is the only output of the runner and
// the only input of everything that shows a run.
package journal

import (
	"encoding/json"
	"time"
)

// Type is the closed vocabulary of events.
type Type string

// The event types.
const (
	Start    Type = "start"    // the run began: bootId, kernel, of
	StepEv   Type = "step"     // a step changed state
	Log      Type = "log"      // one line
	Progress Type = "progress" // done/total of the step's unit
	Question Type = "question" // the run waits for a person
	FindingT Type = "finding"
	Result   Type = "result" // one device as measured
	Done     Type = "done"   // the run ended: outcome, exit
)

// State is a step's state.
type State string

// The step states. "prepared" carries the action with what Undo needs, and is
// synced before anything is changed.
const (
	Skipped  State = "skipped" // was already done
	Prepared State = "prepared"
	Running  State = "running"
	OK       State = "ok"
	Failed   State = "failed"
	Undoing  State = "undoing"
	Undone   State = "undone"
	UndoFail State = "undo-failed"
)

// Event is one line of a journal. Readers ignore what they do not know.
type Event struct {
	Time time.Time `json:"time"`
	// Seq counts up from 1; order is by Seq, never by the clock.
	Seq     int64           `json:"seq"`
	Run     string          `json:"run"`
	Event   Type            `json:"event"`
	Step    string          `json:"step,omitempty"` // id ("load")
	N       int             `json:"n,omitempty"`
	Of      int             `json:"of,omitempty"`
	State   State           `json:"state,omitempty"`
	Message string          `json:"message,omitempty"`
	Done    int64           `json:"done,omitempty"`
	Total   int64           `json:"total,omitempty"`
	Code    string          `json:"code,omitempty"`
	Action  json.RawMessage `json:"action,omitempty"` // prepared: what Undo needs
	// Outcome of a done event: "done", "failed-undone", "failed-not-undone",
	// "stopped", "hung"; Exit is the exit code that goes with it.
	Outcome string `json:"outcome,omitempty"`
	Exit    int    `json:"exit,omitempty"`
	// Device results.
	Device *DeviceResult `json:"device,omitempty"`
	BootID string        `json:"bootId,omitempty"`
	Kernel string        `json:"kernel,omitempty"`
}

// DeviceResult is what was measured of one device at the end.
type DeviceResult struct {
	Address string `json:"address"`
	Name    string `json:"name"`
	// OK is true when it is bound to Want, the loaded module is the staged one
	// and its kernel log is clean.
	OK                bool     `json:"ok"`
	Driver            string   `json:"driver"`
	Want              string   `json:"want"`
	Version           string   `json:"version,omitempty"`
	SrcversionMatches *bool    `json:"srcversionMatches,omitempty"`
	Log               []string `json:"log,omitempty"` // kernel lines that are not clean
	Text              string   `json:"text"`          // the sentence
}
