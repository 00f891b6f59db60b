package catalog

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"fitout/catalog/strict"
)

// NamePattern is what entry names are made of; they are file names on the node.
const NamePattern = `^[a-z0-9][a-z0-9._-]{0,62}$`

var driverName = lazy(NamePattern)

// ValidName says whether a name can be an entry's.
func ValidName(name string) bool { return driverName().MatchString(name) }

// moduleName is what the kernel calls modules, in either spelling.
var moduleName = lazy(`^[A-Za-z0-9][A-Za-z0-9_-]{0,55}$`)

// Check holds the rules of a catalog file that its Go type does not say.
func (f *File) Check(r *strict.Report) {
	if f.APIVersion != "" && f.APIVersion != APIVersion {
		r.Bad([]any{"apiVersion"}, "apiVersion must be %s, not %q: this is a file of another version", APIVersion, f.APIVersion)
	}
	if f.Kind != "" && f.Kind != Kind {
		r.Bad([]any{"kind"}, "kind must be %s, not %q", Kind, f.Kind)
	}
	if _, err := time.Parse(time.DateOnly, f.Date); f.Date != "" && err != nil {
		r.Bad([]any{"date"}, "date must be a day like 2026-11-28, not %q", f.Date)
	}
	first := map[string]int{}
	for i, d := range f.Drivers {
		if j, twice := first[d.Name]; twice && d.Name != "" {
			r.Bad([]any{"drivers", i, "name"}, "the driver %q is there twice, drivers[%d] has the same name", d.Name, j)
		} else {
			first[d.Name] = i
		}
		d.check(r, func(steps ...any) []any { return append([]any{"drivers", i}, steps...) })
	}
}

func (d *Driver) check(r *strict.Report, at func(...any) []any) {
	if d.Name != "" && !ValidName(d.Name) {
		r.Bad(at("name"), "a driver's name is made of lower-case letters, digits, dots, hyphens and underscores, not %q", d.Name)
	}
	for _, globs := range []struct {
		key  string
		list []string
	}{{"match", d.Match}, {"except", d.Except}} {
		for i, g := range globs.list {
			if err := CheckGlob(g); err != nil {
				r.Bad(at(globs.key, i), "%v", err)
			}
		}
	}
	for _, names := range []struct {
		key  string
		list []string
	}{{"modules", d.Modules}, {"replaces", d.Replaces}} {
		for i, m := range names.list {
			if !moduleName().MatchString(m) {
				r.Bad(at(names.key, i), "%q is no module name", m)
			}
		}
	}
	for i := range d.Images {
		d.Images[i].check(r, func(key string) []any { return at("images", i, key) })
	}
	if r.Has(at("images")...) && len(d.Images) == 0 {
		r.Bad(at("images"), "a driver needs at least one image")
	}
	if d.Licence != nil && d.Licence.File == "" && d.Licence.Text == "" {
		r.Bad(at("licence"), "a licence needs the path of its text in the image (file) or the text itself (text)")
	}
}

func (m *Mapping) check(r *strict.Report, at func(key string) []any) {
	hasKernel, hasLiteral := r.Has(at("kernel")...), r.Has(at("literal")...)
	if hasKernel == hasLiteral {
		r.Bad(at("reference"), "an image needs either a pattern (kernel) or an exact release (literal)")
	}
	if _, err := regexp.Compile(m.Kernel); err != nil {
		r.Bad(at("kernel"), "the pattern %q cannot be read: %v", m.Kernel, plainRegexpError(err))
	}
	if m.Reference != "" {
		if err := checkTemplate(m.Reference); err != nil {
			r.Bad(at("reference"), "%v", err)
		}
	}
}

// lazy compiles a pattern when it is first used: most commands use none, and all
// of them pay for what is compiled at the start.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func plainRegexpError(err error) error {
	var code string
	if n, _ := fmt.Sscanf(err.Error(), "error parsing regexp: %s", &code); n == 1 {
		return fmt.Errorf("%s", err.Error()[len("error parsing regexp: "):])
	}
	return err
}
