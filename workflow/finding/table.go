package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Entry is what fitout knows of a code.
type Entry struct {
	Code Code `json:"code"`
	// Severity it has unless the place that finds it says otherwise.
	Severity Severity `json:"severity"`
	// Title is a few words, for lists.
	Title string `json:"title"`
	// Sentence is the message, a %s for each name that is filled in.
	Sentence string `json:"-"`
	// Meaning says what is behind it; Cure what a person can do.
	Meaning string `json:"meaning"`
	Cure    string `json:"cure"`
	// Risk is the name to accept it by, "" when nothing accepts it.
	Risk string `json:"risk,omitempty"`
}

// Codes is the table, sorted by code.
var Codes = sorted(buildCodes, policyCodes, moduleCodes, deviceCodes, runCodes, imageCodes, errorCodes)

func sorted(tables ...[]Entry) []Entry {
	all := slices.Concat(tables...)
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return all
}

// Explain looks a code up.
func Explain(code Code) (Entry, bool) {
	n, ok := slices.BinarySearchFunc(Codes, code, func(e Entry, c Code) int { return strings.Compare(string(e.Code), string(c)) })
	if !ok {
		return Entry{}, false
	}
	return Codes[n], true
}

// New makes a finding of the table's words, its names filled in in order.
// Names too many become evidence; a code that the table does not have keeps
// its names as the message.
func New(code Code, names ...any) Finding {
	e, ok := Explain(code)
	if !ok {
		e = Entry{Code: code, Severity: Note, Sentence: string(code) + strings.Repeat(" %s", len(names))}
	}
	f := Finding{Code: code, Severity: e.Severity, Hint: e.Cure, Risk: e.Risk}
	var text strings.Builder
	rest := e.Sentence
	for {
		before, after, found := strings.Cut(rest, "%s")
		text.WriteString(before)
		if !found {
			break
		}
		if len(names) > 0 {
			fmt.Fprint(&text, names[0])
			names = names[1:]
		}
		rest = after
	}
	f.Message = text.String()
	for _, n := range names {
		f.Evidence = append(f.Evidence, fmt.Sprint(n))
	}
	return f
}

// With adds evidence, one fact a line.
func (f Finding) With(evidence ...string) Finding {
	f.Evidence = append(slices.Clone(f.Evidence), evidence...)
	return f
}

// As gives a finding another severity; a block has no risk to accept it by.
func (f Finding) As(s Severity) Finding {
	f.Severity = s
	if s != Risk {
		f.Risk = ""
	}
	return f
}

// Cured gives a finding a cure of its own.
func (f Finding) Cured(hint string) Finding {
	f.Hint = hint
	return f
}

// Worst is the highest severity among findings, "" for none.
func Worst(list []Finding) Severity {
	worst := Severity("")
	for _, f := range list {
		if rank(f.Severity) > rank(worst) {
			worst = f.Severity
		}
	}
	return worst
}

func rank(s Severity) int { return slices.Index([]Severity{Note, Risk, Block}, s) }
