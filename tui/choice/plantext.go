package choice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fitout/tui/look"
	"fitout/workflow/plan"
)

// PlanSize says how much a plan does ("7 steps, about 4 min, 1.1 GB in
// /var/lib/fitout").
func PlanSize(p *plan.Plan) string {
	parts := []string{plan.Count(len(p.Steps), "step"), "about " + plan.About(p.Estimate())}
	into := map[string]int64{}
	var order []string
	for _, s := range p.Steps {
		d := s.Action.Describe()
		if d.Bytes > 0 {
			if _, ok := into[d.Into]; !ok {
				order = append(order, d.Into)
			}
			into[d.Into] += d.Bytes
		}
	}
	for _, dir := range order {
		text := plan.Size(into[dir])
		if dir != "" {
			text += " in " + dir
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// PlanLines is a whole plan as text: each step with its exact commands and
// files and its undo. Nothing is cut.
func PlanLines(p *plan.Plan) []string {
	if len(p.Steps) == 0 {
		return append([]string{"Nothing to do."}, p.Skipped...)
	}
	lines := []string{PlanSize(p)}
	for i, s := range p.Steps {
		d := s.Action.Describe()
		lines = append(lines, "", fmt.Sprintf("%d %s  %s  (about %s)", i+1, s.ID, d.Title, plan.About(d.Estimate.Round(time.Second))))
		for _, t := range d.Text {
			lines = append(lines, "    "+look.Line(t))
		}
		for _, u := range d.Undo {
			lines = append(lines, "  undo: "+look.Line(u))
		}
	}
	if notes := PlanNotes(p); len(notes) > 0 {
		lines = append(append(lines, ""), notes...)
	}
	return lines
}

// RestartMeans says what a restart as a step of the run would do.
func RestartMeans(p *plan.Plan) string {
	return "It brings " + strings.Join(p.Restart, ", ") + " into use; the run goes on after the boot and checks."
}

// PlanNotes are what goes with a plan: findings, risks, what is left out.
func PlanNotes(p *plan.Plan) []string {
	var lines []string
	for _, f := range p.Findings {
		lines = append(lines, look.Line(string(f.Severity)+": "+f.Message))
	}
	for _, r := range p.Risks {
		if !slices.Contains(p.Missing, r) {
			lines = append(lines, "risk taken: "+r)
		}
	}
	for _, s := range p.Skipped {
		lines = append(lines, "not done: "+look.Line(s))
	}
	return lines
}
