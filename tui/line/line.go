package line

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/tui/pages"
	"fitout/tui/term"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// Options say how line mode is started.
type Options struct {
	In, Out *os.File
	// Reason says why there is no screen ("TERM=dumb").
	Reason      string
	Version     string
	AnswersPath string
	// Begin is the answers file that the choices begin from, nil for none.
	Begin *answers.Answers
	// Watch is a run to follow instead of asking anything.
	Watch string
}

// Outcome is how it ended.
type Outcome struct {
	Exit int
	Run  string
}

// session is one walk through the questions.
type session struct {
	*prompter
	w workflow.Wizard
	c *choice.Choices
	o Options
	// common lends the result pages what they print.
	common *pages.Common
}

// Run asks all questions and follows the run. The error is nil for every end
// that the exit code tells.
func Run(ctx context.Context, w workflow.Wizard, o Options) (Outcome, error) {
	p := newPrompter(ctx, o.In, o.Out)
	defer p.close()
	s := &session{prompter: p, w: w, o: o}
	s.common = &pages.Common{Wizard: w, Theme: look.New(term.Profile{Mode: term.Basic}), Now: time.Now, Context: ctx, AnswersPath: o.AnswersPath,
		SaveDir: filepath.Dir(o.AnswersPath), Program: "fitout " + o.Version}
	exit, err := s.walk()
	out := Outcome{Exit: exit, Run: s.common.Run}
	if errors.Is(err, errAbort) {
		s.say(errAbort.Error())
		out.Exit = workflow.ExitStopped
		return out, nil
	}
	if err != nil {
		out.Exit = workflow.ExitOf(err)
	}
	return out, err
}

// walk asks every question in turn.
func (s *session) walk() (int, error) {
	if s.o.Watch != "" {
		return s.follow(s.o.Watch, nil)
	}
	survey, err := s.w.Survey(s.ctx)
	if err != nil {
		return 0, err
	}
	s.c = choice.New(s.w, survey, "fitout "+s.o.Version)
	if s.o.Begin != nil {
		s.c.Begin(s.w, s.o.Begin)
	}
	s.common.Choices = s.c
	s.say("fitout "+s.o.Version+" on "+survey.NodeName+". Line mode because: "+s.o.Reason+".", s.kernels())
	if run := s.w.Current(); run != "" {
		s.say("The run " + run + " is going on.")
		answer, err := s.ask("Watch it? (y, n)", "y")
		if err != nil || answer != "y" {
			return workflow.ExitLocked, err
		}
		return s.follow(run, nil)
	}
	q := choice.Question{Asked: choice.Hardware}
	for {
		back, err := s.put(q)
		if err != nil {
			return 0, err
		}
		switch {
		case back:
			q = choice.Question{Asked: choice.Hardware}
		case q.Asked == choice.Plan:
			return s.plan()
		case q.Asked == choice.Hardware && len(s.c.Selected()) == 0 && !s.c.Extras():
			s.say("Nothing was chosen; nothing was changed.")
			return 0, nil
		default:
			q = s.c.Next(q)
		}
	}
}

// put asks one question; back goes to the beginning with all answers kept.
func (s *session) put(q choice.Question) (back bool, err error) {
	switch q.Asked {
	case choice.Hardware:
		return false, s.hardware()
	case choice.Maintenance:
		return s.maintenance()
	case choice.Image:
		return s.image(q)
	case choice.Licence:
		return s.licence(q)
	case choice.When:
		return s.when(q)
	}
	return false, nil
}

func (s *session) kernels() string {
	var parts []string
	for _, k := range s.c.Survey.Kernels {
		roles := make([]string, len(k.Roles))
		for i, r := range k.Roles {
			roles[i] = string(r)
		}
		parts = append(parts, strings.Join(roles, " and ")+" "+k.Release)
	}
	text := "Kernels: " + strings.Join(parts, ", ") + ". Catalog " + s.c.Survey.CatalogDate + "."
	if s.c.Survey.Simulated {
		text += " This is a SIMULATED node."
	}
	return text
}

// hardware lists the kinds and takes which to serve.
func (s *session) hardware() error {
	s.say("", "Hardware:")
	var shown []int
	for i, k := range s.c.Survey.Kinds {
		if !choice.Listed(k.State) {
			continue
		}
		shown = append(shown, i)
		driver := k.Driver
		if driver == "" {
			driver = "(none)"
		}
		s.say(fmt.Sprintf("%2d  %dx %s  %s  %s  %s", len(shown), len(k.Devices), k.Name, k.ID, driver, look.State(k.State)))
	}
	if len(shown) == 0 {
		s.say("Nothing to fit out: every device has a driver, or needs none.")
		return nil
	}
	var chosen []string
	for n, i := range shown {
		if s.c.Kinds[i].Selected {
			chosen = append(chosen, strconv.Itoa(n+1))
		}
	}
	for {
		text, err := s.ask("Which? (numbers, 0 = none, c NUMBER = its cards, q = quit)", strings.Join(chosen, " "))
		if err != nil {
			return err
		}
		if number, ok := strings.CutPrefix(text, "c"); ok {
			if err := s.cards(shown, number); err != nil {
				return err
			}
			continue
		}
		if ok := s.choose(shown, text); ok {
			return nil
		}
	}
}

// choose takes numbers; a wrong one is said and nothing is taken.
func (s *session) choose(shown []int, text string) bool {
	take, ok := s.numbers(text, len(shown))
	if !ok {
		return false
	}
	for i := range s.c.Kinds {
		s.c.Kinds[i].Selected = false
	}
	for _, at := range take {
		s.c.Kinds[shown[at]].Selected = true
	}
	return true
}

func (s *session) maintenance() (bool, error) {
	m := s.c.Survey.Maintenance
	s.say("", "Maintenance: "+m.State+". "+m.Why)
	for _, c := range m.Enter {
		s.say("  to empty the node:  " + c)
	}
	for _, c := range m.Leave {
		s.say("  to give it back:    " + c)
	}
	s.say(" 1  look again", " 2  fitout empties the node and gives it back after the run", " 3  go on without (needs the risk not-in-maintenance)")
	otherwise := "1"
	switch s.c.Maintenance {
	case "enter":
		otherwise = "2"
	case "skip":
		otherwise = "3"
	}
	for {
		text, err := s.ask("Maintenance? (b = back)", otherwise)
		if err != nil {
			return false, err
		}
		switch text {
		case "b":
			return true, nil
		case "1":
			survey, err := s.w.Survey(s.ctx)
			if err != nil {
				return false, err
			}
			s.c = s.c.Renew(s.w, survey)
			s.common.Choices = s.c
			if choice.MaintenanceKnown(survey.Maintenance.State) {
				s.c.Maintenance = "required"
				return false, nil
			}
			s.say("It is " + survey.Maintenance.State + ".")
		case "2":
			why := choice.CannotEnter(s.c.Survey.Maintenance)
			if why == "" {
				s.c.Maintenance = "enter"
				return false, nil
			}
			s.say("Not possible: " + why + ".")
		case "3":
			s.c.Maintenance = "skip"
			return false, nil
		}
	}
}

// when asks when a driver is loaded and kept.
func (s *session) when(q choice.Question) (bool, error) {
	k := &s.c.Kinds[q.Kind]
	s.say("", "When, for "+k.Chosen().Name()+":")
	opts := s.c.WhenOptions(q.Kind)
	otherwise := ""
	for i, o := range opts {
		text := fmt.Sprintf("%2d  %s", i+1, o.Title)
		switch {
		case o.Impossible != "":
			text += "  NOT POSSIBLE: " + o.Impossible
		case o.Recommended:
			text += "  recommended"
		}
		if (o.When == k.When && o.Impossible == "") || (k.When == "" && o.Recommended) {
			otherwise = strconv.Itoa(i + 1)
		}
		s.say(text)
	}
	for {
		text, err := s.ask("When? (b = back)", otherwise)
		if err != nil || text == "b" {
			return text == "b", err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(opts) || opts[n-1].Impossible != "" {
			s.say("That cannot be chosen.")
			continue
		}
		k.When = opts[n-1].When
		if strings.Contains(string(k.When), "persist") {
			return false, s.onMissing(k)
		}
		return false, nil
	}
}

func (s *session) onMissing(k *choice.Kind) error {
	for {
		text, err := s.ask("When an OS upgrade brings a kernel without it: stop or continue?", k.OnMissing)
		if err != nil {
			return err
		}
		if text == "stop" || text == "continue" {
			k.OnMissing = text
			return nil
		}
	}
}
