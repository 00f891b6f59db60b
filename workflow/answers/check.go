package answers

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"fitout/catalog/image"
	"fitout/catalog/strict"
	"fitout/hostops/pci"
)

// checker reports what is wrong with values, at their places.
type checker struct{ r *strict.Report }

// Check holds the rules of an answers file that its Go type does not say.
func (a *Answers) Check(r *strict.Report) {
	c := checker{r}
	c.word("apiVersion", a.APIVersion, "apiVersion")
	c.word("kind", a.Kind, "kind")
	c.word("maintenance", a.Maintenance, "maintenance")
	c.word("onUnanswered", a.OnUnanswered, "onUnanswered")
	c.form("osTag", a.OSTag, "osTag")
	for i := range a.Devices {
		c.rule(a, i)
	}
	for i, d := range a.Drivers {
		c.form("drivers.name", d.Name, "drivers", i, "name")
		c.word("drivers.when", string(d.When), "drivers", i, "when")
	}
	for i, l := range a.Licences {
		c.form("licences.digest", l.Digest, "licences", i, "digest")
		if l.ID == "" {
			r.Bad([]any{"licences", i, "id"}, "a licence needs its name (id)")
		}
	}
	for i, name := range a.AcceptRisks {
		c.word("acceptRisks", name, "acceptRisks", i)
		if slices.Index(a.AcceptRisks, name) < i {
			r.Bad([]any{"acceptRisks", i}, "the risk %s is there twice", name)
		}
	}
	if t, err := time.ParseDuration(a.Limits.Timeout); r.Has("limits", "timeout") && (err != nil || t <= 0) {
		r.Bad([]any{"limits", "timeout"}, "limits.timeout must be a duration like 30m or 1h30m, not %q", a.Limits.Timeout)
	}
	c.word("limits.reboot", a.Limits.Reboot, "limits", "reboot")
	if s := a.Secrets.RegistryAuth; s != nil {
		c.form("secrets.registryAuth.file", s.File, "secrets", "registryAuth", "file")
	}
}

// word checks a value that is one of a few words. What is not there, or was
// reported as unreadable, is "".
func (c checker) word(key, value string, at ...any) {
	words := choices[key]
	if slices.Contains(words, value) || value == "" && !c.r.Has(at...) {
		return
	}
	meant := ""
	if near := strict.Nearest(value, words); near != "" {
		meant = fmt.Sprintf(" (did you mean %q?)", near)
	}
	c.r.Bad(at, "%s cannot be %q%s; it is %s", label(at), value, meant, oneOf(words))
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// form checks a value that has a form.
func (c checker) form(key, value string, at ...any) {
	p := patterns[key]
	if value == "" && !c.r.Has(at...) || regexp.MustCompile(p.pattern).MatchString(value) {
		return
	}
	c.r.Bad(at, "%s cannot be %q; it looks like %s", label(at), value, p.example)
}

// label is the key's own name, without the numbers on the way to it.
func label(at []any) string {
	for _, step := range slices.Backward(at) {
		if s, ok := step.(string); ok {
			return s
		}
	}
	return "this"
}

func (c checker) rule(a *Answers, i int) {
	d := &a.Devices[i]
	at := func(steps ...any) []any { return append([]any{"devices", i}, steps...) }
	c.match(d.Match, at)
	c.word("devices.when", string(d.When), at("when")...)
	c.word("devices.persistIn", d.PersistIn, at("persistIn")...)
	c.word("devices.onMissingModule", d.OnMissingModule, at("onMissingModule")...)
	c.form("devices.driver", d.Driver, at("driver")...)
	hasDriver, hasImage := c.r.Has(at("driver")...), c.r.Has(at("image")...)
	switch {
	case hasDriver && hasImage:
		c.r.Bad(at("image"), "a rule has a driver or an image, not both")
	case !hasDriver && !hasImage && d.When != Leave && d.When != "":
		c.r.Bad(at("when"), "a rule that does not say leave needs a driver, or an image with its reference")
	}
	if d.Image != nil && d.Image.Reference != "" {
		if _, err := image.ParseReference(d.Image.Reference); err != nil {
			c.r.Bad(at("image", "reference"), "%v", err)
		}
	}
	for release, digest := range d.Pins {
		c.form("devices.pins", digest, at("pins", release)...)
	}
	for module, list := range d.Parameters {
		for j, p := range list {
			c.form("devices.parameters", p, at("parameters", module, j)...)
		}
	}
	if d.Except != nil {
		c.except(d.Except, a.NodeBound, at)
	}
}

func (c checker) match(m Match, at func(...any) []any) {
	if c.r.Has(at("match")...) && m.ID == "" && m.Subsystem == "" && m.Class == "" {
		c.r.Bad(at("match"), "match names no device: give id, subsystem or class")
	}
	c.form("devices.match.id", m.ID, at("match", "id")...)
	c.form("devices.match.subsystem", m.Subsystem, at("match", "subsystem")...)
	c.form("devices.match.class", m.Class, at("match", "class")...)
	for key, value := range map[string]string{"id": m.ID, "subsystem": m.Subsystem} {
		if _, err := path.Match(value, ""); err != nil {
			c.r.Bad(at("match", key), "%s %q is not a glob that can be read", key, value)
		}
		for part := range strings.SplitSeq(value, ":") {
			if value != "" && !strings.ContainsAny(part, "*?[") && len(part) < 4 {
				c.r.Bad(at("match", key), "%s %q: an id has four digits, %q has %d", key, value, part, len(part))
			}
		}
	}
	if n := m.Count; n != nil {
		if n.Min < 0 {
			c.r.Bad(at("match", "count", "min"), "count.min cannot be less than 0")
		}
		if n.Max != nil && (*n.Max < n.Min || *n.Max < 1) {
			c.r.Bad(at("match", "count", "max"), "count.max cannot be less than count.min, nor than 1")
		}
	}
}

func (c checker) except(e *Except, nodeBound bool, at func(...any) []any) {
	if c.r.Has(at("except", "slots")...) && len(e.Slots) == 0 {
		c.r.Bad(at("except", "slots"), "except names no slots: leave it out")
	}
	for j, slot := range e.Slots {
		if !pci.IsAddress(slot) && !pci.IsAddress("0000:"+slot) {
			c.r.Bad(at("except", "slots", j), "%q is no PCI address; one looks like 0000:17:00.0", slot)
		}
	}
	if !nodeBound {
		c.r.Bad(at("except"), "except names slots of one node: add nodeBound: true at the top of the file")
	}
}

// Addresses are the full addresses of the slots on a node with those devices.
// Errors are those of pci.Find: a slot that is not there, or one without a
// domain that is in several.
func (e *Except) Addresses(devices []pci.Device) ([]string, error) {
	var all []string
	for _, slot := range e.Slots {
		i, err := pci.Find(devices, slot)
		if err != nil {
			return nil, err
		}
		all = append(all, devices[i].Address)
	}
	return all, nil
}
