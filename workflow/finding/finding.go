// Package finding holds the words fitout uses for what is wrong, or may be:
// one table of stable codes, each with the sentence a person reads, what it
// means and how to cure it. Text, JSON, screens and `fitout explain` all print
// from this table.
package finding

// Code is the stable machine name of a finding ("symbol-crc").
type Code string

// Severity says what a finding does to a verdict.
type Severity string

// The severities, in rising order.
const (
	Note  Severity = "note"  // worth knowing
	Risk  Severity = "risk"  // goes on only with the named risk accepted
	Block Severity = "block" // nothing can accept this away
)

// Finding is one thing that was found, about one device or one image.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Message is the sentence, with the names filled in.
	Message string `json:"message"`
	// Hint is a cure the person at the console can carry out.
	Hint string `json:"hint,omitempty"`
	// Evidence is what was measured, one fact a line.
	Evidence []string `json:"evidence,omitempty"`
	// Risk is the name to accept it by, for severity risk ("kabi-match").
	Risk string `json:"risk,omitempty"`
}

// Verdict says whether an image's modules would load on one kernel.
type Verdict string

// The verdicts, best first.
const (
	OK       Verdict = "ok"        // would load, built for this release
	OKKABI   Verdict = "ok-kabi"   // built for another release, symbol versions match
	Unsure   Verdict = "unsure"    // could not check; the finding says what would settle it
	NoModule Verdict = "no-module" // the image holds nothing for this kernel
	Blocked  Verdict = "blocked"   // the kernel would refuse it
)

// State is what a device is in.
type State string

// The device states.
const (
	StateOK              State = "ok"
	StateNeedsDriver     State = "needs-driver"
	StateWrongDriver     State = "wrong-driver"
	StateUpdate          State = "update"
	StateNoImage         State = "no-image"
	StateFailed          State = "failed"
	StatePassedThrough   State = "passed-through"
	StateVirtualFunction State = "virtual-function"
	StateNotNeeded       State = "not-needed"
)
