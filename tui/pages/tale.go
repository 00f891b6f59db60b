package pages

import (
	"fitout/tui/look"
	"fitout/workflow/journal"
)

// keepLines is how much of a log is kept to look at.
const keepLines = 2000

// Tale is a run as its journal tells it: the summary, and the end of the log.
type Tale struct {
	journal.Summary
	Log []string
}

// NewTale is the tale of no events.
func NewTale() Tale { return Tale{Summary: journal.NewSummary()} }

// Add takes the next event.
func (t *Tale) Add(e journal.Event) {
	t.Summary.Add(e)
	switch {
	case e.Event == journal.Log:
		t.note(e, e.Message)
	case e.Event == journal.StepEv && e.State == journal.Failed:
		t.note(e, "FAILED "+e.Step+": "+e.Message)
	}
}

func (t *Tale) note(e journal.Event, text string) {
	t.Log = append(t.Log, e.Time.Local().Format("15:04:05")+" "+look.Line(text))
	if n := len(t.Log); n > 2*keepLines {
		t.Log = append([]string(nil), t.Log[n-keepLines:]...)
	}
}
