// Package journal is the record of a run: one directory a run, one JSON line
// an event, synced at step boundaries. It is the only output of the runner and
// the only input of everything that shows a run.
//
// The rules are:
//
//   - Order is the order of lines, counted by Seq. Clocks are for people.
//   - A step's boundary is on the disk before anything depends on it.
//   - Log lines and progress are worth less than the disk: they are buffered,
//     limited in rate and size, and what was left out is counted and said.
//   - A power cut may cost the last line. It never costs an earlier one, and
//     never makes the file unreadable.
package journal

import (
	"encoding/json"
	"time"
)

// File is the name of the journal in a run's directory.
const File = "journal.jsonl"

// Type is the closed vocabulary of events.
type Type string

// The event types.
const (
	Start    Type = "start"    // the run began (or goes on, or is rolled back): mode, bootId, kernel, of, steps
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
	Pending  State = "pending" // in summaries only: not begun
	Skipped  State = "skipped" // was already done
	Running  State = "running" // begun: measuring, nothing changed yet
	Prepared State = "prepared"
	// Rebooting: the step restarts the node, and the run goes on after the boot.
	Rebooting State = "rebooting"
	OK        State = "ok"
	Failed    State = "failed"
	Undoing   State = "undoing"
	Undone    State = "undone"
	UndoFail  State = "undo-failed"
)

// Mode says what a start event starts.
type Mode string

// The modes.
const (
	ModeRun      Mode = "run"
	ModeResume   Mode = "resume"   // goes on after an interruption
	ModeRollback Mode = "rollback" // undoes an ended or broken run
)

// Outcome is how a run ended.
type Outcome string

// The outcomes, each with the exit code that goes with it.
const (
	OutcomeDone       Outcome = "done"              // 0
	OutcomeRolledBack Outcome = "rolled-back"       // 0, of a rollback
	OutcomeUndone     Outcome = "failed-undone"     // 7
	OutcomeNotUndone  Outcome = "failed-not-undone" // 8
	OutcomeStopped    Outcome = "stopped"           // 11
	OutcomeHung       Outcome = "hung"              // 13
)

// Codes of events the journal and the runner write themselves.
const (
	CodeLogDropped = "log-dropped" // a log event that says how many lines are missing
	CodeHung       = "hung"        // a failed step that did not return
	CodePanic      = "panic"       // a failed step whose code has a bug
	CodeTimeout    = "timeout"     // a step that gave up at its limit
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
	// Outcome of a done event; Exit is the exit code that goes with it.
	Outcome Outcome `json:"outcome,omitempty"`
	Exit    int     `json:"exit,omitempty"`
	// NotUndone, of a done event, names what could not be put back.
	NotUndone []string `json:"notUndone,omitempty"`
	// Device results.
	Device *DeviceResult `json:"device,omitempty"`
	// Of a start event.
	Mode   Mode        `json:"mode,omitempty"`
	Steps  []StepTitle `json:"steps,omitempty"`
	BootID string      `json:"bootId,omitempty"`
	Kernel string      `json:"kernel,omitempty"`
	PID    int         `json:"pid,omitempty"`
}

// StepTitle names a step that is to come.
type StepTitle struct {
	ID    string `json:"id"`
	Title string `json:"title"`
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
