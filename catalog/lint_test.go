package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func lintOf(t *testing.T, drivers string) []Problem {
	t.Helper()
	problems, err := Check("c.yaml", []byte(head+drivers))
	require.NoError(t, err)
	return problems
}

// The patterns are from published examples that do not do what they seem to.
func TestPatternsThatDoNotMeanWhatTheySay(t *testing.T) {
	for pattern, want := range map[string][]string{
		`^.+\fc37\.x86_64$`:   {`\f, which is a form feed`, "matches none of"}, // an example of KMM's documentation
		`^.*\.x86_64$`:        {},
		`5\.14`:               {"is not anchored"},
		`^5.14.0-.*$`:         {`the dot in "5.1" stands for any character`},
		`^.*\.el\d_?\d?\..*$`: {}, // Habana's: el10 is not its fault to the linter
		`^9\.9\.9-acme$`:      {"matches none of"},
	} {
		problems := lintOf(t, "- name: a\n  modules: [m]\n  images: [{kernel: '"+pattern+"', reference: 'r.example/d:${KERNEL_FULL_VERSION}'}]\n")
		require.Len(t, problems, len(want), "%s: %v", pattern, problems)
		for i, w := range want {
			require.Equal(t, "warning", problems[i].Severity)
			require.Contains(t, problems[i].Message, w)
			require.Equal(t, 7, problems[i].Line)
			require.Equal(t, 21, problems[i].Column)
		}
	}
}

func TestAMappingThatIsNeverReachedIsNamed(t *testing.T) {
	problems := lintOf(t, `- name: a
  modules: [m]
  images:
  - {kernel: '^6\.1\..*$', reference: 'r.example/d:${KERNEL_FULL_VERSION}'}
  - {literal: 6.1.0-54-amd64, reference: 'r.example/d:1'}
  - {kernel: '^6\.1\.0-57-amd64$', reference: 'r.example/d:${KERNEL_FULL_VERSION}'}
`)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].String(), `c.yaml:10:14: warning: ^6\.1\.0-57-amd64$ is never reached`)
	require.Contains(t, problems[0].String(), "   10 |   - {kernel: '^6")
}

func TestReferencesThatAreProbablyNotMeant(t *testing.T) {
	for reference, want := range map[string]string{
		"r.example/d":                          "has neither tag nor digest",
		"r.example:5000/d":                     "has neither tag nor digest",
		"r.example/d:1.0":                      "is the same for every kernel",
		"r.example/d:1-${KERNEL_FULL_VERSION}": "",
		"oci-archive:/srv/d.tar":               "",
		"r.example/d@sha256:0000000000000000000000000000000000000000000000000000000000000000": "",
	} {
		problems := lintOf(t, "- name: a\n  modules: [m]\n  images: [{kernel: '^6\\.1\\..*$', reference: '"+reference+"'}]\n")
		if want == "" {
			require.Empty(t, problems, reference)
			continue
		}
		require.Contains(t, problems[0].Message, want, reference)
	}
}

func TestWhatIsNotValidIsAnErrorAndTheRestIsStillLooked(t *testing.T) {
	problems := lintOf(t, "- name: a\n  modles: [m]\n  images: [{kernel: '5\\.14', reference: 'r.example/d:${KERNEL_FULL_VERSION}'}]\n- name: b\n  modules: []\n  images: [{literal: x, reference: 'r.example/d:1'}]\n")
	var text []string
	for _, p := range problems {
		text = append(text, p.Severity+" "+p.Message)
	}
	require.Contains(t, text, `error unknown key "modles" under drivers[0] (did you mean "modules"?)`)
	require.Contains(t, text[len(text)-2]+text[len(text)-1], "names no devices and no modules")
	require.Len(t, problems, 5)

	problems, err := Check("c.yaml", []byte("a: [\n"))
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Equal(t, "error", problems[0].Severity)
}
