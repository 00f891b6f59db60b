// Package choice holds what an operator has chosen so far and which question
// comes next. The wizard's pages and line mode both fill it in, so the same
// choices make the same answers file whichever way they were asked.
package choice

import (
	"slices"
	"strings"
	"time"

	"fitout/hostops/node"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// Choices are the answers as they stand. Going back changes nothing in them.
type Choices struct {
	Survey *workflow.Survey
	// Kinds runs parallel to Survey.Kinds.
	Kinds []Kind
	// Maintenance is "required", "enter" or "skip"; "" not answered.
	Maintenance string
	// Restart lets the run restart the node where a driver needs it.
	Restart bool
	// Who accepts licences: a name or a mail address, asked once.
	Who string
	// Licences accepted here, in the order of acceptance.
	Licences []answers.Licence
	// Risks accepted here, by name.
	Risks []string
	// RegistryAuth is a credentials file to name in the answers, "" for none.
	RegistryAuth string
	// SavedBy is the program and version that writes the file.
	SavedBy string

	base  *answers.Answers // the file that it began from, nil for none
	ruled [][]int          // the kinds that each rule of it matches
}

// Kind is what was chosen for one kind of device.
type Kind struct {
	Selected bool
	Offers   []Offer
	// Pick is an index into Offers, Leave or NotChosen.
	Pick      int
	When      answers.When
	OnMissing string // "stop" or "continue"
	// Except are addresses of cards that are left alone.
	Except []string
}

// Picks that are no offer.
const (
	NotChosen = -2
	Leave     = -1
)

// Offer is a driver on offer and what reading its image told.
type Offer struct {
	workflow.Offer
	// Given is the reference or file typed in by hand, "" for catalog drivers.
	Given    string
	Examined *workflow.Examined
	// Err is why its image could not be read.
	Err error
}

// New starts from a survey: devices without a working driver are selected. The
// functions that need none are kinds here too, listed when everything is asked
// for.
func New(w workflow.Wizard, s *workflow.Survey, savedBy string) *Choices {
	all := *s
	all.Kinds, all.Rest = slices.Concat(s.Kinds, s.Rest), nil
	s = &all
	c := &Choices{Survey: s, SavedBy: savedBy}
	for _, k := range s.Kinds {
		kind := Kind{Pick: NotChosen, OnMissing: "stop"}
		for _, o := range w.Offers(s, k) {
			kind.Offers = append(kind.Offers, Offer{Offer: o})
		}
		kind.Selected = Wanting(k.State) && len(kind.Offers) > 0
		c.Kinds = append(c.Kinds, kind)
	}
	if MaintenanceKnown(s.Maintenance.State) {
		c.Maintenance = "required"
	}
	return c
}

// Renew takes a newer survey and keeps what was chosen for the kinds that are
// still there.
func (c *Choices) Renew(w workflow.Wizard, s *workflow.Survey) *Choices {
	n := New(w, s, c.SavedBy)
	if c.base != nil {
		n.Begin(w, c.base)
	}
	n.Who, n.Licences, n.Risks, n.RegistryAuth = c.Who, c.Licences, c.Risks, c.RegistryAuth
	n.Restart = c.Restart
	if n.Maintenance == "" {
		n.Maintenance = c.Maintenance
	}
	for i, k := range n.Survey.Kinds {
		for j, old := range c.Survey.Kinds {
			if k.ID == old.ID && k.Subsystem == old.Subsystem && k.State == old.State {
				n.Kinds[i] = c.Kinds[j]
			}
		}
	}
	return n
}

// Wanting says that a device in this state wants a driver.
func Wanting(s finding.State) bool {
	return s == finding.StateNeedsDriver || s == finding.StateWrongDriver || s == finding.StateFailed
}

// Listed says that a kind is shown unless everything is asked for.
func Listed(s finding.State) bool {
	return s != finding.StateNotNeeded && s != finding.StateVirtualFunction
}

// MaintenanceKnown says that nothing need be asked about maintenance.
func MaintenanceKnown(state string) bool {
	return state == "in-maintenance" || state == "not-a-cluster-node"
}

// CannotEnter is why fitout cannot take this node out of service itself, "" when
// it can.
func CannotEnter(m node.Maintenance) string {
	switch {
	case m.State == node.Upgrading:
		return "an upgrade is going on"
	case m.CannotEnter != "":
		return m.CannotEnter
	case len(m.Enter) == 0:
		return "it is not known how to do that here"
	case !m.MayEnter:
		return "this node has no credentials that may do it"
	}
	return ""
}

// Selected lists the kinds to be served, in order.
func (c *Choices) Selected() []int {
	var at []int
	for i, k := range c.Kinds {
		if k.Selected {
			at = append(at, i)
		}
	}
	return at
}

// Chosen is the offer that was taken for a kind, nil for none.
func (k *Kind) Chosen() *Offer {
	if k.Pick < 0 || k.Pick >= len(k.Offers) {
		return nil
	}
	return &k.Offers[k.Pick]
}

// Recommended is the index of the offer to recommend, -1 for none, and the rule
// in words. Only images that were read are judged, and where several entries fit
// a device equally well only a person can choose.
func (k *Kind) Recommended() (int, string) {
	for _, rule := range []struct {
		text string
		fits func(*workflow.Examined) bool
	}{
		{"the newest image that is OK on every kernel that may boot", func(e *workflow.Examined) bool { return okOn(e, len(e.Judgements)) }},
		{"the newest image that is OK on the running kernel", func(e *workflow.Examined) bool { return okOn(e, 1) }},
	} {
		for i, o := range k.Offers {
			if !o.Ambiguous && o.Examined != nil && len(o.Examined.Judgements) > 0 && rule.fits(o.Examined) {
				return i, rule.text
			}
		}
	}
	return -1, ""
}

// okOn says that the first n kernels are fine with an image.
func okOn(e *workflow.Examined, n int) bool {
	for _, j := range e.Judgements[:min(n, len(e.Judgements))] {
		if j.Verdict != finding.OK && j.Verdict != finding.OKKABI {
			return false
		}
	}
	return true
}

// Usable says whether an offer may be taken: at least one kernel must not
// refuse it. The reason against it comes with it.
func (o *Offer) Usable() (bool, string) {
	switch {
	case o.Err != nil:
		return false, o.Err.Error()
	case o.Examined == nil:
		return false, "its image has not been read yet"
	}
	for _, j := range o.Examined.Judgements {
		if j.Verdict != finding.Blocked && j.Verdict != finding.NoModule {
			return true, ""
		}
	}
	return false, "no kernel that may boot here would load it (w says why)"
}

// Accept records a licence acceptance; the same text is recorded once.
func (c *Choices) Accept(l workflow.Licence, by string, at time.Time) {
	c.Who = by
	for i, have := range c.Licences {
		if have.Digest == l.Digest {
			c.Licences = slices.Delete(c.Licences, i, i+1)
			break
		}
	}
	c.Licences = append(c.Licences, answers.Licence{
		ID: l.ID, Digest: l.Digest, Accepted: true, By: by, At: at.UTC().Truncate(time.Second), How: answers.OnScreen,
	})
}

// AcceptRisk records a named risk once.
func (c *Choices) AcceptRisk(name string) {
	if !slices.Contains(c.Risks, name) {
		c.Risks = append(c.Risks, name)
	}
}

// ReadAgain lets the images be read once more that could not be: after a login,
// those of the catalog may want the same credentials.
func (c *Choices) ReadAgain() {
	for i := range c.Kinds {
		for j := range c.Kinds[i].Offers {
			if o := &c.Kinds[i].Offers[j]; o.Err != nil {
				o.Examined, o.Err = nil, nil
			}
		}
	}
}

// Answers is the wizard's only product. It is a fresh value each time.
func (c *Choices) Answers() *answers.Answers {
	a := &answers.Answers{
		OnUnanswered: "leave",
		Limits:       answers.Limits{Reboot: "ask"},
	}
	if c.base != nil {
		*a = *c.base
	}
	a.APIVersion, a.Kind, a.Metadata.SavedBy = answers.APIVersion, answers.Kind, c.SavedBy
	if a.Metadata.Name == "" {
		a.Metadata.Name = c.Survey.NodeName
	}
	a.Maintenance, a.AcceptRisks = c.Maintenance, slices.Clone(c.Risks)
	a.Devices, a.NodeBound, a.Licences, a.Secrets = c.rules(), false, nil, answers.Secrets{}
	for _, rule := range a.Devices {
		a.NodeBound = a.NodeBound || rule.Except != nil
	}
	for _, l := range c.Licences {
		if c.needed(l.Digest) {
			a.Licences = append(a.Licences, l)
		}
	}
	switch {
	case c.Restart:
		a.Limits.Reboot = "if-needed"
	case a.Limits.Reboot == "if-needed": // the file allowed it, the person took it out
		a.Limits.Reboot = "ask"
	}
	if c.RegistryAuth != "" {
		a.Secrets.RegistryAuth = &answers.SecretRef{File: c.RegistryAuth}
	}
	return a
}

// rule is one kind's rule; none while nothing was chosen for it.
func (c *Choices) rule(i int) (answers.Rule, bool) {
	kind, k := c.Survey.Kinds[i], &c.Kinds[i]
	r := answers.Rule{Match: answers.Match{ID: kind.ID}}
	for j, other := range c.Survey.Kinds {
		if j != i && other.ID == kind.ID && strings.Trim(kind.Subsystem, "0:") != "" {
			r.Match.Subsystem = kind.Subsystem
		}
	}
	if k.Pick == Leave {
		r.When = answers.Leave
		return r, true
	}
	o := k.Chosen()
	if o == nil {
		return r, false
	}
	if o.Given != "" {
		r.Image = &answers.Image{Reference: o.Given}
	} else {
		r.Driver = o.Driver.Name
	}
	r.When = k.When
	if strings.Contains(string(k.When), "persist") {
		r.PersistIn, r.OnMissingModule = "auto", k.OnMissing
	}
	if len(k.Except) > 0 {
		r.Except = &answers.Except{Slots: slices.Sorted(slices.Values(k.Except))}
	}
	return r, true
}

// needed says that a licence belongs to something that was chosen, or that it
// came with the file.
func (c *Choices) needed(digest string) bool {
	if c.base != nil && slices.ContainsFunc(c.base.Licences, func(l answers.Licence) bool { return l.Digest == digest }) {
		return true
	}
	for _, i := range c.Selected() {
		if o := c.Kinds[i].Chosen(); o != nil && o.Examined != nil {
			for _, l := range o.Examined.Licences {
				if l.Digest == digest {
					return true
				}
			}
		}
	}
	return false
}
