package workflow

import (
	"fmt"
	"slices"
	"strings"

	"fitout/catalog"
	"fitout/hostops/kmod"
	"fitout/hostops/pci"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// passThrough are drivers that hold a device for somebody else on purpose.
var passThrough = []string{"vfio-pci", "pci-stub", "xen-pciback", "uio_pci_generic"}

// noDriverClasses are class code prefixes of what works without a driver when
// none is known: bridges, memory, base peripherals, processors.
var noDriverClasses = []string{"06", "05", "08", "0b", "ff00"}

// look judges devices against what the running kernel and the catalog know.
type look struct {
	e       *Engine
	tables  *kmod.Tables // nil when the running kernel's modules are gone
	gone    bool
	release string
	records []run.Record
	loaded  map[string]kmod.LoadedModule
}

func (e *Engine) newLook(s *Survey) *look {
	l := &look{e: e, loaded: map[string]kmod.LoadedModule{}}
	if len(s.Kernels) > 0 {
		l.release = s.Kernels[0].Release
		if l.gone = !e.Node.Exists(s.Kernels[0].Dir); !l.gone {
			l.tables = kmod.OpenTables(e.Node, s.Kernels[0].Dir)
		}
	}
	l.records, _ = run.Installed(e.Node, s.Host.StateDir)
	if mods, err := kmod.Loaded(e.Node); err == nil {
		for _, m := range mods {
			l.loaded[m.Name] = m
		}
	}
	return l
}

// device gives one function its state, its findings and its candidates.
func (l *look) device(d pci.Device) Device {
	dev := Device{Device: d}
	if d.Unreadable != "" {
		dev.Findings = append(dev.Findings, finding.New("unreadable", d.Unreadable))
	}
	if d.PhysFn != "" {
		dev.State = finding.StateVirtualFunction
		return dev
	}
	if hasClass(d.ClassCode, "06") { // a bridge works without a driver
		dev.State = finding.StateNotNeeded
		return dev
	}
	matches := l.e.Catalog.Match(d.Modalias)
	var inTree []kmod.Candidate
	if l.tables != nil && d.Driver == "" {
		inTree = l.tables.Match(d.Modalias)
		dev.NearMisses = l.tables.NearMisses(d.Modalias)
	}
	for _, c := range inTree {
		dev.Candidates = append(dev.Candidates, Candidate{Module: c.Module, Source: "in-tree"})
	}
	for _, m := range matches {
		for _, mod := range m.Driver.Modules {
			dev.Candidates = append(dev.Candidates, Candidate{Module: mod, Source: "image"})
		}
	}
	if d.Driver != "" {
		l.bound(&dev, matches)
	} else {
		l.unbound(&dev, matches, inTree)
	}
	return dev
}

func (l *look) bound(dev *Device, matches []catalog.Match) {
	switch rec := l.recordFor(dev.Device); {
	case slices.Contains(passThrough, dev.Driver):
		dev.State = finding.StatePassedThrough
		dev.Findings = append(dev.Findings, finding.New("passed-through", dev.Address, dev.Driver))
	case rec != nil:
		dev.State = finding.StateOK
		for _, m := range matches {
			ref, _, err := m.Driver.Resolve(l.release, l.e.vars(rec.Driver.OSTag))
			if m.Driver.Name == rec.Driver.Name && err == nil && ref != rec.Driver.Image {
				dev.State = finding.StateUpdate
				dev.Findings = append(dev.Findings, finding.New("update-available", rec.Driver.Image, ref))
			}
		}
	default:
		dev.State = finding.StateOK
		for _, m := range matches {
			if slices.Contains(m.Driver.Replaces, dev.Driver) {
				dev.State = finding.StateWrongDriver
				dev.Findings = append(dev.Findings, finding.New("wrong-driver", dev.Driver, m.Driver.Name))
				break
			}
		}
	}
}

func (l *look) unbound(dev *Device, matches []catalog.Match, inTree []kmod.Candidate) {
	switch {
	case len(matches) > 0:
		dev.State = finding.StateNeedsDriver
		dev.Findings = append(dev.Findings, finding.New("no-driver", "the catalog has "+matches[0].Driver.Name))
	case len(inTree) > 0:
		dev.State = finding.StateNeedsDriver
		dev.Findings = append(dev.Findings, l.inTreeFinding(inTree))
	case hasClass(dev.ClassCode, noDriverClasses...):
		dev.State = finding.StateNotNeeded
	default:
		dev.State = finding.StateNoImage
		dev.Findings = append(dev.Findings, finding.New("no-image", dev.ID()))
	}
	if l.gone && dev.State != finding.StateNotNeeded {
		dev.Findings = append(dev.Findings, finding.New("modules-gone", l.release))
	}
	if len(inTree) == 0 && len(dev.NearMisses) > 0 && dev.State != finding.StateNotNeeded {
		dev.Findings = append(dev.Findings, finding.New("near-miss", strings.Join(dev.NearMisses, ", "), dev.ID()))
	}
}

// inTreeFinding says why a device is unbound although the kernel has a module.
func (l *look) inTreeFinding(c []kmod.Candidate) finding.Finding {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Module
	}
	all := strings.Join(names, ", ")
	if _, ok := l.loaded[names[0]]; ok {
		return finding.New("driver-did-not-bind", all)
	}
	return finding.New("driver-not-loaded", all, fmt.Sprintf("modprobe %s", names[0]))
}

// recordFor is the record of an installed driver that drives d now.
func (l *look) recordFor(d pci.Device) *run.Record {
	for i, r := range l.records {
		if slices.Contains(r.Driver.Modules, strings.ReplaceAll(d.Module, "-", "_")) && slices.Contains(r.Driver.DeviceIDs, d.ID()) {
			return &l.records[i]
		}
	}
	return nil
}

func hasClass(code string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(code, p) })
}

// shortVendor is a vendor's everyday name: the short form in brackets where the
// database has one, else the name without its legal form.
func shortVendor(v string) string {
	if i := strings.LastIndexByte(v, '['); i >= 0 && strings.HasSuffix(v, "]") && len(v)-i <= 14 {
		return strings.Split(v[i+1:len(v)-1], "/")[0]
	}
	for _, cut := range []string{" Corporation", " Corp.", ", Inc.", " Inc.", " Co., Ltd.", " Ltd.", " GmbH", " Technologies", " Semiconductor"} {
		v = strings.TrimSuffix(v, cut)
	}
	return v
}
