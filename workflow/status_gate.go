package workflow

import (
	"slices"
	"strings"

	"fitout/hostops/host"
)

// gateText says what an upgrade would meet that loses a driver kept over upgrades.
func (s *Status) gateText() []string {
	if !slices.ContainsFunc(s.Drivers, func(d DriverStatus) bool { return strings.Contains(string(d.When), "persist") }) {
		return nil
	}
	text := "an upgrade that would lose a driver is stopped"
	switch {
	case s.Gate.Strength == host.NoGate:
		text = "none, nothing here stops an upgrade that would lose a driver; ask beforehand: fitout check --kernel KERNEL"
	case !s.Gate.Armed:
		text = "NOT ARMED, a file or a record of it is missing or damaged"
	case s.Gate.Strength == host.Advisory:
		text = "an upgrade that would lose a driver is reported, it cannot be stopped here"
	}
	out := []string{"", "Upgrade gate: " + text}
	for _, kernel := range s.Gate.Allowed {
		out = append(out, "  let through once (fitout allow): "+kernel)
	}
	return out
}
