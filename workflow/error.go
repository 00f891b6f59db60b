package workflow

import (
	"errors"
	"fmt"

	"fitout/workflow/finding"
)

// Exit codes of the program; a script can rely on them.
const (
	ExitDone         = 0
	ExitBug          = 1
	ExitUsage        = 2
	ExitFile         = 3
	ExitNoMatch      = 4
	ExitPerson       = 5
	ExitForbidden    = 6
	ExitUndone       = 7
	ExitNotUndone    = 8
	ExitUnreachable  = 9
	ExitLocked       = 10
	ExitStopped      = 11
	ExitUnsupported  = 12
	ExitHung         = 13
	ExitDrift        = 20
	ExitNeedsReboot  = 21
	ExitNotLoadedYet = 22
)

// Error is a reason to stop that an operator can act on. It carries the exit
// code that goes with it and the findings that led to it.
type Error struct {
	Exit     int
	Code     string // stable machine name
	Message  string
	Hint     string
	Findings []finding.Finding
	Err      error
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + "; " + e.Hint
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// ExitOf is the exit code that an error calls for.
func ExitOf(err error) int {
	var e *Error
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.Exit
	}
	return ExitBug
}

// codeOf is the machine name of an error, "" for one without.
func codeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func stopf(exit int, code, hint, format string, args ...any) *Error {
	return &Error{Exit: exit, Code: code, Hint: hint, Message: fmt.Sprintf(format, args...)}
}
