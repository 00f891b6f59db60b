package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fitout/catalog/module"
	"fitout/workflow/finding"
)

// chooseModules decides what is to be loaded for its own sake: what the
// catalog names, else what lists the devices, else everything.
func (x *examination) chooseModules() {
	for _, name := range x.in.Modules {
		x.targets = append(x.targets, module.Normalize(name))
	}
	if len(x.targets) == 0 {
		x.targets = x.serving()
	}
	x.wanted = make(map[string]bool, len(x.targets))
	for _, name := range x.targets {
		x.wanted[name] = true
	}
}

// serving are the modules that list a device; without devices all modules.
func (x *examination) serving() []string {
	var names []string
	for name, m := range x.byName {
		if len(x.in.Devices) == 0 || slices.ContainsFunc(x.in.Devices, func(d string) bool { return lists(m.Info, d) }) {
			names = append(names, name)
		}
	}
	if len(x.in.Devices) == 0 {
		names = slices.AppendSeq(names, maps.Keys(x.unusable))
	}
	slices.Sort(names)
	slices.Reverse(names) // the order is made from the end
	return names
}

func lists(m *module.Info, modalias string) bool {
	return slices.ContainsFunc(m.Aliases, func(a string) bool { return module.MatchAlias(a, modalias) })
}

// checkHardware decides by the aliases of the very module files, never by a
// module's name.
func (x *examination) checkHardware() {
	if len(x.in.Devices) == 0 {
		return
	}
	var served []string
	missing := 0
	for _, d := range x.in.Devices {
		if pattern := x.excluded(d); pattern != "" {
			x.add(finding.New("device-excluded", deviceID(d)).With("excluded by the catalog: "+pattern, "modalias: "+d))
			missing++
			continue
		}
		by := x.listing(d)
		if len(by) == 0 {
			x.notListed(d)
			missing++
			continue
		}
		x.sharedWith(d, by)
		served = append(served, deviceID(d)+" by "+strings.Join(by, ", "))
	}
	if missing > 0 {
		x.check("hardware", Fails, "%d of %d device(s) not served", missing, len(x.in.Devices))
		return
	}
	x.check("hardware", Passed, "%s", strings.Join(few(served), "; "))
}

// sharedWith notes modules of the host that list the device too, neither of the
// same name nor replaced.
func (x *examination) sharedWith(d string, by []string) {
	if x.in.Kernel == nil {
		return
	}
	var others []string
	for _, c := range x.in.Kernel.Tables.Match(d) {
		if x.byName[c.Module] == nil && !x.replaced(c.Module) {
			others = append(others, c.Module)
		}
	}
	if len(others) > 0 {
		x.add(finding.New("alias-shared", deviceID(d), strings.Join(by, ", "), strings.Join(others, ", ")))
	}
}

func (x *examination) excluded(modalias string) string {
	for _, pattern := range x.in.Except {
		if module.MatchAlias(pattern, modalias) {
			return pattern
		}
	}
	return ""
}

// listing are the modules of the build that list a device: those to be loaded
// or what they bring along.
func (x *examination) listing(modalias string) []string {
	var names []string
	for name, m := range x.byName {
		if lists(m.Info, modalias) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (x *examination) notListed(d string) {
	f := finding.New("alias-missing", deviceID(d)).With("modalias: " + d)
	for _, near := range x.nearMisses(d) {
		f = f.With(near)
	}
	x.add(f)
}

// nearMisses are modules of the image that list other devices of the vendor:
// "ice is there, and its list lacks 8086:fff1".
func (x *examination) nearMisses(d string) []string {
	vendor := d
	if i := strings.IndexAny(d, "dp"); strings.HasPrefix(d, "pci:v") {
		vendor = d[:len("pci:v00008086d")]
	} else if i > 0 {
		vendor = d[:i]
	}
	var out []string
	for name, m := range x.byName {
		n := 0
		for _, a := range m.Info.Aliases {
			if strings.HasPrefix(a, vendor) {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s is there and lists %d other device(s) of this vendor, not %s", name, n, deviceID(d)))
		}
	}
	slices.Sort(out)
	return few(out)
}

// deviceID is the vendor:device pair of a PCI modalias, else the modalias.
func deviceID(modalias string) string {
	const shape = "pci:v00008086d000010D3"
	if strings.HasPrefix(modalias, "pci:v") && len(modalias) >= len(shape) {
		return strings.ToLower(modalias[9:13] + ":" + modalias[18:22])
	}
	return modalias
}

// checkMachine compares the processor.
func (x *examination) checkMachine() {
	want, ok := machines[x.in.Machine]
	if !ok {
		return
	}
	bad := 0
	for _, m := range x.imageSteps() {
		if m.Info.Machine != want {
			bad++
			x.add(finding.New("wrong-machine", file(m), machineName(m.Info.Machine), x.in.Machine))
		}
	}
	if bad > 0 {
		x.check("processor", Differs, "%d module(s) for another processor", bad)
	} else if len(x.imageSteps()) > 0 {
		x.check("processor", Passed, "%s", x.in.Machine)
	}
}
