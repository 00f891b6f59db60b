package catalog

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A PCI modalias is v, d, sv, sd with eight digits each, bc, sc, i with two, in
// this order (Linux, scripts/mod/file2alias.c, do_pci_entry). pciGlob takes a glob
// apart, lower-case digits and wrong widths included, so that they can be named.
var (
	pciTags = []struct {
		tag    string
		digits int
	}{{"v", 8}, {"d", 8}, {"sv", 8}, {"sd", 8}, {"bc", 2}, {"sc", 2}, {"i", 2}}
	pciGlob = sync.OnceValue(func() *regexp.Regexp {
		const id = `((?:[0-9A-Fa-f?]|\[[^\]]+\]){0,8}\**)`
		text := `^pci:(\**)`
		for _, t := range pciTags {
			text += `(?:` + t.tag + id + `)?`
		}
		return regexp.MustCompile(text + `$`)
	})
	idUnit = lazy(`\[[^\]]+\]|.`)
)

// CheckGlob says what is wrong with a modalias glob: one that can match no
// modalias of its bus is a mistake, not a pattern.
func CheckGlob(glob string) error {
	bus, _, ok := strings.Cut(glob, ":")
	switch {
	case !ok || bus == "" || strings.ContainsAny(bus, "*?["):
		return fmt.Errorf("the glob %q does not begin with a bus (pci:…)", glob)
	case strings.Count(glob, "[") != strings.Count(glob, "]"):
		return fmt.Errorf("the glob %q has a bracket without its partner", glob)
	case bus != "pci":
		return nil
	}
	m := pciGlob().FindStringSubmatch(glob)
	if m == nil {
		return fmt.Errorf("the glob %q is not made of the tags v, d, sv, sd, bc, sc, i in this order", glob)
	}
	star := m[1] != ""
	for i, t := range pciTags {
		id := m[i+2]
		if id == "" {
			if !star {
				return fmt.Errorf("the glob %q matches nothing: %s is missing or has no digits and no star", glob, t.tag)
			}
			continue
		}
		star = strings.HasSuffix(id, "*")
		digits := idUnit().FindAllString(strings.TrimRight(id, "*"), -1)
		if text := strings.Join(digits, ""); text != strings.ToUpper(text) {
			return fmt.Errorf("the glob %q matches nothing: %s is in lower case, the kernel writes ids in upper case", glob, text)
		}
		if len(digits) > t.digits || len(digits) < t.digits && !star {
			return fmt.Errorf("the glob %q matches nothing: %s has %d digits, the kernel writes %d", glob, t.tag, len(digits), t.digits)
		}
	}
	return nil
}
