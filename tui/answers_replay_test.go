package tui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// stand is the node that an answers file is for, and what its names stand for
// here: the image on the stick, the digest that it was reviewed at.
type stand struct {
	cards   []nodes.Card
	files   map[string]string // on the node
	drivers []catalog.Driver
	names   map[string]string // in the answers file
}

// The cards that the files speak of.
func card(address, id, subsystem, class string) nodes.Card {
	return nodes.Card{Address: address, ID: id, Subsystem: subsystem, Class: class}
}

// entry is a catalog driver whose image has those modules, and the digest of it.
func entry(t *testing.T, name, match string, modules ...string) (catalog.Driver, string) {
	t.Helper()
	files := map[string][]byte{}
	for _, m := range modules {
		files[m+".ko"] = moduleFile(t, m+".ko")
	}
	img := packed(t, files)
	digest, err := img.Digest()
	require.NoError(t, err)
	d := catalog.Driver{Name: name, Modules: modules, Images: []catalog.Mapping{{Kernel: ".+", Reference: layoutOf(t, img)}}}
	if match != "" {
		d.Match, d.Licence = []string{match}, &catalog.Licence{ID: name, File: "licenses/LICENSE"}
	}
	return d, digest.String()
}

// stands are the nodes of the files, by the file's name.
func stands(t *testing.T) map[string]stand {
	t.Helper()
	e100, digest := entry(t, "intel-e100", "pci:v00008086d00001229*", "e100")
	ne2k, _ := entry(t, "realtek-ne2k", "pci:v000010ECd00008029*", "ne2k-pci", "8390")
	dummy, _ := entry(t, "virtual-net", "", "dummy")
	stick := filepath.Join(t.TempDir(), "drivers.tar")
	require.NoError(t, images.WriteOCIArchive(packed(t, map[string][]byte{"e100.ko": moduleFile(t, "e100.ko")}), stick, "1"))
	net := card("0000:05:00.0", "8086:1229", "8086:0001", "020000")
	return map[string]stand{
		"network-worker": {cards: []nodes.Card{nodes.Disk, net}, drivers: []catalog.Driver{e100},
			names: map[string]string{"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae": digest}},
		// A node of a cluster that cannot be asked whether it is in maintenance.
		"image-from-a-stick": {cards: []nodes.Card{nodes.Disk, net}, files: map[string]string{"/etc/rancher/rke2/config.yaml": "server: https://127.0.0.1:1\n"},
			names: map[string]string{"/media/stick/drivers.tar": stick}},
		"no-device": {cards: []nodes.Card{nodes.Disk}, drivers: []catalog.Driver{dummy}},
		"one-of-two-cards": {drivers: []catalog.Driver{ne2k}, cards: []nodes.Card{nodes.Disk,
			card("0000:17:00.0", "10ec:8029", "10ec:8029", "020000"), card("0000:18:00.0", "10ec:8029", "10ec:8029", "020000"),
			card("10000:00:04.0", "10ec:8029", "10ec:8029", "020000"), card("0000:00:02.0", "1234:1111", "1af4:1100", "030000")}},
		"smallest": {cards: []nodes.Card{nodes.Disk, net}, drivers: []catalog.Driver{e100}},
	}
}

// engine is the engine on a fresh node of that kind.
func (s stand) engine(t *testing.T) *workflow.Engine {
	t.Helper()
	e := engineOn(t, nodes.Build(t, s.cards...))
	e.Catalog.Drivers = s.drivers
	for name, text := range s.files {
		require.NoError(t, e.Node.WriteFile(name, []byte(text), 0o644))
	}
	return e
}

// answers reads the file with what its names stand for.
func (s stand) answers(t *testing.T, file string) *answers.Answers {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, here := range s.names {
		data = bytes.ReplaceAll(data, []byte(name), []byte(here))
	}
	a, err := answers.Read(file, data)
	require.NoError(t, err)
	return a
}

// TestEveryAnswersFileGivesTheSamePlanOnScreensInLinesAndHeadless begins the
// wizard and line mode from each file and goes through all their questions as
// one who wants what it says: both offer the plan that headless makes of it, and
// save the file again.
func TestEveryAnswersFileGivesTheSamePlanOnScreensInLinesAndHeadless(t *testing.T) {
	files, err := filepath.Glob("../testdata/answers/*.yaml")
	require.NoError(t, err)
	nodesOf := stands(t)
	require.Len(t, files, len(nodesOf), "every file has its node")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			s := nodesOf[name]
			a := s.answers(t, file)
			headless, err := s.engine(t).Plan(context.Background(), a, nil)
			require.NoError(t, err)
			require.Empty(t, headless.Missing)
			want := told{plan: headless}
			screens := newPerson(t, s.engine(t), a, a).onScreens(s.engine(t))
			lines := newPerson(t, s.engine(t), a, a).inLines(s.engine(t))
			require.Equal(t, want.lines(), screens.lines())
			require.Equal(t, want.lines(), lines.lines())
			if len(headless.Steps) > 0 {
				require.Equal(t, asFile(t, headless.Answers), asFile(t, screens.saved))
				require.Equal(t, asFile(t, headless.Answers), asFile(t, lines.saved))
			}
		})
	}
}

// asFile is an answers file without who wrote it, defaults written out.
func asFile(t *testing.T, a *answers.Answers) string {
	t.Helper()
	b := *a
	b.Metadata = answers.Metadata{}
	if b.Maintenance == "" {
		b.Maintenance = "required"
	}
	data, err := answers.Marshal(&b)
	require.NoError(t, err)
	return string(data)
}

// TestChoicesOfEveryAnswersFileAreMadeByHand makes the choices of each file from
// nothing, key by key and line by line. What pages ask for comes out the same
// for every device; what none asks for is left out of the file first.
func TestChoicesOfEveryAnswersFileAreMadeByHand(t *testing.T) {
	nodesOf := stands(t)
	for name, s := range nodesOf {
		t.Run(name, func(t *testing.T) {
			a := s.answers(t, "../testdata/answers/"+name+".yaml")
			a.Drivers, a.OSTag, a.Limits, a.Secrets = nil, "", answers.Limits{}, answers.Secrets{}
			for i := range a.Devices {
				a.Devices[i].Pins, a.Devices[i].Parameters = nil, nil
			}
			headless, err := s.engine(t).Plan(context.Background(), a, nil)
			require.NoError(t, err)
			sameByHand(t, s.engine, a, told{plan: headless, saved: headless.Answers})
		})
	}
}

// sameByHand makes choices from nothing both ways on fresh nodes, and holds that
// both lead to the same answers and to the plan that is wanted.
func sameByHand(t *testing.T, node func(*testing.T) *workflow.Engine, a *answers.Answers, want told) {
	t.Helper()
	screens := newPerson(t, node(t), a, nil).onScreens(node(t))
	lines := newPerson(t, node(t), a, nil).inLines(node(t))
	require.Equal(t, screens.lines(), lines.lines(), "screens and lines offer the same plan")
	require.Equal(t, planned(want), planned(screens), "the plan is the one of headless")
	require.Equal(t, screens.saved == nil, lines.saved == nil)
	if screens.saved == nil {
		return
	}
	for i := range screens.saved.Licences { // when it was accepted
		lines.saved.Licences[i].At = screens.saved.Licences[i].At
	}
	require.Equal(t, screens.saved, lines.saved, "screens and lines save the same answers")
	e := node(t)
	require.Equal(t, meaning(t, e, want.saved), meaning(t, e, screens.saved))
	again, err := e.Plan(context.Background(), screens.saved, nil)
	require.NoError(t, err)
	require.Equal(t, screens.lines(), told{plan: again}.lines(), "what was saved plans the same headless")
}

// planned is the plan without the remarks on what is left alone, which name the
// rule they come from.
func planned(o told) []string {
	if o.err != nil {
		return []string{o.err.Error()}
	}
	p := *o.plan
	p.Skipped = nil
	return told{plan: &p}.lines()
}

// meaning says for every device what the answers do with it.
func meaning(t *testing.T, e *workflow.Engine, a *answers.Answers) map[string]string {
	t.Helper()
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	out, taken := map[string]string{}, map[int]bool{}
	for _, r := range a.Devices {
		for _, at := range s.Matching(r.Match, taken) {
			taken[at] = true
			address := s.Devices[at].Address
			if r.When == answers.Leave || r.Except != nil && slices.ContainsFunc(r.Except.Slots, func(slot string) bool { return slot == address || "0000:"+slot == address }) {
				continue
			}
			what, missing := r.Driver, ""
			if r.Image != nil {
				what = r.Image.Reference
			}
			if strings.Contains(string(r.When), "persist") {
				missing = r.OnMissingModule
			}
			out[address] = fmt.Sprint(what, " ", r.When, " ", missing)
		}
	}
	return out
}

// renumbered is a real module that lists the card of a modalias instead of one
// of its own.
func renumbered(t *testing.T, module, own, modalias string) []byte {
	t.Helper()
	data := moduleFile(t, module)
	ids, class, ok := strings.Cut(modalias, "sv")
	require.True(t, ok, modalias)
	class = class[strings.Index(class, "bc"):] // bc02sc00i00
	alias := ids + "sv*sd*" + class[:4] + "sc*i*"
	if len(alias) > len(own) {
		alias = ids + "sv*sd*bc*sc*i*"
	}
	alias += strings.Repeat("*", len(own)-len(alias))
	require.Equal(t, 1, bytes.Count(data, []byte("alias="+own+"\x00")), own)
	return bytes.Replace(data, []byte("alias="+own), []byte("alias="+alias), 1)
}

// TestSameChoicesOnEveryRecordedNodeByHand puts the hardware of every recorded
// node under the engine and serves its first kind of devices from the catalog,
// leaves the second alone and serves the third from an image given by hand, on
// the screens and line by line.
func TestSameChoicesOnEveryRecordedNodeByHand(t *testing.T) {
	for _, name := range nodes.Names() {
		t.Run(name, func(t *testing.T) {
			node := func(t *testing.T) *workflow.Engine { return engineOn(t, nodes.Furnish(t, name)) }
			survey, err := node(t).Survey(context.Background())
			require.NoError(t, err)
			a := answers.Default()
			a.AcceptRisks = answers.RiskNames()
			var drivers []catalog.Driver
			for i, k := range survey.Kinds[:min(3, len(survey.Kinds))] {
				alias := survey.Devices[k.Devices[0]].Modalias
				r := answers.Rule{Match: answers.Match{ID: k.ID, Subsystem: k.Subsystem}, When: answers.Leave}
				switch i {
				case 0:
					img := packed(t, map[string][]byte{"e100.ko": renumbered(t, "e100.ko", "pci:v00008086d000027DCsv*sd*bc02sc00i*", alias)})
					drivers = append(drivers, catalog.Driver{Name: "vendor", Match: []string{alias}, Modules: []string{"e100"},
						Images: []catalog.Mapping{{Kernel: ".+", Reference: layoutOf(t, img)}}})
					r.Driver, r.When, r.OnMissingModule = "vendor", answers.LoadNowPersist, "continue"
				case 2:
					img := packed(t, map[string][]byte{"8390.ko": moduleFile(t, "8390.ko"), "ne2k-pci.ko": renumbered(t, "ne2k-pci.ko", "pci:v00008C4Ad00001980sv*sd*bc*sc*i*", alias)})
					r.Image, r.When = &answers.Image{Reference: layoutOf(t, img)}, answers.LoadNow
				}
				a.Devices = append(a.Devices, r)
			}
			sum := sha256.Sum256([]byte("You may use this driver.\n"))
			a.Licences = []answers.Licence{{ID: "vendor", Digest: "sha256:" + hex.EncodeToString(sum[:]), Accepted: true, By: "ops@example.com"}}
			with := func(t *testing.T) *workflow.Engine { e := node(t); e.Catalog.Drivers = drivers; return e }
			p, err := with(t).Plan(context.Background(), a, nil)
			require.NoError(t, err)
			require.NotEmpty(t, p.Steps)
			a.AcceptRisks = p.Risks // those that this node asks for
			p, err = with(t).Plan(context.Background(), a, nil)
			require.NoError(t, err)
			sameByHand(t, with, a, told{plan: p, saved: p.Answers})
		})
	}
}
