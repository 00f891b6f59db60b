package choice

import (
	"strings"

	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// Asked names what a question is about.
type Asked string

// The questions, in the order they are asked.
const (
	Hardware    Asked = "hardware"
	Maintenance Asked = "maintenance"
	Image       Asked = "image"
	Licence     Asked = "licence"
	When        Asked = "when"
	Plan        Asked = "plan"
)

// Question is one thing to ask.
type Question struct {
	Asked Asked
	Kind  int // index, for image and when
	// Licence to accept, and the driver that needs it.
	Licence workflow.Licence
	For     string
	// Nth of Of, among the questions of the same sort.
	Nth, Of int
}

// Questions lists what has to be asked for the choices as they stand. What
// needs no asking is not in it.
func (c *Choices) Questions() []Question {
	list := []Question{{Asked: Hardware}}
	sel := c.Selected()
	if len(sel) > 0 && !MaintenanceKnown(c.Survey.Maintenance.State) {
		list = append(list, Question{Asked: Maintenance})
	}
	for n, i := range sel {
		list = append(list, Question{Asked: Image, Kind: i, Nth: n + 1, Of: len(sel)})
	}
	texts := c.texts()
	for n, q := range texts {
		q.Nth, q.Of = n+1, len(texts)
		list = append(list, q)
	}
	var taken []int
	for _, i := range sel {
		if c.Kinds[i].Chosen() != nil {
			taken = append(taken, i)
		}
	}
	for n, i := range taken {
		list = append(list, Question{Asked: When, Kind: i, Nth: n + 1, Of: len(taken)})
	}
	return append(list, Question{Asked: Plan})
}

// texts are the licences that nobody has accepted yet, each once.
func (c *Choices) texts() []Question {
	var list []Question
	seen := map[string]bool{}
	for _, l := range c.Licences {
		seen[l.Digest] = true
	}
	for _, i := range c.Selected() {
		o := c.Kinds[i].Chosen()
		if o == nil || o.Examined == nil {
			continue
		}
		for _, l := range o.Examined.Licences {
			if !l.Accepted && !seen[l.Digest] {
				seen[l.Digest] = true
				list = append(list, Question{Asked: Licence, Kind: i, Licence: l, For: o.Name()})
			}
		}
	}
	return list
}

// Name is what an offer is called on screens.
func (o *Offer) Name() string {
	if o.Given != "" {
		return o.Given
	}
	return o.Driver.Name
}

// after orders the questions.
var after = map[Asked]int{Hardware: 0, Maintenance: 1, Image: 2, Licence: 3, When: 4, Plan: 5}

// Next is the question that follows q. A licence that was just accepted is no
// longer in the list, so what follows is found by order and not by place.
func (c *Choices) Next(q Question) Question {
	for _, n := range c.Questions() {
		switch {
		case after[n.Asked] > after[q.Asked]:
			return n
		case n.Asked != q.Asked:
		case n.Asked == Licence && n.Licence.Digest != q.Licence.Digest:
			return n
		case n.Asked != Licence && n.Kind > q.Kind:
			return n
		}
	}
	return Question{Asked: Plan}
}

// WhenOption is one way to load and keep a driver on this node.
type WhenOption struct {
	When        answers.When
	Title       string
	Means       string
	Recommended bool
	// Impossible is why it cannot be chosen here, "" when it can.
	Impossible string
}

// whens is the table of choices, the one to prefer first.
var whens = []WhenOption{
	{When: answers.LoadNowPersist, Title: "Load now and keep it over OS upgrades",
		Means: "loads now and at every boot; a hook checks every OS upgrade"},
	{When: answers.LoadNow, Title: "Load now only", Means: "gone after the next reboot"},
	{When: answers.Persist, Title: "Keep only, no change before the next boot",
		Means: "at every boot and over OS upgrades; nothing is loaded or unbound now"},
	{When: answers.LoadNowAtBoot, Title: "Load now and at every boot",
		Means: "an OS upgrade is not checked: a new kernel may come up without it"},
	{When: answers.AtBoot, Title: "At every boot only", Means: "nothing now; an OS upgrade is not checked"},
}

// WhenOptions lists the ways for a kind, with the reasons against those that
// are impossible here.
func (c *Choices) WhenOptions(kind int) []WhenOption {
	list := append([]WhenOption(nil), whens...)
	best := false
	for i := range list {
		list[i].Impossible = c.against(kind, list[i].When)
		if list[i].Impossible == "" && !best {
			best, list[i].Recommended = true, true
		}
	}
	return list
}

// against is the first reason against a way, "" for none.
func (c *Choices) against(kind int, w answers.When) string {
	h := c.Survey.Host
	now := strings.Contains(string(w), "load-now")
	host := h.Title
	if host == "" {
		host = "this system"
	}
	switch {
	case now && !h.LoadNow:
		return host + " cannot load modules now"
	case now && c.refusedNow(kind) != "":
		return c.refusedNow(kind)
	case strings.Contains(string(w), "persist") && !h.SideTree && !h.OSImage:
		return because(host+" has no way to keep a driver over upgrades", h.Refusal)
	case strings.Contains(string(w), "at-boot") && !h.AtBoot:
		return because(host+" has no way to load at every boot", h.Refusal)
	}
	return ""
}

func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return reason
}

// refusedNow says why the running kernel would not load the chosen image.
func (c *Choices) refusedNow(kind int) string {
	o := c.Kinds[kind].Chosen()
	if o == nil || o.Examined == nil || len(o.Examined.Judgements) == 0 {
		return ""
	}
	j := o.Examined.Judgements[0]
	switch j.Verdict {
	case finding.NoModule:
		return "the image has no module for the running kernel " + j.Release
	case finding.Blocked:
		return "the running kernel would refuse it"
	}
	return ""
}
