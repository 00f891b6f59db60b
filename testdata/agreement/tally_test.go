package agreement_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/agreement"
)

// refusals says which of the kernel's answers a blocking finding stands for,
// and what kmod.Explain calls that answer, where it is called otherwise: from
// the errno and the log alone not every cause can be told.
// Source: kernel/module/main.c, version.c and signing.c.
var refusals = map[string]struct {
	errnos []string
	called []string
}{
	"vermagic-flags":     {errnos: []string{"ENOEXEC"}},
	"vermagic-release":   {errnos: []string{"ENOEXEC"}},
	"versions-missing":   {errnos: []string{"ENOEXEC", "EINVAL"}},
	"struct-module-size": {errnos: []string{"ENOEXEC"}},
	"wrong-machine":      {errnos: []string{"ENOEXEC"}},
	// A file that was cut has lost its signature, which an enforcing kernel asks for first.
	"not-a-module":       {errnos: []string{"ENOEXEC", "EINVAL", "EKEYREJECTED"}, called: []string{"load-failed", "unsigned"}},
	"symbol-crc":         {errnos: []string{"EINVAL", "ENOEXEC"}},
	"symbol-missing":     {errnos: []string{"ENOENT"}},
	"symbol-gpl":         {errnos: []string{"ENOENT"}, called: []string{"symbol-missing"}},
	"symbol-duplicate":   {errnos: []string{"ENOEXEC"}},
	"dependency-missing": {errnos: []string{"ENOENT"}, called: []string{"symbol-missing"}},
	"namespace-missing":  {errnos: []string{"EINVAL"}},
	"parameter-invalid":  {errnos: []string{"EINVAL", "ERANGE"}},
	"unsigned":           {errnos: []string{"EKEYREJECTED"}},
	"key-not-enrolled":   {errnos: []string{"EKEYREJECTED"}},
	"signature-damaged":  {errnos: []string{"EBADMSG", "EKEYREJECTED"}},
	"signature-crypto":   {errnos: []string{"EKEYREJECTED"}},
	"lockdown":           {errnos: []string{"EPERM"}},
	"modules-disabled":   {errnos: []string{"EPERM"}},
	"no-capability":      {errnos: []string{"EPERM"}},
	"blacklisted":        {errnos: []string{"EPERM"}},
	"builtin":            {errnos: []string{"EINVAL"}},
	"selinux-denied":     {errnos: []string{"EACCES"}},
}

// tally collects the answers and compares them.
type tally struct {
	t    *testing.T
	rows map[string]row
	// kernel is what each kernel said, by release and cell, pending the verdicts
	// that were made on the other kernel.
	kernel  map[string]agreement.Answer
	pending []agreement.Answer
	// agreed and asked count cells, by boot.
	agreed, asked  map[string]int
	excused        int // of those that agree: the table says why the verdict is not the kernel's
	outcomes       map[string]int
	slowest, spent map[string]int64 // microseconds, by boot
}

func newTally(t *testing.T, rows []row) *tally {
	x := &tally{t: t, rows: map[string]row{}, kernel: map[string]agreement.Answer{},
		slowest: map[string]int64{}, spent: map[string]int64{}, agreed: map[string]int{}, asked: map[string]int{}, outcomes: map[string]int{}}
	for _, r := range rows {
		require.NotContains(t, x.rows, r.name)
		x.rows[r.name] = r
	}
	return x
}

// take compares the answers of one boot.
func (x *tally) take(b boot, answers []agreement.Answer) {
	for _, a := range answers {
		r := x.rows[a.Cell]
		if !a.Running {
			x.pending = append(x.pending, a)
			continue
		}
		if b.last {
			x.kernel[a.Kernel+" "+a.Cell] = a
		}
		x.count(b.name, a, compare(r, b.want(r), a))
	}
}

// report compares the verdicts about the kernel that may boot next with what
// that kernel said when it had booted, and says how many cells agree.
func (x *tally) report() {
	for _, a := range x.pending {
		real, ok := x.kernel[a.Kernel+" "+a.Cell]
		require.True(x.t, ok, a.Cell)
		a.Loads = real.Loads
		r := x.rows[a.Cell]
		want := r.plain
		if strings.HasPrefix(a.Kernel, "6.12") {
			want = r.plus
		}
		x.count("may boot next", a, compare(r, want, a))
	}
	agreed, asked := 0, 0
	for _, name := range slices.Sorted(maps.Keys(x.asked)) {
		x.t.Logf("%s: %d of %d; judged in %.1f s, the slowest in %.1f s (under emulation)", name, x.agreed[name], x.asked[name],
			float64(x.spent[name])/1e6, float64(x.slowest[name])/1e6)
		agreed, asked = agreed+x.agreed[name], asked+x.asked[name]
	}
	for _, o := range slices.Sorted(maps.Keys(x.outcomes)) {
		x.t.Logf("%4d × %s", x.outcomes[o], o)
	}
	x.t.Logf("%d of %d cells agree; in %d of them the table says why the verdict is stricter or open", agreed, asked, x.excused)
	require.GreaterOrEqual(x.t, asked, 400)
}

func (x *tally) count(group string, a agreement.Answer, problem string) {
	x.asked[group]++
	x.slowest[group] = max(x.slowest[group], a.Micros)
	x.spent[group] += a.Micros
	x.outcomes[a.Verdict+" / "+outcome(a)]++
	if problem == "" {
		x.agreed[group]++
		if x.rows[a.Cell].why != "" {
			x.excused++
		}
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s (%s): %s\n  verdict %s", group, a.Cell, a.Kernel, problem, a.Verdict)
	for _, f := range a.Findings {
		fmt.Fprintf(&text, "\n    %s %s: %s", f.Severity, f.Code, f.Message)
	}
	for _, l := range a.Loads {
		fmt.Fprintf(&text, "\n  kernel: %s %q called %q, taint %q, raw %q, unpacked by it %q", l.Module, l.Errno, l.Code, l.Taint, l.Raw, l.Kernel)
		for _, line := range l.Log {
			fmt.Fprintf(&text, "\n    %s", line)
		}
	}
	x.t.Error(text.String())
}

// outcome is what the kernel said in the end.
func outcome(a agreement.Answer) string {
	if len(a.Loads) == 0 {
		return "not asked"
	}
	if e := a.Loads[len(a.Loads)-1].Errno; e != "" {
		return e
	}
	return "loads"
}

// compare says in what the verdict, the expectation and the kernel differ, ""
// in nothing.
func compare(r row, want string, a agreement.Answer) string {
	if len(a.Loads) == 0 {
		return "the kernel was not asked"
	}
	last := a.Loads[len(a.Loads)-1]
	switch a.Verdict {
	case "ok", "ok-kabi":
		if want != a.Verdict && want != asJudged {
			return "expected was " + want
		}
		if last.Errno != "" {
			return "the kernel refuses it"
		}
		for _, problem := range []string{packedFits(a, last), labelFits(a), modprobeFits(a)} {
			if problem != "" {
				return problem
			}
		}
		return taintFits(a)
	case "unsure":
		code, ok := strings.CutPrefix(want, "unsure:")
		switch {
		case !ok || r.why == "":
			return "unsure, and the table does not say why; expected was " + want
		case !has(a, "risk", code):
			return "expected was " + want
		case last.Errno != r.kernel:
			return fmt.Sprintf("the table says that the kernel answers %q", r.kernel)
		}
		return ""
	case "blocked":
		return refusalFits(r, want, a, last)
	}
	return "no verdict that the table knows; expected was " + want
}

// refusalFits compares a refusal with what the blocking finding stands for.
func refusalFits(r row, want string, a agreement.Answer, last agreement.Load) string {
	if want != asJudged && !has(a, "block", want) {
		return "expected was " + want
	}
	if r.why != "" { // fitout is stricter than the kernel
		if last.Errno != r.kernel || want == "parameter-unknown" && !strings.Contains(strings.Join(last.Log, "\n"), "unknown parameter") {
			return "the kernel does not do what the table says"
		}
		return ""
	}
	if last.Errno == "" {
		return "the kernel loads it"
	}
	for _, f := range a.Findings {
		if f.Severity != "block" || want != asJudged && f.Code != want {
			continue
		}
		known := refusals[f.Code]
		if slices.Contains(known.errnos, last.Errno) && (last.Code == f.Code || slices.Contains(known.called, last.Code)) {
			return ""
		}
	}
	return "the kernel refuses it for another reason"
}

func has(a agreement.Answer, severity, code string) bool {
	return slices.ContainsFunc(a.Findings, func(f agreement.Finding) bool { return f.Severity == severity && f.Code == code })
}

// packedFits compares what was said of the packing with what the kernel can
// unpack itself.
func packedFits(a agreement.Answer, l agreement.Load) string {
	switch {
	case l.Kernel == "", !a.Running: // the other kernel's configuration is not on the machine
		return ""
	case l.Raw == "ok":
		return "the kernel took the packed file as it is"
	case has(a, "note", "compression") == (l.Kernel == "ok"):
		return "whether the kernel can unpack it was judged wrongly"
	}
	return ""
}

// labelFits compares what was said of the SELinux label with the answers to the
// file before it was labelled.
func labelFits(a agreement.Answer) string {
	for _, l := range a.Loads {
		if has(a, "note", "selinux-label") != l.Labelled || l.Labelled && (l.Unlabelled != "EACCES" || l.UnlabelledCode != "selinux-label") {
			return fmt.Sprintf("%s without the label: the kernel answers %q, called %q", l.Module, l.Unlabelled, l.UnlabelledCode)
		}
	}
	return ""
}

// modprobeFits compares what was said of blacklists with what modprobe does.
func modprobeFits(a agreement.Answer) string {
	for _, l := range a.Loads {
		m := l.ByModprobe
		if has(a, "note", "blacklisted-modprobe") != m.Asked || m.Asked && (m.ForDevice || !m.ByName) {
			return fmt.Sprintf("modprobe loads %s for a device: %v, by its name: %v", l.Module, m.ForDevice, m.ByName)
		}
	}
	return ""
}

// taintFits compares the letters that were announced with those that the
// modules got, both ways: P and O from the taint finding, E from the signature's, and F,
// which stands for a forced load, only from the finding that says its price.
func taintFits(a agreement.Answer) string {
	announced := ""
	for _, f := range a.Findings {
		switch {
		case f.Code == "taint" && strings.Contains(f.Message, "P, "):
			announced += "P"
		case f.Code == "unsigned", f.Code == "key-not-enrolled", f.Code == "signature-crypto":
			announced += "E"
		case f.Code == "unversioned":
			announced += "F"
		}
		if f.Code == "taint" && strings.Contains(f.Message, "O, ") {
			announced += "O"
		}
	}
	for _, l := range a.Loads {
		for _, letter := range l.Taint {
			if !strings.ContainsRune(announced, letter) {
				return fmt.Sprintf("%s is tainted %s, announced was %q", l.Module, l.Taint, announced)
			}
		}
	}
	for _, letter := range announced {
		if !slices.ContainsFunc(a.Loads, func(l agreement.Load) bool { return strings.ContainsRune(l.Taint, letter) }) {
			return fmt.Sprintf("the taint %c was announced, and no module has it", letter)
		}
	}
	return ""
}
