package look

import (
	"strings"

	"fitout/workflow/finding"
)

// Upper is a machine name as it stands on screens ("needs-driver" → "NEEDS
// DRIVER"). A name that this program does not know is shown all the same.
func Upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", " ")) }

// State and Verdict are the words of package finding, as they stand in tables.
func State(s finding.State) string { return strings.ToUpper(finding.StateWord(s)) }

// Verdict is a verdict's word.
func Verdict(v finding.Verdict) string { return strings.ToUpper(finding.VerdictWord(v)) }

// StateRole is how a device state is drawn.
func StateRole(s finding.State) Role {
	switch s {
	case finding.StateOK:
		return Good
	case finding.StateNeedsDriver, finding.StateWrongDriver, finding.StateUpdate:
		return Care
	case finding.StateFailed, finding.StateNoImage:
		return Bad
	}
	return Faint
}

// VerdictRole is how a verdict is drawn.
func VerdictRole(v finding.Verdict) Role {
	switch v {
	case finding.OK:
		return Good
	case finding.OKKABI, finding.Unsure:
		return Care
	case finding.NoModule, finding.Blocked:
		return Bad
	}
	return Faint
}
