package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fitout/hostops"
	"fitout/workflow/finding"
)

// Document is the plan as `plan --json` prints it.
type Document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Kernel     string            `json:"kernel"`
	Steps      []DocumentStep    `json:"steps"`
	Space      []Space           `json:"space"`
	Risks      []string          `json:"risks"`
	Missing    []string          `json:"missingRisks"`
	Findings   []finding.Finding `json:"findings"`
	Drivers    []Driver          `json:"drivers"`
	Skipped    []string          `json:"skipped"`
	Simulated  bool              `json:"simulated"`
}

// DocumentStep is one numbered step.
type DocumentStep struct {
	N     int      `json:"n"`
	ID    string   `json:"id"`
	Title string   `json:"title"`
	Text  []string `json:"text"`
	Undo  []string `json:"undo"`
	// Estimate is a Go duration ("1m30s"), "0s" for next to nothing.
	Estimate string `json:"estimate"`
	Bytes    int64  `json:"bytes"`
	Into     string `json:"into,omitempty"`
}

// Space is what the plan writes below one directory, and what is free there.
type Space struct {
	Into       string `json:"into"`
	Bytes      int64  `json:"bytes"`
	FreeBytes  uint64 `json:"freeBytes"`
	FreeInodes uint64 `json:"freeInodes"`
	// Unknown says why free space could not be measured, "" when it was.
	Unknown string `json:"unknown,omitempty"`
}

// Estimate is how long the whole plan will take.
func (p *Plan) Estimate() time.Duration {
	var d time.Duration
	for _, s := range p.Steps {
		d += s.Action.Describe().Estimate
	}
	return d
}

// Space sums what is written, by directory, in step order.
func (p *Plan) Space(n *hostops.Node) []Space {
	var out []Space
	for _, s := range p.Steps {
		d := s.Action.Describe()
		if d.Bytes == 0 || d.Into == "" {
			continue
		}
		i := slices.IndexFunc(out, func(sp Space) bool { return sp.Into == d.Into })
		if i < 0 {
			sp := Space{Into: d.Into}
			var err error
			if sp.FreeBytes, sp.FreeInodes, err = n.Free(d.Into); err != nil {
				sp.Unknown = err.Error()
			}
			out, i = append(out, sp), len(out)
		}
		out[i].Bytes += d.Bytes
	}
	return out
}

// Document makes the JSON document of a plan. Lists are never null.
func (p *Plan) Document(n *hostops.Node) Document {
	doc := Document{APIVersion: "fitout/v1", Kind: "Plan", Kernel: p.Kernel, Simulated: n.Simulated(),
		Steps: []DocumentStep{}, Space: list(p.Space(n)), Risks: list(p.Risks), Missing: list(p.Missing),
		Findings: list(p.Findings), Drivers: list(p.Drivers), Skipped: list(p.Skipped)}
	for i, s := range p.Steps {
		d := s.Action.Describe()
		doc.Steps = append(doc.Steps, DocumentStep{N: i + 1, ID: s.ID, Title: d.Title, Text: list(d.Text), Undo: list(d.Undo),
			Estimate: d.Estimate.Round(time.Second).String(), Bytes: d.Bytes, Into: d.Into})
	}
	return doc
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Text is the plan for reading: one line each, nothing cut.
func (p *Plan) Text(n *hostops.Node) []string {
	if len(p.Steps) == 0 {
		return append([]string{"Nothing to do."}, prefixed("not done: ", p.Skipped)...)
	}
	head := fmt.Sprintf("%s, about %s", Count(len(p.Steps), "step"), About(p.Estimate()))
	if p.Kernel != "" {
		head += ", for kernel " + p.Kernel
	}
	if n.Simulated() {
		head += " (simulated: kernel calls and commands have no effect)"
	}
	lines := []string{head}
	for _, s := range p.Space(n) {
		free := Size(int64(s.FreeBytes)) + " free"
		if s.Unknown != "" {
			free = s.Unknown
		}
		lines = append(lines, fmt.Sprintf("  %s into %s (%s)", Size(s.Bytes), s.Into, free))
	}
	for i, s := range p.Steps {
		d := s.Action.Describe()
		lines = append(lines, "", fmt.Sprintf("%2d %-10s %s", i+1, s.ID, d.Title))
		lines = append(lines, prefixed("     ", d.Text)...)
		if len(d.Undo) == 0 {
			lines = append(lines, "   undo: nothing to undo")
			continue
		}
		lines = append(lines, "   undo:")
		lines = append(lines, prefixed("     ", d.Undo)...)
	}
	return append(lines, p.notes()...)
}

// notes are the lines under the steps: what was accepted, what must be, what
// is left out.
func (p *Plan) notes() []string {
	var lines []string
	for _, f := range p.Findings {
		lines = append(lines, fmt.Sprintf("%s %s: %s", f.Severity, f.Code, f.Message))
	}
	for _, r := range p.Risks {
		if !slices.Contains(p.Missing, r) {
			lines = append(lines, "risk accepted: "+r)
		}
	}
	for _, r := range p.Missing {
		lines = append(lines, "risk to be accepted: "+r+"   (--accept-risk "+r+")")
	}
	lines = append(lines, prefixed("not done: ", p.Skipped)...)
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}

func prefixed(prefix string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = prefix + l
	}
	return out
}

// Count says "1 step", "3 steps".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// About is a duration as a person says it after "about": "a second", "12 s",
// "4 min", "1.5 h".
func About(d time.Duration) string {
	switch {
	case d < 1500*time.Millisecond:
		return "a second"
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// Size is a number of bytes for people, three digits at most: "412 MB".
func Size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	f, u := float64(n), 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if u == 0 || f >= 9.95 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return strings.Replace(fmt.Sprintf("%.1f %s", f, units[u]), ".0 ", " ", 1)
}
