package line

import (
	"fmt"
	"strconv"
	"strings"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/tui/pages"
	"fitout/workflow/finding"
)

// image reads the images for a kind, lists them with their verdicts, and takes
// one.
func (s *session) image(q choice.Question) (bool, error) {
	k := &s.c.Kinds[q.Kind]
	for {
		s.examine(q)
		otherwise := s.listImages(q)
		text, err := s.ask("Image? (number, w NUMBER = why, c = another image, b = back)", otherwise)
		switch {
		case err != nil || text == "b":
			return text == "b", err
		case text == "c":
			if err := s.custom(q); err != nil {
				return false, err
			}
			continue
		case strings.HasPrefix(text, "w"):
			s.why(k, strings.TrimSpace(text[1:]))
			continue
		case text == "0":
			k.Pick = choice.Leave
			return false, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(k.Offers) {
			s.noSuch(text)
			continue
		}
		if ok, why := k.Offers[n-1].Usable(); !ok {
			s.say("Not possible: " + why)
			continue
		}
		if k.Pick != n-1 {
			k.When = ""
		}
		k.Pick = n - 1
		if terms := pages.Licences(k.Offers[n-1].Examined); terms != "" {
			s.say("Licence: " + terms + ".")
		}
		return false, nil
	}
}

// examine reads the images that were not read yet.
func (s *session) examine(q choice.Question) {
	for i := range s.c.Kinds[q.Kind].Offers {
		o := &s.c.Kinds[q.Kind].Offers[i]
		if o.Examined == nil && o.Err == nil {
			s.say("Reading " + o.Name() + " ...")
			o.Examined, o.Err = s.w.Examine(s.ctx, s.c.Survey, s.c.Survey.Kinds[q.Kind], o.Offer, nil)
		}
	}
}

func (s *session) listImages(q choice.Question) (otherwise string) {
	kind, k := s.c.Survey.Kinds[q.Kind], &s.c.Kinds[q.Kind]
	s.say("", fmt.Sprintf("Image for %dx %s (%s):", len(kind.Devices), kind.Name, kind.ID))
	best, rule := k.Recommended()
	for i := range k.Offers {
		o := &k.Offers[i]
		text := fmt.Sprintf("%2d  %s", i+1, o.Name())
		switch {
		case o.Err != nil:
			text += "  UNREADABLE: " + o.Err.Error()
		default:
			for _, j := range o.Examined.Judgements {
				text += "  " + j.Release + " " + look.Verdict(j.Verdict)
			}
		}
		if i == best {
			text += "  recommended"
		}
		s.say(text)
	}
	s.say(" 0  leave it alone")
	if best >= 0 {
		s.say("Recommended is " + rule + ".")
		otherwise = strconv.Itoa(best + 1)
	}
	switch {
	case k.Pick >= 0:
		otherwise = strconv.Itoa(k.Pick + 1)
	case k.Pick == choice.Leave:
		otherwise = "0"
	}
	return otherwise
}

// why prints the checks behind the verdicts of an offer.
func (s *session) why(k *choice.Kind, number string) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(k.Offers) {
		s.say("w and a number of the list, for example: w 1")
		return
	}
	o := &k.Offers[n-1]
	if o.Err != nil {
		s.say(o.Err.Error())
		return
	}
	for _, j := range o.Examined.Judgements {
		s.say("", o.Name()+" on "+j.Release+": "+look.Verdict(j.Verdict)+". "+finding.VerdictSentence(j.Verdict))
		for _, c := range j.Checks {
			s.say("  " + c.Name + ": " + c.Result + "  " + c.Detail)
		}
		s.findings(j.Findings)
	}
}

func (s *session) findings(list []finding.Finding) {
	for _, f := range list {
		s.say("  " + string(f.Severity) + ": " + f.Message)
		if f.Hint != "" {
			s.say("  cure: " + f.Hint)
		}
		for _, e := range f.Evidence {
			s.say("    | " + e)
		}
	}
}

// custom takes an image by hand, with credentials where they are needed.
func (s *session) custom(q choice.Question) error {
	reference, err := s.ask("Image reference, or path of an archive or layout", "")
	if err != nil || reference == "" {
		return err
	}
	user, err := s.ask("User (empty: none is needed)", "")
	if err != nil {
		return err
	}
	if user != "" {
		if err := s.login(reference, user); err != nil {
			return err
		}
	}
	s.c.Give(s.w, q.Kind, reference)
	return nil
}

// login keeps credentials for the run, longer only when asked.
func (s *session) login(reference, user string) error {
	password, err := s.secret("Password")
	if err != nil {
		return err
	}
	r, ok := s.w.(pages.Registrar)
	if !ok {
		s.say("Passwords are read from the node's own docker or podman credentials here.")
		return nil
	}
	keep, err := s.ask("Keep user and password on this node for the next runs? (y, n)", "n")
	if err != nil {
		return err
	}
	file, err := r.Login(s.ctx, reference, user, password, keep == "y")
	if err != nil {
		s.say("Not taken: " + err.Error())
		return nil
	}
	s.c.RegistryAuth = file
	s.c.ReadAgain()
	return nil
}
