package pages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops/host"
	"fitout/tui/choice"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// dirs is an engine that knows where runs lie.
type dirs struct{ workflow.Wizard }

func (dirs) RunDir(run string) string { return "/var/lib/fitout/runs/" + run }

func TestWhatIsLeftToDoAfterAGoodRunIsSaid(t *testing.T) {
	tale := NewTale()
	tale.Add(journal.Event{Seq: 1, Event: journal.Start, Of: 1, Steps: []journal.StepTitle{{ID: "leave"}}})
	tale.Add(journal.Event{Seq: 2, Event: journal.StepEv, Step: "leave", N: 1, Of: 1, State: journal.Failed, Message: "no answer"})
	tale.Add(journal.Event{Seq: 3, Event: journal.Done, Outcome: journal.OutcomeDone, Message: "put node-17 back in service: kubectl uncordon node-17"})
	c := &Common{Wizard: dirs{}, Choices: &choice.Choices{Survey: &workflow.Survey{}}}
	text := NewResult(c, "one", &plan.Plan{}, tale).Text(80)
	require.Contains(t, text[0], "DONE")
	require.Contains(t, text, "WARNING put node-17 back in service: kubectl uncordon node-17")
}

// A host without a gate cannot stop an upgrade, whatever the answers ask for.
func TestResultPromisesNoGateThatTheHostLacks(t *testing.T) {
	for gate, want := range map[host.Strength]string{
		host.NoGate:         "nothing here can stop an upgrade",
		host.Advisory:       "this system can only warn",
		host.BlocksFinalize: "a kernel without it stops the upgrade",
	} {
		survey := &workflow.Survey{Host: host.Facts{Gate: gate}}
		c := &Common{Wizard: dirs{}, Choices: &choice.Choices{Survey: survey}}
		p := &plan.Plan{Drivers: []plan.Driver{{Name: "e1000e", When: answers.LoadNowPersist, OnMissing: "stop"}}}
		text := strings.Join(NewResult(c, "one", p, NewTale()).Text(200), "\n")
		require.Contains(t, text, want, gate)
	}
}
