package strict

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type form struct {
	APIVersion string              `yaml:"apiVersion"`
	Devices    []rule              `yaml:"devices,omitempty"`
	Licences   []licence           `yaml:"licences,omitempty"`
	Pins       map[string]string   `yaml:"pins,omitempty"`
	Parameters map[string][]string `yaml:"parameters,omitempty"`
	Hidden     string              `yaml:"-"`
}

type rule struct {
	Match match  `yaml:"match"`
	When  string `yaml:"when"`
}

type match struct {
	ID        string `yaml:"id,omitempty"`
	Subsystem string `yaml:"subsystem,omitempty"`
	Class     string `yaml:"class,omitempty"`
	Count     *count `yaml:"count,omitempty"`
}

type count struct {
	Min int  `yaml:"min"`
	Max *int `yaml:"max,omitempty"`
}

type licence struct {
	ID       string    `yaml:"id"`
	Accepted bool      `yaml:"accepted"`
	At       time.Time `yaml:"at,omitempty"`
}

func (f *form) Check(r *Report) {
	for i, d := range f.Devices {
		if d.When != "" && d.When != "now" {
			r.Bad([]any{"devices", i, "when"}, "when must be now, not %q", d.When)
		}
	}
}

func TestEverythingWrongIsSaidAtOnceWithItsPlace(t *testing.T) {
	const file = `apiVersion: fitout/v1
apiVersion: fitout/v1
devcies: []
devices:
  - match:
      id: "8086:10d3"
      sybsystem: "*"
      slot: 0000:17:00.0
      class: 0200
      count: {min: many}
    when: later
  - when: now
  - just text
license: []
licences:
  - {id: x, accepted: "yes", at: yesterday}
pins:
  6.1: {a: b}
parameters: {e1000e: IntMode=1}
metadata: ~
`
	const want = `answers.yaml:2:1: the key "apiVersion" is there twice
    2 | apiVersion: fitout/v1
answers.yaml:3:1: unknown key "devcies" (did you mean "devices"?)
    3 | devcies: []
answers.yaml:7:7: unknown key "sybsystem" under devices[0].match (did you mean "subsystem"?)
    7 |       sybsystem: "*"
answers.yaml:8:7: unknown key "slot" under devices[0].match (known here: id, subsystem, class, count)
    8 |       slot: 0000:17:00.0
answers.yaml:9:14: devices[0].match.class must be text: write it in quotes, "0200"
    9 |       class: 0200
answers.yaml:10:20: devices[0].match.count.min must be a whole number, not "many"
   10 |       count: {min: many}
answers.yaml:11:11: when must be now, not "later"
   11 |     when: later
answers.yaml:12:5: the key "match" is missing under devices[1]
   12 |   - when: now
answers.yaml:13:5: devices[2] must be a table of keys, not "just text"
   13 |   - just text
answers.yaml:14:1: unknown key "license" (did you mean "licences"?)
   14 | license: []
answers.yaml:16:23: licences[0].accepted must be true or false, not "yes"
   16 |   - {id: x, accepted: "yes", at: yesterday}
answers.yaml:16:34: licences[0].at must be a time like 2026-11-30T14:01:12Z
   16 |   - {id: x, accepted: "yes", at: yesterday}
answers.yaml:18:3: the key "6.1" under pins must be text: write it in quotes
   18 |   6.1: {a: b}
answers.yaml:19:22: parameters.e1000e must be a list, not "IntMode=1"
   19 | parameters: {e1000e: IntMode=1}
answers.yaml:20:1: unknown key "metadata" (known here: apiVersion, devices, licences, pins, parameters)
   20 | metadata: ~`
	var f form
	err := Decode("answers.yaml", []byte(file), &f)
	require.EqualError(t, err, want)
	require.Equal(t, "8086:10d3", f.Devices[0].Match.ID, "what is right is read all the same")
}

func TestAKeyInTheWrongTableIsPointedToItsOwn(t *testing.T) {
	for file, want := range map[string]string{
		"apiVersion: x\nsubsystem: y\n":                                      `did you mean "subsystem", which belongs under devices.match?`,
		"apiVersion: x\ndevices:\n- {when: now, match: {licence: y}}\n":      `did you mean "licences", at the top of the file?`,
		"apiVersion: x\ndevices:\n- {when: now, match: {}, acepted: true}\n": `did you mean "accepted", which belongs under licences?`,
	} {
		require.ErrorContains(t, Decode("f", []byte(file), &form{}), want)
	}
}

func TestKeysWithoutAValueAreRefused(t *testing.T) {
	for _, file := range []string{
		"apiVersion: x\ndevices:\n", "apiVersion: x\npins: null\n", "apiVersion: ~\n", "apiVersion: x\npins: {a: }\n",
	} {
		require.ErrorContains(t, Decode("f", []byte(file), &form{}), "has no value: leave the key out", file)
	}
}

func TestWhatIsNotOnePlainDocumentIsRefused(t *testing.T) {
	for file, want := range map[string]string{
		"":                               "f:1:1: the file is empty",
		"# only this\n":                  "f:1:1: the file is empty",
		"~\n":                            "f:1:1: the file is empty",
		"a: b: c\n":                      "f:1:1: this is not YAML: mapping values are not allowed in this context",
		"a: [\n":                         "this is not YAML:",
		"apiVersion: x\n---\nb: c\n":     "f:2:1: a second document begins here",
		"- a\n":                          "the file must be a table of keys, not a list",
		"apiVersion: &a x\n":             "apiVersion uses an anchor or alias",
		"apiVersion: &a x\npins: *a\n":   "pins uses an anchor or alias",
		"apiVersion: \"\x01\"\n":         "this is not YAML: control characters are not allowed",
		"apiVersion: x\n<<: {pins: 1}\n": `unknown key "<<"`,
		strings.Repeat("#", maxSize+1):   "larger than 4 MiB",
		"apiVersion: x\npins: " + strings.Repeat("{a: ", 90) + "1" + strings.Repeat("}", 90): "pins.a must be text, not a table of keys",
	} {
		require.ErrorContains(t, Decode("f", []byte(file), &form{}), want)
	}
}

// A file that was named by mistake neither floods nor steers the terminal.
func TestTheLineThatIsShownIsShortAndHasNoControlCharacters(t *testing.T) {
	err := Decode("f", make([]byte, maxSize+1), &form{})
	require.Less(t, len(err.Error()), 300)
	require.NotContains(t, err.Error(), "\x00")
	require.ErrorContains(t, Decode("f", []byte("a: \"\x1b[2J\"\n"), &form{}), `    1 | a: "?[2J"`)
	require.Less(t, len(Decode("f", []byte("foo: "+strings.Repeat("x", 1<<20)), &form{}).Error()), 500)
}

func TestOfTwoProblemsAtOnePlaceTheFirstIsSaid(t *testing.T) {
	err := Decode("f", []byte("apiVersion: x\ndevices:\n- {match: {}, when: [later]}\n- {match: {}}\n"), &form{})
	require.Len(t, err.(*Errors).Problems, 2)
}

func TestNearest(t *testing.T) {
	known := []string{"load-now", "persist", "unverified-entry", "in-use"}
	for given, want := range map[string]string{
		"lod-now": "load-now", "loadnow": "load-now", "presist": "persist", "unverified_entry": "unverified-entry",
		"PERSIST": "persist", "inuse": "in-use", "reboot": "", "": "", "x": "",
	} {
		require.Equal(t, want, Nearest(given, known), given)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: x\ndevices:\n- {match: {id: a}, when: now}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v form
		if err := Decode("f", data, &v); err != nil {
			require.NotEmpty(t, err.(*Errors).Problems)
			require.NotEmpty(t, err.Error())
		}
	})
}
