package run_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// several makes runs that ended in these ways, oldest first: "done", "undone",
// "cut" (killed), "final" (a removal).
func several(t *testing.T, n *hostops.Node, how ...string) {
	for i, h := range how {
		step := plan.Step{ID: "step", Action: &change{Path: fmt.Sprint("/etc/of-", i), Content: "x"}}
		if h == "final" {
			step.ID = "forget"
		}
		p := &plan.Plan{Steps: []plan.Step{step}, Drivers: []plan.Driver{{Name: "intel-e1000e"}}}
		id := fmt.Sprintf("2026-1130-%02d", i+1)
		dir := prepareRun(t, n, p, id)
		switch h {
		case "undone":
			fault(t, n, fmt.Sprint("of-", i), "do fail")
			require.Equal(t, 7, execute(n, dir, journal.ModeRun))
		case "cut":
			require.NoError(t, n.WriteFile(dir+"/"+journal.File, []byte(`{"seq":1,"event":"start","steps":[{"id":"step"}]}`+"\n"), 0o600))
		default:
			require.Equal(t, 0, execute(n, dir, journal.ModeRun))
		}
	}
}

func TestOldRunsArePrunedButNoneThatCanStillBeUndone(t *testing.T) {
	for name, tt := range map[string]struct {
		how  []string
		keep int
		gone []string
	}{
		"few enough":                 {[]string{"undone", "undone"}, 2, nil},
		"the oldest that say little": {[]string{"undone", "undone", "undone", "done"}, 2, []string{"01", "02"}},
		"what can be undone stays":   {[]string{"done", "undone", "done", "done"}, 1, []string{"02"}},
		"what was cut short stays":   {[]string{"cut", "undone", "undone"}, 1, []string{"02", "03"}},
		"removed for good":           {[]string{"done", "done", "final", "undone"}, 1, []string{"01", "02", "03"}},
		"fitted anew since":          {[]string{"done", "final", "done"}, 1, []string{"01", "02"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := node(t)
			several(t, n, tt.how...)
			gone, err := run.Prune(n, stateDir, tt.keep)
			require.NoError(t, err)
			var want []string
			for _, id := range tt.gone {
				want = append(want, "2026-1130-"+id)
				require.False(t, n.Exists(run.Dir(stateDir, "2026-1130-"+id)))
			}
			require.Equal(t, want, gone)
		})
	}
}
