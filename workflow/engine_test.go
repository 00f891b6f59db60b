package workflow_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

const licenceText = "You may use this driver.\n"

// licenceDigest names licenceText in answers.
func licenceDigest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(licenceText))) }

// card is an 82557 that e100 drives; the built node's tables have no module for it.
var card = nodes.Card{Address: "0000:05:00.0", ID: "8086:1229", Subsystem: "8086:0001", Class: "020000"}

// built is an image with real modules of Debian below /opt, said to be for the
// kernel as, and a licence.
func built(t *testing.T, release, as string, modules ...string) v1.Image {
	t.Helper()
	files := []images.File{{Name: "licenses/LICENSE", Data: []byte(licenceText)}}
	for _, m := range modules {
		found, err := filepath.Glob("../testdata/modules/" + release + "/" + m + ".ko*")
		require.NoError(t, err)
		require.Len(t, found, 1, m)
		data, err := os.ReadFile(found[0])
		require.NoError(t, err)
		files = append(files, images.File{Name: "opt/lib/modules/" + as + "/" + filepath.Base(found[0]), Data: data})
	}
	img, err := images.Of(v1.Config{}, files...)
	require.NoError(t, err)
	return img
}

// driverImage is such an image in an OCI layout.
func driverImage(t *testing.T, release, as string, modules ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, images.WriteLayout(built(t, release, as, modules...), dir, "1"))
	return "oci:" + dir + ":1"
}

// engineOn is an engine on a built node with the card.
func engineOn(t *testing.T) *workflow.Engine {
	t.Helper()
	root := nodes.Build(t, nodes.Bridge, card, nodes.Disk)
	n := hostops.At(root, nil)
	// The kernel's own tree has mii, whose bytes tell its vermagic.
	mii, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/mii.ko")
	require.NoError(t, err)
	require.NoError(t, n.WriteFile("/lib/modules/"+nodes.Release+"/kernel/drivers/net/mii.ko", mii, 0o644))
	dep, err := n.ReadFile("/lib/modules/" + nodes.Release + "/modules.dep")
	require.NoError(t, err)
	require.NoError(t, n.WriteFile("/lib/modules/"+nodes.Release+"/modules.dep", append(dep, "kernel/drivers/net/mii.ko:\n"...), 0o644))
	symvers, err := os.ReadFile("../testdata/modules/" + nodes.Release + "/Module.symvers")
	require.NoError(t, err)
	require.NoError(t, n.WriteFile("/lib/modules/"+nodes.Release+"/Module.symvers", symvers, 0o644))
	c, err := catalog.Default()
	require.NoError(t, err)
	return &workflow.Engine{Node: n, Catalog: c, Version: "0.1.0-test"}
}

func answersFor(ref string, when answers.When) *answers.Answers {
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Image: &answers.Image{Reference: ref}, When: when}}
	a.AcceptRisks = []string{"unsure-verdict"}
	return a
}

func execute(t *testing.T, e *workflow.Engine, p *plan.Plan) (int, journal.Summary) {
	t.Helper()
	n := len(e.Node.Glob(run.Dir(e.StateDir(), "*"))) + 1
	dir := run.Dir(e.StateDir(), fmt.Sprintf("2026-1130-%02d", n))
	require.NoError(t, plan.Save(e.Node, dir, p))
	code := run.Execute(t.Context(), e.Node, dir, workflow.Kinds(), run.Options{})
	events, err := journal.Read(e.Node.Path(dir))
	require.NoError(t, err)
	return code, journal.Summarise(events)
}

// carryOut plans what the answers say, and runs it.
func carryOut(t *testing.T, e *workflow.Engine, a *answers.Answers) *plan.Plan {
	t.Helper()
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	return p
}

func TestSurveySaysWhatNeedsADriver(t *testing.T) {
	s, err := engineOn(t).Survey(context.Background())
	require.NoError(t, err)
	require.Len(t, s.Devices, 3)
	require.Len(t, s.Kinds, 2, "the bridge is no kind to fit out")
	require.Equal(t, finding.StateNoImage, s.Kinds[0].State)
	require.Equal(t, "8086:1229", s.Kinds[0].ID)
	require.Equal(t, finding.StateOK, s.Kinds[1].State)
}

func TestLicenceThatNobodyAcceptedStopsThePlan(t *testing.T) {
	e := engineOn(t)
	_, err := e.Plan(context.Background(), answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), nil)
	require.Equal(t, workflow.ExitPerson, workflow.ExitOf(err), "%v", err)
	var stop *workflow.Error
	require.ErrorAs(t, err, &stop)
	require.Contains(t, stop.Hint, fmt.Sprintf("licences: [{id: e100, digest: %q, accepted: true", licenceDigest()))
}

func TestAnswersBecomeABoundCardAndRollbackTakesItBack(t *testing.T) {
	e := engineOn(t)
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow)
	_, err := e.Plan(context.Background(), a, nil)
	var stop *workflow.Error
	require.ErrorAs(t, err, &stop)
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	x, err := e.Examine(context.Background(), s, s.Kinds[0], e.OfferImage(s, s.Kinds[0], a.Devices[0].Image.Reference), nil)
	require.NoError(t, err)
	require.Len(t, x.Licences, 1)
	require.Equal(t, licenceText, x.Licences[0].Text)
	for _, l := range x.Licences {
		a.Licences = append(a.Licences, answers.Licence{ID: l.ID, Digest: l.Digest, Accepted: true, By: "ops@example.com"})
	}
	p, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, p.Missing)
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	require.Len(t, sum.Devices, 1)
	require.True(t, sum.Devices[0].OK)
	link, err := e.Node.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
	require.NoError(t, err)
	require.Equal(t, "e100", filepath.Base(link))

	again, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, again.Steps, "a second time there is nothing to do")

	st, err := e.Status(context.Background())
	require.NoError(t, err)
	require.Len(t, st.Drivers, 1)
	require.True(t, st.Drivers[0].Loaded)

	rm, err := e.PlanRemove(context.Background(), st.Drivers[0].Name)
	require.NoError(t, err)
	require.NotEmpty(t, rm.Steps)
	code = run.Execute(context.Background(), e.Node, run.Dir(e.StateDir(), "2026-1130-01"), workflow.Kinds(), run.Options{Mode: journal.ModeRollback})
	require.Equal(t, 0, code)
	events, err := journal.Read(e.Node.Path(run.Dir(e.StateDir(), "2026-1130-01")))
	require.NoError(t, err)
	require.Empty(t, journal.Summarise(events).Devices, "nothing is said of a device that is bound no more")
	_, err = e.Node.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
	require.Error(t, err)
	require.False(t, e.Node.Exists("/run/fitout/tree"))
}

// A removal deletes what a rollback would need: there is no way back from it,
// nor from the run whose driver it took.
func TestRemovalIsNotRolledBack(t *testing.T) {
	e := engineOn(t)
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow)
	a = accepting(a, "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, _ := execute(t, e, p)
	require.Equal(t, 0, code)
	rm, err := e.PlanRemove(t.Context(), p.Drivers[0].Name)
	require.NoError(t, err)
	code, sum := execute(t, e, rm)
	require.Equal(t, 0, code, "%+v", sum)
	for _, of := range []string{"2026-1130-01", "2026-1130-02"} {
		_, err = e.RollbackText(t.Context(), of)
		require.ErrorIs(t, err, run.ErrFinal, of)
		require.Equal(t, workflow.ExitForbidden, run.Execute(t.Context(), e.Node, run.Dir(e.StateDir(), of), workflow.Kinds(), run.Options{Mode: journal.ModeRollback}))
	}
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, st.Drivers)
}

// An image that was looked at or installed before another came lies in the store:
// with the last driver it goes too.
func TestRemovalLeavesNoImageOfAnEarlierVersion(t *testing.T) {
	e := engineOn(t)
	newer := driverImage(t, nodes.Release, nodes.Release, "e100")
	_, err := e.Plan(t.Context(), accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100", "mii"), answers.LoadNow), "e100"), nil)
	require.NoError(t, err)
	carryOut(t, e, accepting(answersFor(newer, answers.LoadNow), "e100"))
	require.Len(t, e.Node.Glob(e.StateDir()+"/store/*"), 2)
	require.NotEmpty(t, e.Node.Glob(e.StateDir()+"/cache/*"))
	rm, err := e.PlanRemove(t.Context(), "e100")
	require.NoError(t, err)
	code, sum := execute(t, e, rm)
	require.Equal(t, 0, code, "%+v", sum)
	require.False(t, e.Node.Exists(e.StateDir()+"/store"))
	require.False(t, e.Node.Exists(e.StateDir()+"/cache"))
}

// Undoing an unload brings back the build that fitout had loaded, which the
// kernel's own tree does not have; loading again leaves the driver kept.
func TestUnloadIsUndoneAndLoadLeavesADriverKept(t *testing.T) {
	e := engineOn(t)
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNowPersist)
	a = accepting(a, "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, _ := execute(t, e, p)
	require.Equal(t, 0, code)
	bound := func() bool {
		link, err := e.Node.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
		return err == nil && filepath.Base(link) == "e100"
	}
	unload, err := e.PlanUnload(t.Context(), "e100")
	require.NoError(t, err)
	code, sum := execute(t, e, unload)
	require.Equal(t, 0, code, "%+v", sum)
	require.False(t, bound())
	again, err := e.PlanAgain(t.Context(), "e100", answers.LoadNow)
	require.NoError(t, err)
	require.Equal(t, answers.LoadNowPersist, again.Drivers[0].When)
	require.Equal(t, 0, run.Execute(t.Context(), e.Node, run.Dir(e.StateDir(), sum.Run), workflow.Kinds(), run.Options{Mode: journal.ModeRollback}))
	require.True(t, bound())
}

// A parameter that somebody changed by hand is what the record says again, and a
// reload that is undone leaves the module as it was.
func TestReloadTakesTheDriverAwayAndLoadsItAgain(t *testing.T) {
	e := engineOn(t)
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNowPersist), "e100")
	a.Devices[0].Parameters = map[string][]string{"e100": {"debug=3"}}
	carryOut(t, e, a)
	before, err := run.Installed(e.Node, e.StateDir())
	require.NoError(t, err)
	const parameter = "/sys/module/e100/parameters/debug"
	require.NoError(t, e.Node.WriteFile(parameter, []byte("9\n"), 0o644))

	p, err := e.PlanReload(t.Context(), "e100")
	require.NoError(t, err)
	var steps []string
	for _, s := range p.Steps {
		steps = append(steps, s.ID)
	}
	require.Less(t, slices.Index(steps, "unload"), slices.Index(steps, "load"), "%v", steps)
	require.Contains(t, steps, "unload")
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	value, err := e.Node.ReadString(parameter)
	require.NoError(t, err)
	require.Equal(t, "3", value)
	link, err := e.Node.Readlink("/sys/bus/pci/devices/0000:05:00.0/driver")
	require.NoError(t, err)
	require.Equal(t, "e100", filepath.Base(link))
	after, err := run.Installed(e.Node, e.StateDir())
	require.NoError(t, err)
	require.Equal(t, before[0].Driver.Replaced, after[0].Driver.Replaced, "it does not replace itself")
	require.Equal(t, answers.LoadNowPersist, after[0].Driver.When)

	require.Equal(t, 0, run.Execute(t.Context(), e.Node, run.Dir(e.StateDir(), sum.Run), workflow.Kinds(), run.Options{Mode: journal.ModeRollback}))
	require.True(t, e.Node.Exists(parameter))
}

// A driver stays the one it is when the catalog that had its entry is not there
// any more: a second one for the same cards would outlive its removal.
func TestLoadAndPersistKeepTheNameOfADriverWithoutEntry(t *testing.T) {
	e := engineOn(t)
	entries := e.Catalog
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "vendor-net", Modules: []string{"e100"}, Replaces: []string{"eepro100"},
		Images: []catalog.Mapping{{Kernel: ".*", Reference: driverImage(t, nodes.Release, nodes.Release, "e100")}}}}}
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "vendor-net", When: answers.LoadNow}}
	a.AcceptRisks = []string{"unsure-verdict"}
	carryOut(t, e, a)
	e.Catalog = entries
	for _, when := range []answers.When{answers.LoadNowPersist, answers.LoadNow} {
		p, err := e.PlanAgain(t.Context(), "vendor-net", when)
		require.NoError(t, err)
		require.Equal(t, "vendor-net", p.Drivers[0].Name)
		code, sum := execute(t, e, p)
		require.Equal(t, 0, code, "%+v", sum)
	}
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, st.Drivers, 1)
	require.Empty(t, st.Drivers[0].Drift)
}

func TestModulesOfAnotherFlavourAreRefusedBeforeAnythingChanges(t *testing.T) {
	e := engineOn(t)
	_, err := e.Plan(context.Background(), answersFor(driverImage(t, "6.1.0-57-rt-amd64", nodes.Release, "mii"), answers.LoadNow), nil)
	var stop *workflow.Error
	require.ErrorAs(t, err, &stop)
	require.NotEqual(t, workflow.ExitDone, stop.Exit)
}

// Taking a driver away asks for the same risks as putting one in: its interface
// may carry what the operator works over.
func TestRemovalOfADriverInUseNeedsTheNamedRisk(t *testing.T) {
	e := engineOn(t)
	a := answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow)
	a.Licences = []answers.Licence{{ID: "e100", Digest: "sha256:492b20af2408440655ce508c9bebf3c10bd569897ad934776969fc7703dd24c8", Accepted: true}}
	p, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	code, _ := execute(t, e, p)
	require.Equal(t, 0, code)

	free, err := e.PlanRemove(context.Background(), "e100")
	require.NoError(t, err)
	require.Empty(t, free.Missing)

	dev, err := e.Node.Readlink("/sys/bus/pci/devices/" + card.Address)
	require.NoError(t, err)
	net := "/sys/bus/pci/devices/" + dev + "/net/eth0"
	require.NoError(t, e.Node.WriteFile(net+"/operstate", []byte("up\n"), 0o644))
	require.NoError(t, e.Node.WriteFile(net+"/flags", []byte("0x1003\n"), 0o644))
	require.NoError(t, e.Node.Symlink(strings.Replace(dev, "../../../", "../../", 1)+"/net/eth0", "/sys/class/net/eth0"))
	for _, lay := range []func(context.Context, string) (*plan.Plan, error){e.PlanRemove, e.PlanUnload} {
		used, err := lay(context.Background(), "e100")
		require.NoError(t, err)
		require.Equal(t, []string{"in-use"}, used.Missing)
	}
}

// Somebody loaded this very build before: nothing is loaded, nothing taken away.
func TestDriverInUseAlreadyIsOnlyCheckedAndRecorded(t *testing.T) {
	e := engineOn(t)
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100")
	for _, m := range []string{"mii", "e100"} {
		f, err := os.Open("../testdata/modules/" + nodes.Release + "/" + m + ".ko")
		require.NoError(t, err)
		require.NoError(t, e.Node.Kernel.LoadModule(f, ""))
		f.Close()
	}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	var ids []string
	for _, s := range p.Steps {
		ids = append(ids, s.ID)
	}
	require.Equal(t, []string{"fetch", "bind", "verify", "record"}, ids)
	require.Empty(t, p.Drivers[0].Replaced, "there is nothing to bring back")
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	require.True(t, sum.Devices[0].OK)
}

// What is kept and not loaded comes into use with a restart: a step where the
// answers allow it, and something to ask for where they say ask.
func TestRestartIsAStepOrAskedForAsTheAnswersSay(t *testing.T) {
	for reboot, want := range map[string]struct {
		step  bool
		asked []string
	}{"": {}, "never": {}, "ask": {asked: []string{"e100"}}, "if-needed": {step: true}} {
		e := engineOn(t)
		require.NoError(t, e.Node.WriteFile("/etc/local.d/README", []byte("run at boot: *.start\n"), 0o644))
		a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.Persist), "e100")
		a.Limits.Reboot = reboot
		p, err := e.Plan(t.Context(), a, nil)
		require.NoError(t, err)
		require.Equal(t, want.step, slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.ID == "reboot" }), reboot)
		require.Equal(t, want.asked, p.Restart, reboot)
		require.Equal(t, !want.step, len(p.Skipped) > 0, "what waits for a boot is said: %v", p.Skipped)
	}
}

// An image given by hand has no catalog entry that names what it replaces.
func TestAnotherBuildOfAnImageGivenByHandLeavesFirst(t *testing.T) {
	e := engineOn(t)
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100")
	f, err := os.Open("../testdata/modules/" + nodes.Release + "/e100.ko")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, e.Node.Kernel.LoadModule(f, ""))
	note := "/sys/module/e100/notes/.note.gnu.build-id"
	require.NoError(t, e.Node.WriteFile(note, []byte("\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd"), 0o644))
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"e100"}, p.Drivers[0].Replaced)
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, "%+v", sum)
	now, err := e.Node.ReadString(note)
	require.NoError(t, err)
	require.NotContains(t, now, "\xab\xcd")

	// Of what was there before, the kernel's own tree has mii alone.
	record := e.StateDir() + "/drivers/e100.json"
	text, err := e.Node.ReadString(record)
	require.NoError(t, err)
	changed := regexp.MustCompile(`"replaced":\s*\[[^]]*\]`).ReplaceAllString(text, `"replaced":["mii","e100"]`)
	require.NotEqual(t, text, changed)
	require.NoError(t, e.Node.WriteFile(record, []byte(changed), 0o600))
	rm, err := e.PlanRemove(t.Context(), "e100")
	require.NoError(t, err)
	require.Equal(t, []string{"e100 was loaded before the driver came and does not come back: " + nodes.Release + " has no such module of its own"}, rm.Skipped)
	i := slices.IndexFunc(rm.Steps, func(s plan.Step) bool { return s.ID == "restore" })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, "load mii", rm.Steps[i].Action.Describe().Title)
}

func TestWhatIsInstalledNeedsItsStickNoMore(t *testing.T) {
	e := engineOn(t)
	ref := driverImage(t, nodes.Release, nodes.Release, "e100")
	a := answersFor(ref, answers.LoadNow)
	a.Licences = []answers.Licence{{ID: "e100", Digest: "sha256:492b20af2408440655ce508c9bebf3c10bd569897ad934776969fc7703dd24c8", Accepted: true}}
	p, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	code, _ := execute(t, e, p)
	require.Equal(t, 0, code)

	require.NoError(t, os.RemoveAll(strings.TrimSuffix(strings.TrimPrefix(ref, "oci:"), ":1")))
	again, err := e.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.Empty(t, again.Steps)
}
