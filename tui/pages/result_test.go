package pages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops/host"
	"fitout/tui/choice"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// dirs is an engine that knows where runs lie.
type dirs struct{ workflow.Wizard }

func (dirs) RunDir(run string) string { return "/var/lib/fitout/runs/" + run }

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
