package answers

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/catalog/strict"
	"fitout/hostops"
	"fitout/hostops/pci"
	"fitout/workflow/finding"
)

func golden(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../testdata/answers/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		all[filepath.Base(f)] = data
	}
	return all
}

func TestWhatIsWrittenIsReadAndWrittenTheSameAgain(t *testing.T) {
	for name, data := range golden(t) {
		a, err := Read(name, data)
		require.NoError(t, err)
		out, err := Marshal(a)
		require.NoError(t, err)
		require.Equal(t, string(data), string(out), name)
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// random makes answers of everything a wizard can choose.
func random(r *rand.Rand) *Answers {
	a := Default()
	a.Metadata = Metadata{Name: pick(r, "", "gpu-worker", "yes", "007", "a: b # c", "Ä\u2028ö", " x "), SavedBy: pick(r, "", "fitout 0.1.0")}
	a.Maintenance = pick(r, "", "required", "enter", "skip")
	a.OnUnanswered = pick(r, "", "leave", "fail")
	a.OSTag = pick(r, "", "rhel9", "22.04", "1e3")
	for range r.IntN(4) {
		rule := Rule{Match: Match{ID: pick(r, "8086:10d3", "1e10:0000", "15b3:*", "0000:0123"), Subsystem: pick(r, "", "*", "8086:a01f"), Class: pick(r, "", "0200", "03")}}
		if r.IntN(2) == 0 {
			two := 2
			rule.Match.Count = &Count{Min: r.IntN(3), Max: pick(r, nil, &two)}
		}
		rule.When = pick(r, LoadNow, AtBoot, Persist, LoadNowAtBoot, LoadNowPersist, Leave)
		if rule.When != Leave {
			if r.IntN(2) == 0 {
				rule.Driver = pick(r, "intel-e1000e", "1e3", "null", "0x1")
			} else {
				rule.Image = &Image{pick(r, "r.example:5000/d:1", "oci:/srv/d", "/srv/d.tar")}
			}
			rule.PersistIn, rule.OnMissingModule = pick(r, "", "auto", "side-tree", "os-image"), pick(r, "", "stop", "continue")
			rule.Pins = pick(r, nil, map[string]string{}, map[string]string{"6.12.117+deb12-amd64": "sha256:" + strings.Repeat("0a", 32), "6.1": "sha256:" + strings.Repeat("00", 32)})
			rule.Parameters = pick(r, nil, map[string][]string{"m": {`a="x, y;z"`, "b", "c=é"}}, map[string][]string{"m": {}})
		}
		if r.IntN(4) == 0 {
			a.NodeBound, rule.Except = true, &Except{Slots: []string{pick(r, "0000:17:00.0", "17:00.0", "10000:00:04.0")}}
		}
		a.Devices = append(a.Devices, rule)
	}
	for range r.IntN(3) {
		l := Licence{ID: pick(r, "x", "no"), Digest: "sha256:" + strings.Repeat("cd", 32), Accepted: r.IntN(2) == 0, By: pick(r, "", "ops@example.com", "y")}
		if r.IntN(2) == 0 {
			l.At = time.Date(2026, 11, 30, 14, 1, 12, r.IntN(2)*5e8, pick(r, time.UTC, time.FixedZone("", 7200)))
		}
		a.Licences = append(a.Licences, l)
	}
	if r.IntN(2) == 0 {
		a.AcceptRisks = RiskNames()[:r.IntN(len(RiskNames()))]
		a.Drivers = []Extra{{Name: "drbd", When: pick(r, LoadNow, Persist)}}
		a.Secrets.RegistryAuth = &SecretRef{File: "/root/.docker/config.json"}
	}
	a.Limits = Limits{Timeout: pick(r, "", "30m", "1h30m"), Reboot: pick(r, "", "never", "ask", "if-needed")}
	return a
}

func TestEverythingAWizardCanChooseIsReadAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		out, err := Marshal(random(r))
		require.NoError(t, err)
		a, err := Read("answers.yaml", out)
		require.NoError(t, err, string(out))
		again, err := Marshal(a)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		require.NotContains(t, string(out), "null\n")
		require.NotContains(t, string(out), `: ""`)
	}
}

func TestWhatWouldNotBeReadAgainIsNotWritten(t *testing.T) {
	a := Default()
	a.Devices = []Rule{{Match: Match{ID: "8086:10D3"}, When: "now"}}
	_, err := Marshal(a)
	require.ErrorContains(t, err, `id cannot be "8086:10D3"`)
	require.ErrorContains(t, err, `when cannot be "now"`)
}

// All at once, each with its place and the nearest word; nothing is ignored.
func TestAMisspeltAnswerIsNotIgnored(t *testing.T) {
	const file = `apiVersion: fitout/v2
kind: Answer
maintenence: skip
onUnanswered: ignore
devices:
  - match: {id: 8086-10d3, subsystem: "8086:a1", class: "0x02", count: {min: 2, max: 1}}
    driver: e1000e
    image: {reference: "not a reference"}
    when: load-now+presist
    pins: {6.1.0-57-amd64: sha256:2c26}
    parameters: {e1000e: ["=1"]}
  - match: {}
    when: persist
  - match: {id: "8086:[1"}
    when: leave
    except: {slots: [eth0]}
drivers:
  - {name: drbd, when: leave}
licences:
  - {id: x, digest: sha256:abc, accepted: true}
  - {id: "", accepted: true}
acceptRisks: [unsigned-modul, all, in-use, in-use]
limits: {timeout: soon, reboot: maybe}
secrets:
  registryAuth: hunter2
`
	_, err := Read("a.yaml", []byte(file))
	var invalid *strict.Errors
	require.ErrorAs(t, err, &invalid)
	for _, want := range []string{
		`a.yaml:1:13: apiVersion cannot be "fitout/v2" (did you mean "fitout/v1"?)`,
		`a.yaml:2:7: kind cannot be "Answer" (did you mean "Answers"?)`,
		`a.yaml:3:1: unknown key "maintenence" (did you mean "maintenance"?)`,
		`a.yaml:4:15: onUnanswered cannot be "ignore"; it is one of leave, fail`,
		`a.yaml:6:17: id cannot be "8086-10d3"; it looks like 8086:10d3, with globs 8086:*`,
		`a.yaml:6:39: subsystem "8086:a1": an id has four digits, "a1" has 2`,
		`a.yaml:6:57: class cannot be "0x02"; it looks like 0200`,
		`a.yaml:6:86: count.max cannot be less than count.min`,
		`a.yaml:8:12: a rule has a driver or an image, not both`,
		`a.yaml:8:24: image reference "not a reference"`,
		`a.yaml:9:11: when cannot be "load-now+presist" (did you mean "load-now+persist"?)`,
		`a.yaml:10:28: 6.1.0-57-amd64 cannot be "sha256:2c26"; it looks like sha256: and 64`,
		`a.yaml:11:27: e1000e cannot be "=1"; it looks like IntMode=1`,
		`a.yaml:12:12: match names no device`,
		`a.yaml:13:11: a rule that does not say leave needs a driver`,
		`a.yaml:14:17: id cannot be "8086:[1"`,
		`a.yaml:16:13: except names slots of one node: add nodeBound: true`,
		`a.yaml:16:22: "eth0" is no PCI address`,
		`a.yaml:18:24: when cannot be "leave"; it is one of`,
		`a.yaml:20:21: digest cannot be "sha256:abc"`,
		`a.yaml:21:5: the key "digest" is missing under licences[1]`,
		`a.yaml:21:10: a licence needs its name (id)`,
		`a.yaml:22:15: acceptRisks cannot be "unsigned-modul" (did you mean "unsigned-module"?)`,
		`a.yaml:22:31: acceptRisks cannot be "all"; it is one of in-use,`,
		`a.yaml:22:44: the risk in-use is there twice`,
		`a.yaml:23:19: limits.timeout must be a duration like 30m`,
		`a.yaml:23:33: reboot cannot be "maybe"; it is one of never, ask, if-needed`,
		`a.yaml:25:17: secrets.registryAuth must be a table of keys, not "hunter2"`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, invalid.Problems, 28)
}

func TestEmptyValuesAreNotTakenForAnswers(t *testing.T) {
	for _, line := range []string{"maintenance: ''", "osTag: ''", "limits: {timeout: ''}", "limits: {reboot: ''}", "acceptRisks: ['']",
		"devices: ~", "devices: [{match: {id: ''}, when: leave}]", "devices: [{match: {id: '*:*'}, driver: '', when: persist}]"} {
		_, err := Read("a.yaml", []byte("apiVersion: fitout/v1\nkind: Answers\n"+line+"\n"))
		require.Error(t, err, line)
	}
}

func TestShortSlotsAreResolvedOnlyWhereOneDomainHasThem(t *testing.T) {
	devices := []pci.Device{{Address: "0000:17:00.0"}, {Address: "0001:04:00.0"}, {Address: "0002:04:00.0"}}
	got, err := (&Except{Slots: []string{"17:00.0", "0002:04:00.0"}}).Addresses(devices)
	require.NoError(t, err)
	require.Equal(t, []string{"0000:17:00.0", "0002:04:00.0"}, got)
	_, err = (&Except{Slots: []string{"04:00.0"}}).Addresses(devices)
	require.ErrorContains(t, err, "write 0001:04:00.0 or 0002:04:00.0")
	_, err = (&Except{Slots: []string{"0003:04:00.0"}}).Addresses(devices)
	require.ErrorContains(t, err, "no PCI function has the address")
}

func TestRiskNamesAreThoseOfTheTableOfFindings(t *testing.T) {
	require.Len(t, RiskNames(), len(finding.Risks))
	require.True(t, IsRisk("kabi-match"))
	require.False(t, IsRisk("all"))
}

func TestSavedAnswersAreNotForEverybody(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	require.NoError(t, Save(n, "/var/lib/fitout/answers.yaml", Default()))
	info, err := n.Stat("/var/lib/fitout/answers.yaml")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	require.Error(t, Save(n, "/x", &Answers{}))
	require.False(t, n.Exists("/x"))
}

func TestTheSchemaKnowsEveryKeyOfTheStruct(t *testing.T) {
	var s map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &s))
	properties := s["properties"].(map[string]any)
	require.Len(t, properties, 13)
	require.Equal(t, []any{"apiVersion", "kind"}, s["required"])
	rule := properties["devices"].(map[string]any)["items"].(map[string]any)
	require.Equal(t, []any{"match", "when"}, rule["required"])
	require.Equal(t, false, rule["additionalProperties"])
	require.Contains(t, rule["properties"].(map[string]any)["when"].(map[string]any)["enum"], "load-now+persist")
	for path := range choices {
		require.NotNil(t, at(s, path)["enum"], path)
	}
	for path := range patterns {
		require.NotNil(t, at(s, path)["pattern"], path)
	}
	described(t, s, "")
}

// at walks a schema along a path of keys, through lists and tables.
func at(s map[string]any, path string) map[string]any {
	for _, key := range strings.Split(path, ".") {
		s = through(s)["properties"].(map[string]any)[key].(map[string]any)
	}
	return through(s)
}

func through(s map[string]any) map[string]any {
	for {
		if items, ok := s["items"].(map[string]any); ok {
			s = items
		} else if more, ok := s["additionalProperties"].(map[string]any); ok {
			s = more
		} else {
			return s
		}
	}
}

func described(t *testing.T, s map[string]any, path string) {
	properties, _ := through(s)["properties"].(map[string]any)
	for key, p := range properties {
		require.NotEmpty(t, p.(map[string]any)["description"], path+key)
		described(t, p.(map[string]any), path+key+".")
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range golden(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Read("a.yaml", data)
		if err != nil {
			return
		}
		out, err := Marshal(a)
		require.NoError(t, err)
		b, err := Read("b.yaml", out)
		require.NoError(t, err)
		again, err := Marshal(b)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
	})
}
