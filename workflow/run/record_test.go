package run_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

func recordOf(version string) *run.RecordDriver {
	return &run.RecordDriver{StateDir: stateDir, Record: run.Record{Run: firstRun,
		Driver:      plan.Driver{Name: "intel-e1000e", Version: version, When: answers.LoadNowPersist, Modules: []string{"e1000e"}, DeviceIDs: []string{"8086:10d3"}},
		Srcversions: map[string]map[string]string{"6.1.0-57-amd64": {"e1000e": "5D8B..."}}}}
}

// record carries one action out as the runner does.
func record(t *testing.T, n *hostops.Node, a hostops.Action) {
	ctx := context.Background()
	require.NoError(t, a.Prepare(ctx, n))
	require.NoError(t, a.Do(ctx, n, nil))
	done, err := a.Done(ctx, n)
	require.NoError(t, err)
	require.True(t, done)
}

func versions(t *testing.T, n *hostops.Node) []string {
	all, err := run.Installed(n, stateDir)
	require.NoError(t, err)
	var out []string
	for _, r := range all {
		out = append(out, r.Driver.Version)
	}
	return out
}

const recordFile = stateDir + "/drivers/intel-e1000e.json"

func TestRecordIsKeptReplacedAndPutBack(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	require.Empty(t, versions(t, n))
	first := recordOf("3.8.4")
	record(t, n, first)
	require.Equal(t, []string{"3.8.4"}, versions(t, n))
	before := fingerprint(t, n)

	again := recordOf("3.8.4")
	again.Record.Run = "2026-1201-02"
	done, err := again.Done(context.Background(), n)
	require.NoError(t, err)
	require.True(t, done, "when and by which run is no difference")

	second := recordOf("3.8.7")
	record(t, n, second)
	require.Equal(t, []string{"3.8.7"}, versions(t, n))
	require.NoError(t, second.Undo(context.Background(), n, nil))
	require.Equal(t, []string{"3.8.4"}, versions(t, n))
	require.Equal(t, before, fingerprint(t, n))

	forget := &run.ForgetDriver{StateDir: stateDir, Name: "intel-e1000e"}
	record(t, n, forget)
	require.Empty(t, versions(t, n))
	require.False(t, n.Exists(stateDir+"/drivers"))
	require.NoError(t, forget.Undo(context.Background(), n, nil))
	require.Equal(t, []string{"3.8.4"}, versions(t, n))
	require.NoError(t, first.Undo(context.Background(), n, nil))
	require.Empty(t, versions(t, n))
}

// Seen where the runner was killed between the two writes.
func TestRecordWithoutItsCopyIsNotDone(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	a := recordOf("3.8.4")
	record(t, n, a)
	whole := fingerprint(t, n)
	require.NoError(t, n.Remove(recordFile+".prev"))
	done, err := a.Done(t.Context(), n)
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, a.Do(t.Context(), n, nil))
	require.Equal(t, whole, fingerprint(t, n))
}

func TestEmptyRecordAfterAHardResetIsNeverNothingInstalled(t *testing.T) {
	for name, damage := range map[string]string{"empty": "", "half": `{"format":"fitout.dri`, "zeros": "\x00\x00\x00\x00", "another format": `{"format":"fitout.driver/9"}`} {
		t.Run(name, func(t *testing.T) {
			n := hostops.At(t.TempDir(), nil)
			record(t, n, recordOf("3.8.4"))
			require.NoError(t, n.WriteFile(recordFile, []byte(damage), 0o600))
			all, err := run.Installed(n, stateDir)
			require.NoError(t, err)
			require.Len(t, all, 1, "the first record has a copy, too")
			require.Equal(t, "3.8.4", all[0].Driver.Version)
			require.NotEmpty(t, all[0].Recovered)

			record(t, n, recordOf("3.8.7"))
			require.NoError(t, n.WriteFile(recordFile, []byte(damage), 0o600))
			all, err = run.Installed(n, stateDir)
			require.NoError(t, err)
			require.Len(t, all, 1)

			require.NoError(t, n.WriteFile(recordFile+".prev", []byte(damage), 0o600))
			all, err = run.Installed(n, stateDir)
			require.ErrorIs(t, err, run.ErrDamaged)
			require.ErrorContains(t, err, "intel-e1000e")
			require.Empty(t, all)
		})
	}
	t.Run("the record is gone and its copy is there", func(t *testing.T) {
		n := hostops.At(t.TempDir(), nil)
		record(t, n, recordOf("3.8.4"))
		require.NoError(t, n.Remove(recordFile))
		require.Equal(t, []string{"3.8.4"}, versions(t, n))
	})
	t.Run("another driver's record is read all the same", func(t *testing.T) {
		n := hostops.At(t.TempDir(), nil)
		record(t, n, recordOf("3.8.4"))
		require.NoError(t, n.WriteFile(stateDir+"/drivers/broken.json", nil, 0o600))
		all, err := run.Installed(n, stateDir)
		require.ErrorIs(t, err, run.ErrDamaged)
		require.Len(t, all, 1)
	})
}

func TestRecordSurvivesThePlanFile(t *testing.T) {
	n, p := node(t)
	p.Steps = append(p.Steps, plan.Step{ID: "record", Action: recordOf("3.8.7")})
	dir := prepareRun(t, n, p, firstRun)
	all := run.Kinds()
	all["change-file"] = kinds["change-file"]
	o := options()
	require.Equal(t, 0, run.Execute(context.Background(), n, dir, all, o))
	require.Equal(t, []string{"3.8.7"}, versions(t, n))
	o.Mode = journal.ModeRollback
	require.Equal(t, 0, run.Execute(context.Background(), n, dir, all, o))
	require.Empty(t, versions(t, n))
}

// A journal that was lost after the run does not make a rollback say that nothing
// was left to undo.
func TestRunWhoseJournalWasLostIsNotRolledBack(t *testing.T) {
	n, p := node(t)
	record := recordOf("3.8.7")
	record.Record.Run = "" // as plans have it
	p.Steps = append(p.Steps, plan.Step{ID: "record", Action: record})
	dir := prepareRun(t, n, p, firstRun)
	all := run.Kinds()
	all["change-file"] = kinds["change-file"]
	require.Equal(t, 0, run.Execute(context.Background(), n, dir, all, options()))
	require.NoError(t, run.CanRollback(n, stateDir, firstRun))
	for _, content := range []string{"", "\x00\x00\x00\n"} {
		require.NoError(t, n.WriteFile(dir+"/"+journal.File, []byte(content), 0o600))
		listed, err := run.List(n, stateDir)
		require.NoError(t, err)
		require.True(t, listed[0].InEffect)
		require.ErrorContains(t, run.CanRollback(n, stateDir, firstRun), "fitout remove "+record.Record.Driver.Name)
	}
}

func TestLicenceIsAskedOncePerText(t *testing.T) {
	n, p := node(t)
	p.Answers = &answers.Answers{Licences: []answers.Licence{
		{ID: "intel-e1000e", Digest: "sha256:aa", Accepted: true, By: "ops@example.com"},
		{ID: "other", Digest: "sha256:bb", Accepted: false},
	}}
	p.Drivers = append(p.Drivers, plan.Driver{Name: "e1000e", Digest: "sha256:1e", Licences: []string{"sha256:aa"}})
	fault(t, n, "new", "do fail")
	id, err := run.Start(n, stateDir, p, self(n))
	require.NoError(t, err)
	require.Equal(t, 7, waitEnd(t, n, id).Exit)
	accepted := run.AcceptedLicences(n, stateDir)
	require.True(t, accepted["sha256:aa"], "accepted stays accepted when the run is undone")
	require.False(t, accepted["sha256:bb"])
	require.False(t, accepted["sha256:cc"], "a changed text is asked for again")
	record := run.Licences(n, stateDir)
	require.Len(t, record, 1)
	require.Equal(t, "ops@example.com", record[0].By)
	require.Equal(t, answers.InFile, record[0].How)
	require.Equal(t, []string{"sha256:1e"}, record[0].Images, "the image that came under it")

	require.NoError(t, n.WriteFile(stateDir+"/licences.json", []byte("{"), 0o600))
	require.Empty(t, run.AcceptedLicences(n, stateDir), "a damaged record accepts nothing")
}

func TestRunGivesUpAtTheLimitOfItsAnswers(t *testing.T) {
	n, p := node(t)
	p.Answers = &answers.Answers{Limits: answers.Limits{Timeout: "300ms"}}
	fault(t, n, "replaced", "do slow")
	before := fingerprint(t, n)
	dir := prepareRun(t, n, p, firstRun)
	require.Equal(t, 7, execute(n, dir, journal.ModeRun))
	require.Contains(t, summary(t, n, dir).Message, "longer than its limit of 300ms")
	require.Equal(t, before, fingerprint(t, n))
}
