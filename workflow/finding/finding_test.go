package finding

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The codes that the program's contract names; others may join.
var promised = []Code{
	"vermagic-flags", "symbol-crc", "symbol-missing", "struct-module-size", "unsigned", "key-not-enrolled", "lockdown",
	"modules-disabled", "selinux-label", "unsupported-flag", "dependency-missing", "firmware-missing", "parameter-unknown",
	"in-use", "lifeline", "in-initramfs", "builtin", "alias-missing", "no-space",
}

func TestEveryPromisedCodeIsExplained(t *testing.T) {
	for _, code := range promised {
		e, ok := Explain(code)
		require.True(t, ok, code)
		require.Equal(t, code, e.Code)
	}
	_, ok := Explain("no-such-code")
	require.False(t, ok)
}

func TestEveryCodeHasSentenceMeaningAndCure(t *testing.T) {
	machine := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[Code]bool{}
	for _, e := range Codes {
		require.Regexp(t, machine, string(e.Code))
		require.False(t, seen[e.Code], "%s stands twice", e.Code)
		seen[e.Code] = true
		require.NotEmpty(t, e.Sentence, e.Code)
		require.NotEmpty(t, e.Cure, e.Code)
		require.True(t, strings.HasSuffix(e.Meaning, "."), "%s: the meaning is whole sentences", e.Code)
		require.NotEmpty(t, e.Title, e.Code)
		require.LessOrEqual(t, len(e.Title), 60, "%s: a title fits a list at 80 columns", e.Code)
		require.GreaterOrEqual(t, rank(e.Severity), 0, e.Code)
		for _, text := range []string{e.Title, e.Sentence, e.Meaning, e.Cure} {
			require.True(t, isASCII(text), "%s: %q must print on any console", e.Code, text)
			require.NotContains(t, text, "  ", e.Code)
		}
	}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 126 || r < 32 })
}

// A risk can be accepted by its name, and there is no other way.
func TestEveryRiskHasAName(t *testing.T) {
	used := map[string]bool{}
	for _, e := range Codes {
		if e.Severity == Risk {
			require.NotEmpty(t, e.Risk, e.Code)
		}
		if e.Risk != "" {
			_, ok := RiskMeaning(e.Risk)
			require.True(t, ok, "%s names the risk %s", e.Code, e.Risk)
			used[e.Risk] = true
		}
	}
	require.True(t, slices.IsSortedFunc(Risks, func(a, b RiskEntry) int { return strings.Compare(a.Name, b.Name) }))
	for _, r := range Risks {
		require.True(t, used[r.Name], "no code can be accepted by %s", r.Name)
		require.NotEmpty(t, r.Accepting)
	}
	require.Len(t, Risks, 12)
	_, ok := RiskMeaning("all")
	require.False(t, ok)
}

func TestNamesAreFilledIn(t *testing.T) {
	for _, e := range Codes {
		n := strings.Count(e.Sentence, "%s")
		args := make([]any, n)
		for i := range args {
			args[i] = "NAME"
		}
		f := New(e.Code, args...)
		require.Equal(t, strings.ReplaceAll(e.Sentence, "%s", "NAME"), f.Message)
		require.NotContains(t, f.Message, "%", e.Code)
		require.Equal(t, e.Severity, f.Severity)
		require.Empty(t, f.Evidence)
	}
	f := New("no-module", "img", "6.1.0", "extra")
	require.Equal(t, "img has no module for kernel 6.1.0", f.Message)
	require.Equal(t, []string{"extra"}, f.Evidence)
	require.Equal(t, " has no module for kernel ", New("no-module").Message, "a name that is left out leaves no format behind")
	require.Equal(t, "not-in-table a b", New("not-in-table", "a", "b").Message)
}

func TestSeverityAndRiskGoTogether(t *testing.T) {
	f := New("kabi-match", "a", "3", "b")
	require.Equal(t, Risk, f.Severity)
	require.Equal(t, "kabi-match", f.Risk)
	require.Empty(t, f.As(Block).Risk)
	require.Equal(t, []string{"x"}, f.With("x").Evidence)
	require.Empty(t, f.Evidence, "the first finding is left as it was")
	require.Equal(t, "do", f.Cured("do").Hint)
	require.Equal(t, Block, Worst([]Finding{{Severity: Note}, {Severity: Block}, {Severity: Risk}}))
	require.Equal(t, Severity(""), Worst(nil))
}

func TestWordsOfStatesAndVerdicts(t *testing.T) {
	for v, word := range map[Verdict]string{OK: "OK", OKKABI: "OK KABI", Unsure: "UNSURE", NoModule: "NO MODULE", Blocked: "BLOCKED"} {
		require.Equal(t, word, VerdictWord(v))
		require.NotEmpty(t, VerdictSentence(v))
	}
	require.True(t, Better(OK, OKKABI))
	require.True(t, Better(Unsure, Blocked))
	require.False(t, Better("odd", Blocked))
	require.Equal(t, "odd", VerdictWord("odd"))
	require.Len(t, States, 9)
	for _, s := range States {
		require.Equal(t, s.Word, StateWord(s.State))
		require.Equal(t, s.Sentence, StateSentence(s.State))
		require.Equal(t, strings.ReplaceAll(string(s.State), "-", " "), s.Word, "the word is the machine name with blanks")
	}
	require.Equal(t, "odd", StateWord("odd"))
}
