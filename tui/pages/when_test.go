package pages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops/host"
	"fitout/tui/choice"
	"fitout/workflow"
)

func TestPriceOfEachWayOfKeepingADriverIsInTheHelp(t *testing.T) {
	price := map[string][]string{"side-tree": {"no reboot needed"}, "os-image": {"`rpm-ostree install`", "minutes more each"}}
	p := &When{Common: &Common{Choices: &choice.Choices{Survey: &workflow.Survey{Host: host.Facts{Price: price}}}}}
	text := strings.Join(p.Help(), "\n")
	for _, way := range price {
		for _, said := range way {
			require.Contains(t, text, said)
		}
	}
	require.Contains(t, text, "persistIn: os-image")
	require.NotContains(t, text, "Load at every boot costs", "it is no way here")
}
