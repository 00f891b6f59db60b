package tui

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/testdata/nodes"
	"fitout/tui/internal/fake"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// recorded puts a recorded node under the fake engine; its first kinds want the
// driver the catalog has.
func recorded(t *testing.T, name string) func(*fake.Engine) {
	t.Helper()
	e := &workflow.Engine{Node: hostops.At(nodes.Unpack(t, name), nil), Catalog: &catalog.Catalog{Date: "2026-11-28"}}
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	return func(f *fake.Engine) {
		copied := *s
		copied.Kinds = append([]workflow.Kind(nil), s.Kinds...)
		copied.NodeName, copied.Host.LoadNow, copied.Host.SideTree = "node-17", true, true
		copied.Kernels = f.Node.Kernels
		f.Node = &copied
		for i := range copied.Kinds {
			if i < 3 {
				copied.Kinds[i].State = finding.StateNeedsDriver
				f.Catalog[0].Match = append(f.Catalog[0].Match, copied.Kinds[i].ID)
			}
		}
	}
}

// TestWizardAndLineModeGiveTheSameAnswers makes the same choices on every
// recorded node both ways.
func TestWizardAndLineModeGiveTheSameAnswers(t *testing.T) {
	for _, name := range nodes.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := recorded(t, name)
			require.Equal(t, byLine(t, change), byWizard(t, change))
		})
	}
}

func byWizard(t *testing.T, change func(*fake.Engine)) *answers.Answers {
	h := newHarness(t, basic, 80, 24, change)
	h.keys("n")
	for i := 0; i < 20 && !strings.HasPrefix(h.m.top().Title(), "6/7"); i++ {
		switch title := h.m.top().Title(); {
		case strings.HasPrefix(title, "2/7"):
			h.keys("3", "enter")
		case strings.HasPrefix(title, "4/7"):
			h.keys("accept", "enter", "enter")
		default:
			h.keys("enter")
		}
	}
	h.on("6/7").keys("run", "enter")
	return saved(t, h.m.c.AnswersPath)
}

func byLine(t *testing.T, change func(*fake.Engine)) *answers.Answers {
	e := fake.New(t.TempDir())
	change(e)
	return saved(t, converse(t, e, []reply{says("Which?", ""), says("Maintenance?", "3"), says("Image?", ""), says("-- line", "e"),
		says("Accepted by", ""), says("When?", ""), says("stop or continue?", "")}))
}

// saved is the answers file as headless would read it; when a licence was
// accepted is left out.
func saved(t *testing.T, path string) *answers.Answers {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := answers.Read(path, data)
	require.NoError(t, err)
	require.NotEmpty(t, a.Devices)
	require.NotEmpty(t, a.Licences)
	for i := range a.Licences {
		a.Licences[i].At = time.Time{}
	}
	return a
}
