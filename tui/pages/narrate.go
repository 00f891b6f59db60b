package pages

import (
	"fmt"
	"time"

	"fitout/tui/look"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// Line is a journal event as one plain line, "" for events that are not told.
// Line mode and the history print these.
func Line(e journal.Event) string {
	at := e.Time.Local().Format(time.TimeOnly) + " "
	place := fmt.Sprintf("[%d/%d] %-8s", e.N, e.Of, e.Step)
	switch e.Event {
	case journal.Start:
		if e.Mode == journal.ModeRun || e.Mode == "" {
			return at + "run " + e.Run + " begins, " + plan.Count(len(e.Steps), "step")
		}
		return at + "run " + e.Run + ": " + string(e.Mode)
	case journal.StepEv:
		if e.State == journal.Prepared {
			return ""
		}
		return at + place + " " + word(e.State) + tailOf(e.Message)
	case journal.Log:
		return at + "    " + look.Line(e.Message)
	case journal.Question:
		return at + "the run waits for a person: " + look.Line(e.Message)
	case journal.FindingT:
		return at + e.Code + tailOf(e.Message)
	case journal.Result:
		if e.Device != nil {
			return at + "device " + e.Device.Address + tailOf(e.Device.Text)
		}
	case journal.Done:
		return at + "ended: " + look.Upper(string(e.Outcome)) + tailOf(e.Message)
	}
	return ""
}

// word is a step's state in running text.
func word(s journal.State) string {
	switch s {
	case journal.OK:
		return "ok"
	case journal.Running:
		return "begins"
	}
	return look.Upper(string(s))
}

func tailOf(text string) string {
	if text == "" {
		return ""
	}
	return "  " + look.Line(text)
}
