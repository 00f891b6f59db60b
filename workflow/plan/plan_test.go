package plan_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
)

// write is an action of one file.
type write struct {
	Path, Content string
	Before        *string
}

func (*write) Kind() string { return "write-file" }
func (w *write) Describe() hostops.Description {
	return hostops.Description{Title: "write " + w.Path, Text: []string{"write " + w.Path}, Undo: []string{"rm " + w.Path},
		Estimate: 2 * time.Second, Bytes: int64(len(w.Content)), Into: "/etc"}
}
func (w *write) Prepare(context.Context, *hostops.Node) error { return nil }
func (w *write) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return n.WriteFile(w.Path, []byte(w.Content), 0o644)
}
func (w *write) Done(context.Context, *hostops.Node) (bool, error) { return false, nil }
func (w *write) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return n.Remove(w.Path)
}

var kinds = plan.Kinds{"write-file": func() hostops.Action { return &write{} }}

func example() *plan.Plan {
	old := "old"
	return &plan.Plan{
		Kernel: "6.1.0-57-amd64",
		Steps: []plan.Step{
			{ID: "conf", Action: &write{Path: "/etc/modprobe.d/x.conf", Content: "options e1000e IntMode=1", Before: &old}},
			{ID: "hook", Action: &write{Path: "/etc/hook", Content: "#!/bin/sh"}},
		},
		Answers: &answers.Answers{APIVersion: answers.APIVersion, Kind: answers.Kind,
			Devices: []answers.Rule{{Match: answers.Match{ID: "8086:10d3"}, Driver: "intel-e1000e", When: answers.LoadNow,
				Parameters: map[string][]string{"e1000e": {"IntMode=1"}}}}},
		Findings: []finding.Finding{{Code: "kabi-match", Severity: finding.Risk, Message: "built for another release", Risk: "kabi-match"}},
		Risks:    []string{"kabi-match", "in-use"}, Missing: []string{"in-use"},
		Drivers: []plan.Driver{{Name: "intel-e1000e", Version: "3.8.7", Digest: "sha256:aa", When: answers.LoadNow,
			Modules: []string{"e1000e"}, Devices: []string{"0000:03:00.0"}, Kernels: []plan.KernelBuild{{Release: "6.1.0-57-amd64", Role: "running", Verdict: finding.OKKABI}}}},
		Skipped: []string{"0000:04:00.0 (8086:1572) has its driver"},
	}
}

func TestPlanIsTheSameAfterItWasWrittenAndRead(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	want := example()
	require.NoError(t, plan.Save(n, "/var/lib/fitout/runs/2026-1130-01", want))
	got, err := plan.Load(n, "/var/lib/fitout/runs/2026-1130-01", kinds)
	require.NoError(t, err)
	require.Equal(t, want, got)
	st, err := n.Stat("/var/lib/fitout/runs/2026-1130-01/plan.json")
	require.NoError(t, err)
	require.Equal(t, "-rw-------", st.Mode().String())

	drivers, err := plan.LoadDrivers(n, "/var/lib/fitout/runs/2026-1130-01")
	require.NoError(t, err)
	require.Equal(t, want.Drivers, drivers)
}

func TestPlanThatCannotBeTrustedIsRefused(t *testing.T) {
	tests := map[string]struct{ from, to, says string }{
		"a kind of a newer fitout":   {`"write-file"`, `"teleport"`, `"teleport" is unknown`},
		"a format of a newer fitout": {"run-plan/1", "run-plan/2", "format"},
		"half a file":                {`"skipped"`, "", "plan.json"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := hostops.At(t.TempDir(), nil)
			require.NoError(t, plan.Save(n, "/r", example()))
			data, err := n.ReadString("/r/plan.json")
			require.NoError(t, err)
			require.NoError(t, n.WriteFile("/r/plan.json", []byte(strings.Replace(data, test.from, test.to, 1)), 0o600))
			_, err = plan.Load(n, "/r", kinds)
			require.ErrorContains(t, err, test.says)
		})
	}
	t.Run("two steps of one id", func(t *testing.T) {
		p := example()
		p.Steps[1].ID = p.Steps[0].ID
		require.ErrorContains(t, plan.Save(hostops.At(t.TempDir(), nil), "/r", p), `"conf"`)
	})
}

func TestTextSaysEveryStepItsUndoAndWhatIsLeftOut(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	text := strings.Join(example().Text(n), "\n")
	for _, want := range []string{"2 steps, about 4 s, for kernel 6.1.0-57-amd64", "simulated", "33 B into /etc (", " free)",
		" 1 conf       write /etc/modprobe.d/x.conf", "undo:\n     rm /etc/hook", "risk kabi-match: built for another release",
		"risk accepted: kabi-match", "--accept-risk in-use", "not done: 0000:04:00.0"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "risk accepted: in-use")
	empty := plan.Plan{Skipped: []string{"all is there"}}
	require.Equal(t, []string{"Nothing to do.", "not done: all is there"}, empty.Text(n))
}

func TestDocumentHasNoNullLists(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	data, err := json.Marshal((&plan.Plan{}).Document(n))
	require.NoError(t, err)
	require.NotContains(t, string(data), "null")
	doc := example().Document(n)
	require.Equal(t, "Plan", doc.Kind)
	require.Equal(t, 2, doc.Steps[1].N)
	require.Equal(t, "2s", doc.Steps[1].Estimate)
	require.Equal(t, []string{"rm /etc/hook"}, doc.Steps[1].Undo)
	require.EqualValues(t, 33, doc.Space[0].Bytes)
	require.NotZero(t, doc.Space[0].FreeBytes)
}

func TestSizeHasThreeDigitsAtMost(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 1530: "1.5 kB", 412_300_000: "412 MB", 999_600: "1 MB", 1_100_000_000: "1.1 GB"} {
		require.Equal(t, want, plan.Size(n))
	}
}
