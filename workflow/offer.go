package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fitout/catalog"
	"fitout/workflow/finding"
)

// vars are the template values of this node that do not depend on a kernel; an
// empty tag is the engine's.
func (e *Engine) vars(osTag string) catalog.Vars {
	release, _ := e.Node.ReadFile("/etc/os-release")
	return catalog.Vars{OSRelease: string(release), Machine: e.Node.Kernel.Machine(), OSTag: cmp.Or(osTag, e.OSTag)}
}

// Offers lists the catalog's drivers for a kind, best match first, with the
// image reference for every kernel that may boot. No network.
func (e *Engine) Offers(s *Survey, k Kind) []Offer {
	if len(k.Devices) == 0 {
		return nil
	}
	var out []Offer
	for _, m := range e.Catalog.Match(s.Devices[k.Devices[0]].Modalias) {
		o := e.offer(s, m.Driver, "")
		o.Ambiguous = m.Ambiguous
		out = append(out, o)
	}
	return append(out, e.openOffers(s, k)...)
}

// openOffers are the entries that name no devices: the aliases of the image's
// own modules tell whether they serve this kind, which needs the image. They
// are offered where a driver is missing and an image is mapped.
func (e *Engine) openOffers(s *Survey, k Kind) []Offer {
	if k.State != finding.StateNoImage && k.State != finding.StateNeedsDriver {
		return nil
	}
	var out []Offer
	for _, d := range e.Catalog.Drivers {
		if len(d.Match) > 0 {
			continue
		}
		if o := e.offer(s, d, ""); len(o.References) > 0 {
			o.Why = "its entry names no devices: the image's own modules tell\n" + o.Why
			out = append(out, o)
		}
	}
	return out
}

func (e *Engine) offer(s *Survey, d catalog.Driver, osTag string) Offer {
	o := Offer{Driver: d, References: map[string]string{}, osTag: osTag}
	var why []string
	for _, kernel := range s.Kernels {
		ref, reason, err := d.Resolve(kernel.Release, e.vars(osTag))
		if err != nil {
			why = append(why, fmt.Sprintf("%s: %v", kernel.Release, err))
			continue
		}
		o.References[kernel.Release] = ref
		why = append(why, fmt.Sprintf("%s: %s", kernel.Release, reason))
	}
	if d.Unverified {
		why = append(why, "unverified: nobody could compare this entry with its registry")
	}
	o.Why = strings.Join(why, "\n")
	return o
}

// givenByHand is the source of a driver that no catalog has.
const givenByHand = "given by hand"

// OfferImage makes an offer of a reference or file given by hand. The modules
// that fit are found by the aliases of the image's own modules.
func (e *Engine) OfferImage(s *Survey, _ Kind, reference string) Offer {
	o := Offer{
		Driver:     catalog.Driver{Name: imageName(reference), Title: reference, Source: givenByHand},
		References: map[string]string{},
		Why:        givenByHand,
	}
	for _, kernel := range s.Kernels {
		o.References[kernel.Release] = reference
	}
	return o
}

// imageName makes a driver name of a reference: the last path element without
// tag, digest and suffix, in the alphabet of names.
func imageName(reference string) string {
	name := reference
	if i := strings.IndexByte(name, '@'); i >= 0 {
		name = name[:i]
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	for _, suffix := range []string{".tar.gz", ".tar.zst", ".tar", ".tgz"} {
		name = strings.TrimSuffix(name, suffix)
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-._"); name == "" {
		return "image"
	}
	return name
}

// releases lists the releases of all kernels that may boot, once each.
func (s *Survey) releases() []string {
	var out []string
	for _, k := range s.Kernels {
		if !slices.Contains(out, k.Release) {
			out = append(out, k.Release)
		}
	}
	return out
}

// Running is the release of the running kernel.
func (s *Survey) Running() string {
	if len(s.Kernels) == 0 {
		return ""
	}
	return s.Kernels[0].Release
}

// OfferDriver makes an offer of a catalog entry, whether a device here needs it
// or not.
func (e *Engine) OfferDriver(s *Survey, d catalog.Driver) Offer { return e.offer(s, d, "") }
