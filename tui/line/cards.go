package line

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fitout/tui/look"
)

// cards lists the cards of one kind and takes which of them are left alone.
// That binds the answers file to this node.
func (s *session) cards(shown []int, number string) error {
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > len(shown) {
		s.say("c and a number of the list, for example: c 1")
		return nil
	}
	kind, k := s.c.Survey.Kinds[shown[n-1]], &s.c.Kinds[shown[n-1]]
	if len(kind.Devices) < 2 {
		s.say("There is one such card only; leave its number out of the list instead.")
		return nil
	}
	var alone []string
	for i, at := range kind.Devices {
		d := s.c.Survey.Devices[at]
		driver := d.Driver
		if driver == "" {
			driver = "(none)"
		}
		s.say(fmt.Sprintf("%2d  %s  %s  %s", i+1, d.Address, driver, look.State(d.State)))
		if slices.Contains(k.Except, d.Address) {
			alone = append(alone, strconv.Itoa(i+1))
		}
	}
	text, err := s.ask("Leave which alone? (numbers, 0 = none)", strings.Join(alone, " "))
	if err != nil {
		return err
	}
	take, ok := s.numbers(text, len(kind.Devices))
	switch {
	case !ok:
		return nil
	case len(take) == len(kind.Devices):
		s.say("That would leave all of them alone; leave the kind's number out of the list instead.")
		return nil
	}
	k.Except = nil
	for _, i := range take {
		k.Except = append(k.Except, s.c.Survey.Devices[kind.Devices[i]].Address)
	}
	if len(take) > 0 {
		s.say("Left alone: " + strings.Join(k.Except, ", ") + ". The answers file is bound to this node then.")
	}
	return nil
}

// noSuch says that an answer is no line of the list.
func (s *session) noSuch(text string) {
	if text == "" {
		s.say("There is no default here: answer with a number of the list.")
		return
	}
	s.say("There is no " + text + " in the list.")
}

// numbers reads numbers of a list of n lines as indexes, each once; 0 stands
// for none. What is no such number is said.
func (s *session) numbers(text string, n int) (at []int, ok bool) {
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		i, err := strconv.Atoi(f)
		if err != nil || i < 0 || i > n {
			s.noSuch(f)
			return nil, false
		}
		if i > 0 && !slices.Contains(at, i-1) {
			at = append(at, i-1)
		}
	}
	return at, true
}
