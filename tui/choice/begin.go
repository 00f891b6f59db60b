package choice

import (
	"slices"
	"strings"

	"fitout/hostops/pci"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// Begin lets the choices begin from an answers file, one that was saved on
// another node for example: what it says is preselected, every page still asks,
// and what no page asks for (parameters, pins, drivers without a device) is
// kept. A kind that the file does not name is not selected.
func (c *Choices) Begin(w workflow.Wizard, a *answers.Answers) {
	c.base = a
	if a.Maintenance != "" {
		c.Maintenance = a.Maintenance
	}
	c.Risks, c.Restart = slices.Clone(a.AcceptRisks), a.Limits.Reboot == "if-needed"
	for _, l := range a.Licences {
		if l.Accepted {
			c.Licences = append(c.Licences, l)
		}
	}
	if a.Secrets.RegistryAuth != nil {
		c.RegistryAuth = a.Secrets.RegistryAuth.File
	}
	c.ruled = make([][]int, len(a.Devices))
	taken := map[int]bool{}
	for i := range c.Kinds {
		c.Kinds[i].Selected = false
	}
	for r, rule := range a.Devices {
		found := c.Survey.Matching(rule.Match, taken)
		for _, d := range found {
			taken[d] = true
		}
		for i, k := range c.Survey.Kinds {
			if Listed(k.State) && slices.ContainsFunc(k.Devices, func(d int) bool { return slices.Contains(found, d) }) {
				c.ruled[r] = append(c.ruled[r], i)
				c.Kinds[i].follow(w, c.Survey, k, rule)
			}
		}
	}
}

// follow takes over what a rule says of a kind.
func (k *Kind) follow(w workflow.Wizard, s *workflow.Survey, kind workflow.Kind, rule answers.Rule) {
	k.Selected, k.When, k.Pick = true, rule.When, NotChosen
	if rule.OnMissingModule != "" {
		k.OnMissing = rule.OnMissingModule
	}
	switch {
	case rule.When == answers.Leave:
		k.When, k.Pick = "", Leave
	case rule.Image != nil && rule.Driver == "":
		k.Pick = k.give(w, s, kind, rule.Image.Reference)
	default:
		k.Pick = slices.IndexFunc(k.Offers, func(o Offer) bool { return o.Given == "" && o.Driver.Name == rule.Driver })
		if k.Pick < 0 {
			k.Pick = NotChosen
		}
	}
	if rule.Except != nil {
		k.Except = excepted(s, kind, rule.Except)
	}
}

// excepted are the cards of a kind that a rule leaves alone, by full address. A
// slot that this node does not have is left to the plan to refuse.
func excepted(s *workflow.Survey, kind workflow.Kind, e *answers.Except) []string {
	var out []string
	all := make([]pci.Device, len(s.Devices))
	for i, d := range s.Devices {
		all[i] = d.Device
	}
	for _, slot := range e.Slots {
		at, err := pci.Find(all, slot)
		if err == nil && slices.Contains(kind.Devices, at) {
			out = append(out, all[at].Address)
		}
	}
	return out
}

// give puts an image that was given by hand on offer, once, and returns its
// place among the offers.
func (k *Kind) give(w workflow.Wizard, s *workflow.Survey, kind workflow.Kind, reference string) int {
	for i := range k.Offers {
		if k.Offers[i].Given == reference {
			k.Offers[i].Examined, k.Offers[i].Err = nil, nil
			return i
		}
	}
	k.Offers = append(k.Offers, Offer{Offer: w.OfferImage(s, kind, reference), Given: reference})
	return len(k.Offers) - 1
}

// Give puts an image on offer for the kind at an index of Survey.Kinds.
func (c *Choices) Give(w workflow.Wizard, kind int, reference string) {
	k := &c.Kinds[kind]
	k.give(w, c.Survey, c.Survey.Kinds[kind], reference)
	if k.Pick == Leave {
		k.Pick = NotChosen
	}
}

// rules are the rules of the answers: those of the file it began from, as they
// were written while the choices agree with them, and one a kind for the rest.
func (c *Choices) rules() []answers.Rule {
	var out []answers.Rule
	done := map[int]bool{}
	if c.base != nil {
		for r, rule := range c.base.Devices {
			if c.agrees(rule, c.ruled[r]) {
				out = append(out, rule)
				for _, i := range c.ruled[r] {
					done[i] = true
				}
				continue
			}
			for _, i := range c.ruled[r] {
				done[i] = true
				changed, ok := c.rule(i)
				switch {
				case !c.Kinds[i].Selected:
					out = append(out, answers.Rule{Match: changed.Match, When: answers.Leave})
				case ok:
					out = append(out, kept(changed, rule))
				}
			}
		}
	}
	for _, i := range c.Selected() {
		if rule, ok := c.rule(i); ok && !done[i] {
			out = append(out, rule)
		}
	}
	return out
}

// agrees says that a rule says what was chosen for every kind that it matches
// on this node; one that matches none is for other nodes.
func (c *Choices) agrees(rule answers.Rule, kinds []int) bool {
	for _, i := range kinds {
		k := &c.Kinds[i]
		now, ok := c.rule(i)
		if !k.Selected || !ok || now.When != rule.When || now.Driver != rule.Driver || reference(now) != reference(rule) {
			return false
		}
		if strings.Contains(string(now.When), "persist") && k.OnMissing != orStop(rule.OnMissingModule) {
			return false
		}
		var except []string
		if rule.Except != nil {
			except = excepted(c.Survey, c.Survey.Kinds[i], rule.Except)
		}
		if !slices.Equal(slices.Sorted(slices.Values(except)), slices.Sorted(slices.Values(k.Except))) {
			return false
		}
	}
	return true
}

// kept adds to a changed rule what no page asks for, as far as it is still
// about the same driver.
func kept(changed, was answers.Rule) answers.Rule {
	if changed.When == answers.Leave || changed.Driver != was.Driver || reference(changed) != reference(was) {
		return changed
	}
	changed.Pins, changed.Parameters = was.Pins, was.Parameters
	if changed.PersistIn != "" && was.PersistIn != "" {
		changed.PersistIn = was.PersistIn
	}
	return changed
}

func reference(r answers.Rule) string {
	if r.Image == nil {
		return ""
	}
	return r.Image.Reference
}

func orStop(s string) string {
	if s == "" {
		return "stop"
	}
	return s
}

// Extras says that drivers without a device are asked for.
func (c *Choices) Extras() bool { return c.base != nil && len(c.base.Drivers) > 0 }
