package workflow

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/hostops/pci"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
)

// choice is one rule of the answers, resolved on this node.
type choice struct {
	rule     answers.Rule
	devices  []int // indexes into Survey.Devices
	examined *Examined
}

func (c choice) loadsNow() bool {
	return c.rule.When == answers.LoadNow || c.rule.When == answers.LoadNowAtBoot || c.rule.When == answers.LoadNowPersist
}

func (c choice) persists() bool {
	return c.rule.When == answers.Persist || c.rule.When == answers.LoadNowPersist
}

func (c choice) atBoot() bool {
	return c.rule.When == answers.AtBoot || c.rule.When == answers.LoadNowAtBoot
}

// resolve finds the devices and the image of every rule. skipped says, one a
// line, what is left alone and why.
func (e *Engine) resolve(ctx context.Context, s *Survey, a *answers.Answers, p image.Progress) (choices []choice, skipped []string, err error) {
	taken := map[int]bool{}
	for i, rule := range a.Devices {
		found := s.Matching(rule.Match, taken)
		found, left, err := s.except(rule, found)
		if err != nil {
			return nil, nil, err
		}
		skipped = append(skipped, left...)
		for _, d := range found {
			taken[d] = true
		}
		if err := checkCount(rule, i, found, s); err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			skipped = append(skipped, fmt.Sprintf("devices[%d] (%s): this node has none, and that is allowed", i, rule.Match.ID))
			continue
		}
		if rule.When == answers.Leave {
			skipped = append(skipped, fmt.Sprintf("devices[%d] (%s): left alone, as the answers say", i, rule.Match.ID))
			continue
		}
		if found, left = s.deliberate(found, a.AcceptRisks); len(found) == 0 {
			skipped = append(skipped, left...)
			continue
		}
		skipped = append(skipped, left...)
		c := choice{rule: rule, devices: found}
		if c.examined, err = e.examineRule(ctx, s, c, a, p); err != nil {
			return nil, nil, err
		}
		choices = append(choices, c)
	}
	extra, err := e.resolveExtra(ctx, s, a, p)
	if err != nil {
		return nil, nil, err
	}
	return append(choices, extra...), skipped, s.unanswered(a, taken)
}

// resolveExtra finds the images of the drivers that belong to no device. Such a
// driver is loaded for its own sake: no device is bound, and none is checked.
func (e *Engine) resolveExtra(ctx context.Context, s *Survey, a *answers.Answers, p image.Progress) ([]choice, error) {
	var choices []choice
	for _, d := range a.Drivers {
		c := choice{rule: answers.Rule{Driver: d.Name, When: d.When}}
		var err error
		if c.examined, err = e.examineRule(ctx, s, c, a, p); err != nil {
			return nil, err
		}
		choices = append(choices, c)
	}
	return choices, nil
}

// Matching lists the functions a rule matches that no earlier rule took, as
// indexes into Devices.
func (s *Survey) Matching(m answers.Match, taken map[int]bool) []int {
	var out []int
	for i, d := range s.Devices {
		if taken[i] || d.State == finding.StateVirtualFunction {
			continue
		}
		if glob(m.ID, d.ID()) && glob(m.Subsystem, d.SubsystemID()) && strings.HasPrefix(d.ClassCode, m.Class) {
			out = append(out, i)
		}
	}
	return out
}

// glob matches a pattern of an answers file; "" matches everything.
func glob(pattern, value string) bool {
	ok, err := path.Match(strings.ToLower(pattern), value)
	return pattern == "" || (err == nil && ok)
}

// except drops the slots a rule leaves alone. A short slot ("17:00.0") stands
// for the one function that has it.
func (s *Survey) except(rule answers.Rule, found []int) (kept []int, left []string, err error) {
	if rule.Except == nil {
		return found, nil, nil
	}
	plain := make([]pci.Device, len(s.Devices))
	for i, d := range s.Devices {
		plain[i] = d.Device
	}
	leave, err := rule.Except.Addresses(plain)
	if err != nil {
		return nil, nil, &Error{Exit: ExitUsage, Code: "no-device", Message: "except: " + err.Error(), Err: err}
	}
	for _, i := range found {
		if slices.Contains(leave, s.Devices[i].Address) {
			left = append(left, s.Devices[i].Address+": left alone, as the answers say (except)")
			continue
		}
		kept = append(kept, i)
	}
	return kept, left, nil
}

// deliberate drops devices that were passed through on purpose, unless that
// risk is accepted.
func (s *Survey) deliberate(found []int, risks []string) (kept []int, left []string) {
	for _, i := range found {
		if d := s.Devices[i]; d.State == finding.StatePassedThrough && !slices.Contains(risks, "passed-through") {
			left = append(left, fmt.Sprintf("%s: bound to %s on purpose; accept the risk passed-through to take it", d.Address, d.Driver))
			continue
		}
		kept = append(kept, i)
	}
	return kept, left
}

func checkCount(rule answers.Rule, i int, found []int, s *Survey) error {
	low, high := 1, -1
	if c := rule.Match.Count; c != nil {
		low = c.Min
		if c.Max != nil {
			high = *c.Max
		}
	}
	if len(found) < low || (high >= 0 && len(found) > high) {
		return stopf(ExitNoMatch, "device-count", "see what is there with: fitout devices --all",
			"devices[%d] wants %s of %s, this node has %d (it has %s)", i, countWords(low, high), rule.Match.ID, len(found), s.kindIDs())
	}
	return nil
}

func countWords(low, high int) string {
	switch {
	case high < 0:
		return fmt.Sprintf("at least %d", low)
	case low == high:
		return fmt.Sprintf("exactly %d", low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func (s *Survey) kindIDs() string {
	var out []string
	for _, k := range s.Kinds {
		out = append(out, fmt.Sprintf("%dx %s", len(k.Devices), k.ID))
	}
	if len(out) == 0 {
		return "no PCI device that needs one"
	}
	return strings.Join(out, ", ")
}

// unanswered stops when the answers ask for it and a device without a driver
// was matched by no rule.
func (s *Survey) unanswered(a *answers.Answers, taken map[int]bool) error {
	if a.OnUnanswered != "fail" {
		return nil
	}
	var open []string
	for i, d := range s.Devices {
		if !taken[i] && (d.State == finding.StateNeedsDriver || d.State == finding.StateNoImage || d.State == finding.StateWrongDriver) {
			open = append(open, d.Address+" ("+d.ID()+")")
		}
	}
	if len(open) > 0 {
		return stopf(ExitPerson, "unanswered", "add a rule for it, or set onUnanswered: leave",
			"no rule of the answers matches %s", strings.Join(open, ", "))
	}
	return nil
}

// examineRule resolves a rule's driver or image and judges it here.
func (e *Engine) examineRule(ctx context.Context, s *Survey, c choice, a *answers.Answers, p image.Progress) (*Examined, error) {
	var o Offer
	switch {
	case c.rule.Driver != "":
		d, ok := e.Catalog.Driver(c.rule.Driver)
		if !ok {
			return nil, stopf(ExitNoMatch, "driver-unknown", "see what there is with: fitout catalog list",
				"the catalog has no driver %q (sources: %s)", c.rule.Driver, strings.Join(e.Catalog.Sources, ", "))
		}
		o = e.offer(s, d, a.OSTag)
		if c.rule.Image != nil {
			for _, k := range s.Kernels {
				o.References[k.Release] = c.rule.Image.Reference
			}
		}
	case c.rule.Image != nil:
		o = e.OfferImage(s, Kind{}, c.rule.Image.Reference)
	default:
		return nil, stopf(ExitFile, "rule-empty", "", "the rule for %s names neither driver nor image", c.rule.Match.ID)
	}
	q := question{offer: o, devices: modaliases(s, c.devices), pins: c.rule.Pins,
		parameters: c.rule.Parameters, accepted: a.AcceptRisks, authFiles: e.authFiles(a), newer: c.persists(),
		terms: e.terms(s, a), known: e.knownLicences(s, a)}
	if l := o.Driver.Licence; l != nil && l.Text != "" {
		if err := q.accepts(nil); err != nil {
			return nil, err
		}
	}
	x, err := e.examine(ctx, s, q, p)
	if err != nil {
		return nil, err
	}
	for _, err := range x.Errors {
		if codeOf(err) == "licence-not-accepted" {
			return nil, err
		}
	}
	// The running kernel's image is what load-now needs; its own error tells
	// more than "no module".
	if rerr := x.Errors[s.Running()]; rerr != nil && c.loadsNow() {
		return nil, rerr
	}
	return x, nil
}

// authFiles are the credential files to ask: that of the answers, then those
// that were typed in the wizard.
func (e *Engine) authFiles(a *answers.Answers) []string {
	if a.Secrets.RegistryAuth == nil {
		return e.typed()
	}
	return append([]string{a.Secrets.RegistryAuth.File}, e.typed()...)
}

// judgement is the answer for one kernel.
func (x *Examined) judgement(release string) *judge.Judgement {
	for i := range x.Judgements {
		if x.Judgements[i].Release == release {
			return &x.Judgements[i]
		}
	}
	return nil
}
