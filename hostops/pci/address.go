package pci

import (
	"cmp"
	"fmt"
	"strings"
)

// slot is an address taken apart, for sorting and for comparing without the
// domain. Domains are 16 bits wide on most machines and 32 behind a VMD or on
// some clouds, so the widest form is kept.
type slot struct {
	domain            uint64
	bus, dev, fn      uint64
	hasDomain, parsed bool
}

// parseAddress reads "DOMAIN:BB:DD.F" or "BB:DD.F", hexadecimal, of any domain
// width.
func parseAddress(s string) slot {
	var a slot
	rest, fn, ok := cutLast(s, '.')
	if !ok {
		return slot{}
	}
	parts := strings.Split(rest, ":")
	switch len(parts) {
	case 3:
		a.hasDomain = true
		if a.domain, ok = hex(parts[0], 1, 8); !ok {
			return slot{}
		}
		parts = parts[1:]
	case 2:
	default:
		return slot{}
	}
	var okBus, okDev, okFn bool
	a.bus, okBus = hex(parts[0], 2, 2)
	a.dev, okDev = hex(parts[1], 2, 2)
	a.fn, okFn = hex(fn, 1, 1)
	a.parsed = okBus && okDev && okFn && a.dev < 32 && a.fn < 8
	if !a.parsed {
		return slot{}
	}
	return a
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// hex reads min to max hexadecimal digits and nothing else.
func hex(s string, min, max int) (uint64, bool) {
	if len(s) < min || len(s) > max {
		return 0, false
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		d := strings.IndexByte("0123456789abcdef0123456789ABCDEF", s[i])
		if d < 0 {
			return 0, false
		}
		v = v<<4 | uint64(d%16)
	}
	return v, true
}

// IsAddress says that s is a full PCI address ("0000:03:00.0", any domain
// width).
func IsAddress(s string) bool {
	a := parseAddress(s)
	return a.parsed && a.hasDomain
}

// CompareAddress orders addresses by domain, bus, device and function, as
// numbers; what is no address comes last, by name.
func CompareAddress(x, y string) int {
	a, b := parseAddress(x), parseAddress(y)
	if !a.parsed || !b.parsed {
		if a.parsed != b.parsed {
			if a.parsed {
				return -1
			}
			return 1
		}
		return strings.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.bus, b.bus),
		cmp.Compare(a.dev, b.dev), cmp.Compare(a.fn, b.fn), strings.Compare(x, y))
}

// NoDeviceError says that no function of the node has an address.
type NoDeviceError struct{ Address string }

func (e *NoDeviceError) Error() string {
	return fmt.Sprintf("no PCI function has the address %q", e.Address)
}

// AmbiguousAddressError says that an address without a domain names several
// functions.
type AmbiguousAddressError struct {
	Address string
	Full    []string // the full addresses it could mean
}

func (e *AmbiguousAddressError) Error() string {
	return fmt.Sprintf("the address %q is in more than one PCI domain: write %s",
		e.Address, strings.Join(e.Full, " or "))
}

// Find returns the index in devices of the function that a person's address
// means. A full address means exactly that one; a short one ("04:00.0") is
// accepted only when exactly one domain has it. Errors are *NoDeviceError and
// *AmbiguousAddressError.
func Find(devices []Device, address string) (int, error) {
	want := parseAddress(strings.TrimSpace(address))
	if !want.parsed {
		return 0, &NoDeviceError{address}
	}
	var found []int
	for i, d := range devices {
		a := parseAddress(d.Address)
		if !a.parsed || a.bus != want.bus || a.dev != want.dev || a.fn != want.fn {
			continue
		}
		if !want.hasDomain || a.domain == want.domain {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, &NoDeviceError{address}
	case 1:
		return found[0], nil
	}
	e := &AmbiguousAddressError{Address: address}
	for _, i := range found {
		e.Full = append(e.Full, devices[i].Address)
	}
	return 0, e
}
