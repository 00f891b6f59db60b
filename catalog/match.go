package catalog

import (
	"slices"
	"strings"

	"fitout/catalog/module"
)

// Match is an entry that serves a device.
type Match struct {
	Driver Driver
	// Pattern is the most specific of its globs that has the device.
	Pattern string
	// Specificity is how many hexadecimal digits of the device's identity the
	// pattern names: one with a subsystem beats one without.
	Specificity int
	// Ambiguous says that another entry matches equally well, so that nobody
	// but a person can choose.
	Ambiguous bool
}

// Match lists the entries whose match globs have the modalias and whose except
// globs do not, most specific first, equal ones by name. Entries without match
// globs are found by the aliases of their image's modules only, so they are not
// among them.
func (c *Catalog) Match(modalias string) []Match {
	var found []Match
	for _, d := range c.Drivers {
		if m, ok := d.match(modalias); ok {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b Match) int {
		if a.Specificity != b.Specificity {
			return b.Specificity - a.Specificity
		}
		return strings.Compare(a.Driver.Name, b.Driver.Name)
	})
	for i := 1; i < len(found); i++ {
		if found[i].Specificity == found[0].Specificity {
			found[0].Ambiguous, found[i].Ambiguous = true, true
		}
	}
	return found
}

func (d *Driver) match(modalias string) (Match, bool) {
	for _, g := range d.Except {
		if module.MatchAlias(g, modalias) {
			return Match{}, false
		}
	}
	best := Match{Driver: *d, Specificity: -1}
	for _, g := range d.Match {
		if s := specificity(g); s > best.Specificity && module.MatchAlias(g, modalias) {
			best.Pattern, best.Specificity = g, s
		}
	}
	return best, best.Specificity >= 0
}

// Serves says whether the entry is meant for a device: match has it and except
// does not, or match is empty and except does not.
func (d *Driver) Serves(modalias string) bool {
	if len(d.Match) > 0 {
		_, ok := d.match(modalias)
		return ok
	}
	return !slices.ContainsFunc(d.Except, func(g string) bool { return module.MatchAlias(g, modalias) })
}

// specificity counts the digits a glob names. In a modalias the ids are
// upper-case hexadecimal and the tags between them lower-case letters.
func specificity(glob string) int {
	n, inSet := 0, false
	for _, c := range glob {
		switch {
		case c == '[':
			inSet = true
		case c == ']':
			inSet = false
		case !inSet && (c >= '0' && c <= '9' || c >= 'A' && c <= 'F'):
			n++
		}
	}
	return n
}
