package line

import (
	"errors"
	"fmt"
	"time"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/tui/pages"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// screenful is how many lines of a licence are printed between two keys.
const screenful = 20

// licence prints a text and takes its acceptance.
func (s *session) licence(q choice.Question) (bool, error) {
	s.say("", "Licence "+q.Licence.ID+", needed by "+q.For, q.Licence.Digest, "")
	if back, err := s.read(look.Wrap(q.Licence.Text, 77)); back || err != nil {
		return back, err
	}
	ok, err := s.word("accept it", "accept")
	if err != nil {
		return false, err
	}
	if !ok {
		if err := pages.Decline(s.w, s.c, q); err != nil {
			s.say(err.Error())
		}
		s.say("Not accepted: nothing of it is kept. Choose another image, or leave the device alone.")
		return true, nil
	}
	who := s.c.Who
	if who == "" {
		who = "root@" + s.c.Survey.NodeName
	}
	by, err := s.ask("Accepted by (name or mail)", who)
	if err != nil {
		return false, err
	}
	s.c.Accept(q.Licence, by, time.Now())
	return false, nil
}

// read prints a text a screenful at a time.
func (s *session) read(lines []string) (back bool, err error) {
	stops := true
	for i, l := range lines {
		s.say(l)
		if !stops || (i+1)%screenful != 0 || i+1 == len(lines) {
			continue
		}
		text, err := s.ask(fmt.Sprintf("-- line %d of %d -- Enter reads on, e prints the rest, b = back", i+1, len(lines)), "")
		if err != nil || text == "b" {
			return text == "b", err
		}
		stops = text != "e"
	}
	return false, nil
}

// plan resolves the answers, takes the risks that are needed, shows the plan
// and runs it on the typed word.
func (s *session) plan() (int, error) {
	asked := false
	for {
		s.say("", "Making the plan ...")
		p, err := s.w.Plan(s.ctx, s.c.Answers(), nil)
		if err != nil {
			return 0, s.refused(err)
		}
		if len(p.Missing) > 0 {
			if ok, err := s.risks(p); !ok || err != nil {
				return workflow.ExitPerson, err
			}
			continue
		}
		s.say("")
		s.say(choice.PlanLines(p)...)
		if len(p.Restart) > 0 && !asked {
			asked = true
			answer, err := s.ask("Restart the node as a step of the run? "+choice.RestartMeans(p)+" (y, n)", "n")
			if err != nil {
				return 0, err
			}
			if s.c.Restart = answer == "y"; s.c.Restart {
				continue
			}
		}
		if len(p.Steps) == 0 {
			return 0, nil
		}
		ok, err := s.word("run it", "run")
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, errAbort
		}
		run, err := s.w.Start(s.ctx, p)
		if err != nil {
			return 0, err
		}
		s.common.Saved, s.common.SaveNote = pages.SaveAnswers(s.o.AnswersPath, p.Answers)
		return s.follow(run, p)
	}
}

// refused prints the findings of an error before it ends the session.
func (s *session) refused(err error) error {
	var e *workflow.Error
	if errors.As(err, &e) {
		s.findings(e.Findings)
	}
	return err
}

// risks takes each risk by its name; false when one was not taken.
func (s *session) risks(p *plan.Plan) (bool, error) {
	for _, name := range p.Missing {
		means, _ := finding.RiskMeaning(name)
		s.say("", "This plan goes on only with the risk "+name+". "+means)
		for _, f := range p.Findings {
			if f.Risk == name {
				s.findings([]finding.Finding{f})
			}
		}
		ok, err := s.word("take it", name)
		if err != nil || !ok {
			return false, err
		}
		s.c.AcceptRisk(name)
	}
	return true, nil
}

// How often the journal is pulled and progress printed at most.
const (
	pull       = 500 * time.Millisecond
	sayEvery   = 10 * time.Second
	runnerGone = 10 * time.Second
)

// follow prints a run's journal to its end.
func (s *session) follow(run string, p *plan.Plan) (int, error) {
	s.common.Run = run
	s.say("Run " + run + ". It goes on when this ends; come back with:  fitout attach " + run)
	r := journal.Open(s.w.RunDir(run))
	defer r.Close()
	sum := pages.NewTale()
	said, news := time.Time{}, time.Now()
	for {
		events, err := r.Next(0)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			news = time.Now()
			sum.Add(e)
			if l := pages.Line(e); l != "" {
				s.say(l)
			}
			if e.Event == journal.Progress && e.Total > 0 && time.Since(said) > sayEvery {
				said = time.Now()
				s.say(fmt.Sprintf("         %s of %s, %d%%", plan.Size(e.Done), plan.Size(e.Total), e.Done*100/e.Total))
			}
		}
		if sum.Ended || (time.Since(news) > runnerGone && s.w.Current() != run) {
			return s.end(run, p, sum), nil
		}
		select {
		case <-time.After(pull):
		case <-s.ctx.Done():
			return 0, nil
		case <-s.stop:
			s.cancel(run)
		}
	}
}

// cancel asks the run to stop; Ctrl-C means that while it runs.
func (s *session) cancel(run string) {
	c, ok := s.w.(pages.Canceller)
	if !ok {
		s.say("To stop it after this step:  fitout cancel " + run)
		return
	}
	if err := c.Cancel(s.ctx, run); err != nil {
		s.say("Not stopped: " + err.Error())
		return
	}
	s.say("It stops after this step; then what was done is undone.")
}

// end prints the result as the screens do.
func (s *session) end(run string, p *plan.Plan, sum pages.Tale) int {
	s.say("")
	if sum.Outcome == journal.OutcomeDone || sum.Outcome == journal.OutcomeRolledBack {
		s.say(pages.NewResult(s.common, run, p, sum).Text(79)...)
		return sum.Exit
	}
	f := pages.NewFailure(s.common, run, p, sum)
	s.say(f.Text(79)...)
	if sum.Ended {
		return sum.Exit
	}
	return workflow.ExitNotUndone
}
