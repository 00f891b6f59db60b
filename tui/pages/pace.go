package pages

import (
	"time"

	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// pace measures a step's rate and guesses the time that is left. The guess is
// shown only while it falls: one that grows is worse than none, and so is one for a
// step that has taken longer than it was thought to.
type pace struct {
	step  int
	began time.Time
	from  int64
	at    time.Time
	done  int64

	rate  int64         // bytes a second of the step under way, 0 unknown
	left  time.Duration // 0: not shown
	last  time.Duration
	falls int
}

// falling is how often in a row the guess must have fallen to be shown.
const falling = 3

// add takes the state at a time.
func (p *pace) add(now time.Time, s journal.Summary, made *plan.Plan) {
	if s.Current < 0 {
		p.rate = 0
		return
	}
	step := s.Steps[s.Current]
	if s.Current != p.step || p.began.IsZero() || step.Done < p.done {
		*p = pace{step: s.Current, began: now, from: step.Done, last: p.last, falls: p.falls}
	}
	p.done, p.at = step.Done, now
	p.rate = 0
	if span := now.Sub(p.began); span >= time.Second && step.Done > p.from {
		p.rate = int64(float64(step.Done-p.from) / span.Seconds())
	}
	p.guess(now, s, made)
}

// guess adds what is left of this step to the estimates of those to come.
func (p *pace) guess(now time.Time, s journal.Summary, made *plan.Plan) {
	if made == nil || len(made.Steps) != len(s.Steps) {
		return
	}
	step := s.Steps[s.Current]
	var left time.Duration
	if p.rate > 0 && step.Total > step.Done {
		left = time.Duration(float64(step.Total-step.Done) / float64(p.rate) * float64(time.Second))
	} else if left = made.Steps[s.Current].Action.Describe().Estimate - now.Sub(step.Began); left <= 0 {
		// It takes longer than was thought: nobody knows how long.
		p.left, p.last, p.falls = 0, 0, 0
		return
	}
	for _, next := range made.Steps[s.Current+1:] {
		left += next.Action.Describe().Estimate
	}
	if p.last > 0 && left < p.last {
		p.falls++
	} else if left > p.last {
		p.falls = 0
	}
	p.last = left
	p.left = 0
	if p.falls >= falling {
		p.left = left
	}
}
