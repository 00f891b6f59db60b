package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/workflow/finding"
)

// checkBuiltin: what is compiled in can be neither replaced nor unloaded.
func (x *examination) checkBuiltin() {
	if x.in.Kernel == nil {
		return
	}
	var found []string
	look := func(name string) {
		if name = module.Normalize(name); x.builtin(name) && !slices.Contains(found, name) {
			found = append(found, name)
			x.add(finding.New("builtin", name).With(x.in.Kernel.Dir + "/modules.builtin lists it"))
		}
	}
	for _, m := range x.imageSteps() {
		look(m.Info.Name)
	}
	for _, name := range x.in.Replaces {
		look(name)
	}
	if len(found) > 0 {
		x.check("built in", Fails, "%s", strings.Join(found, ", "))
	} else {
		x.check("built in", Passed, "nothing of it is compiled into the kernel")
	}
}

// checkLoaded compares what is loaded with what would be.
func (x *examination) checkLoaded() {
	if x.in.Loaded == nil {
		return
	}
	var words []string
	for _, m := range x.imageSteps() {
		have, ok := x.loaded[m.Info.Name]
		if !ok {
			continue
		}
		if sameBuild(have, m.Info) {
			words = append(words, m.Info.Name+" is loaded, the same build")
			x.add(finding.New("loaded", m.Info.Name).With(buildWords("", m.Info.Srcversion, m.Info.BuildID)))
			continue
		}
		words = append(words, m.Info.Name+" is loaded in another build")
		x.add(finding.New("loaded-other-version", m.Info.Name, buildWords(have.Version, have.Srcversion, have.BuildID), buildWords(m.Info.Version, m.Info.Srcversion, m.Info.BuildID)))
	}
	for _, name := range x.in.Replaces {
		name = module.Normalize(name)
		if _, ok := x.loaded[name]; ok && x.byName[name] == nil {
			words = append(words, name+" is loaded and goes")
			f := finding.New("in-tree-loaded", name)
			if x.in.Kernel != nil {
				for _, by := range x.in.Kernel.Tables.PulledInBy(name) {
					f = f.With(by.String())
				}
			}
			x.add(f)
		}
	}
	if len(words) == 0 {
		words = []string{"none of its modules is loaded"}
	}
	x.check("already loaded", Passed, "%s", strings.Join(words, "; "))
}

// buildWords name a build by what it says of itself. Distributions build modules
// without srcversions: the linker's build id is left then.
func buildWords(version, srcversion, buildID string) string {
	switch {
	case version != "" && srcversion != "":
		return version + " (srcversion " + srcversion + ")"
	case version != "":
		return version
	case srcversion != "":
		return "srcversion " + srcversion
	case buildID != "":
		return "build id " + buildID
	}
	return "a build that does not say its version"
}

// common are parameters that every module takes (kernel/module/main.c,
// unknown_module_param_cb; dynamic_debug.c).
var common = []string{"async_probe", "dyndbg"}

// checkParameters: the kernel ignores unknown ones with a line in its log, and
// refuses the load for a value it cannot read.
func (x *examination) checkParameters() {
	before := len(x.findings)
	n := 0
	for _, name := range sortedModules(x.in.Parameters) {
		m := x.byName[module.Normalize(name)]
		for _, p := range x.in.Parameters[name] {
			n++
			if m == nil {
				x.add(finding.New("parameter-unknown", name, p, ": the image has no such module"))
				continue
			}
			x.checkParameter(m, p)
		}
	}
	if n == 0 {
		return
	}
	if found := x.findings[before:]; len(found) > 0 {
		x.check("parameters", Fails, "%s", found[0].Message)
	} else {
		x.check("parameters", Passed, "%d known", n)
	}
}

func sortedModules(m map[string][]string) []string {
	keys := map[string]bool{}
	for k := range m {
		keys[k] = true
	}
	return sortedKeys(keys)
}

func (x *examination) checkParameter(m *image.Module, setting string) {
	name, value, given := strings.Cut(setting, "=")
	if slices.Contains(common, name) {
		return
	}
	for _, p := range m.Info.Parameters {
		if module.Normalize(p.Name) != module.Normalize(name) {
			continue
		}
		if bad := badValue(p.Type, value, given); bad != "" {
			x.add(finding.New("parameter-invalid", m.Info.Name, name, bad).With("given: "+setting, "type: "+p.Type))
		}
		return
	}
	hint := ""
	if near := nearNames(name, m.Info.Parameters); len(near) > 0 {
		hint = "; it has " + strings.Join(near, ", ")
	}
	f := finding.New("parameter-unknown", m.Info.Name, name, hint)
	var all []string
	for _, p := range m.Info.Parameters {
		all = append(all, p.Name)
	}
	x.add(f.With("its parameters: " + orWord(strings.Join(few(all), ", "), "none")))
}

// badValue says why a value cannot be of a type, "" when it can
// (kernel/params.c). Types of a module's own are left to it.
func badValue(kind, value string, given bool) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1] // quoted as a whole, as for modprobe
	}
	if strings.ContainsAny(value, "\"\n\x00") {
		return "the kernel has no way to quote a double quote or a line end in a value"
	}
	if elem, ok := strings.CutPrefix(kind, "array of "); ok {
		for _, v := range strings.Split(value, ",") {
			if bad := badValue(elem, v, given); bad != "" {
				return bad
			}
		}
		return ""
	}
	if kind == "bool" || kind == "invbool" || kind == "bint" {
		if !given || strings.ContainsRune("yYtT1nNfF0", rune((value + " ")[0])) || value == "on" || value == "off" {
			return ""
		}
		return "yes or no is wanted (Y, N, 1, 0)"
	}
	if r, ok := integers[kind]; ok {
		if !given || !inRange(value, r) {
			return fmt.Sprintf("a number is wanted (%d bits, signed: %v)", r.bits, r.signed)
		}
		return ""
	}
	if kind == "charp" && !given {
		return "a value is wanted"
	}
	return ""
}

type integer struct {
	bits   int
	signed bool
}

var integers = map[string]integer{
	"byte": {8, false}, "hexint": {32, false}, "short": {16, true}, "ushort": {16, false}, "int": {32, true},
	"uint": {32, false}, "long": {64, true}, "ulong": {64, false}, "ullong": {64, false},
}

func inRange(value string, r integer) bool {
	value = strings.TrimPrefix(strings.TrimSuffix(value, "\n"), "+")
	if strings.Contains(value, "_") || strings.HasPrefix(value, "0b") || strings.HasPrefix(value, "0o") {
		return false // Go reads these, the kernel does not
	}
	var err error
	if r.signed {
		_, err = strconv.ParseInt(value, 0, r.bits)
	} else {
		_, err = strconv.ParseUint(value, 0, r.bits)
	}
	return err == nil
}

// nearNames are parameters spelt almost like name.
func nearNames(name string, list []module.Parameter) []string {
	var near []string
	for _, p := range list {
		a, b := strings.ToLower(name), strings.ToLower(p.Name)
		if distance(a, b) <= 1+len(a)/4 || strings.Contains(b, a) || (len(b) > 3 && strings.Contains(a, b)) {
			near = append(near, p.Name)
		}
	}
	return few(near)
}

// distance is the number of letters to change, add or take.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost = min(last, row[j], row[j+1]) + 1
			}
			last, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// checkPacking notes what the kernel could not unpack by itself: it is stored
// plain, so that modprobe and udev can load it later.
func (x *examination) checkPacking() {
	for _, m := range x.imageSteps() {
		form := string(m.Info.Packed)
		switch {
		case m.Info.Packed == module.Plain:
			continue
		case m.Info.Packed == module.XZ && m.Info.XZCheck > 1:
			form = "xz with the check " + module.XZCheckName(m.Info.XZCheck)
		case x.in.Kernel == nil || slices.Contains(x.in.Kernel.Reads, m.Info.Packed):
			continue
		}
		x.add(finding.New("compression", file(m), form))
		x.check("packing", Passed, "%s is unpacked (%s)", file(m), form)
	}
}

// checkInitramfs looks for what would be loaded at boot before the kept driver:
// copies of its modules, and of those that it replaces.
func (x *examination) checkInitramfs() {
	var names []string
	for _, m := range x.imageSteps() {
		names = append(names, m.Info.Name)
	}
	for _, name := range x.in.Replaces {
		names = append(names, module.Normalize(name))
	}
	if x.in.InInitramfs == nil || len(names) == 0 {
		return
	}
	found, file, err := x.in.InInitramfs(names)
	for _, name := range found {
		x.add(finding.New("in-initramfs", x.in.Release, name).With(file))
	}
	switch {
	case err != nil:
		x.check("initramfs", NotChecked, "%v", err)
	case file == "":
		x.check("initramfs", NotChecked, "none found for %s", x.in.Release)
	case len(found) > 0:
		x.check("initramfs", Passed, "%s holds %s, loaded first at boot and swapped after", file, strings.Join(found, ", "))
	default:
		x.check("initramfs", Passed, "%s holds none of these modules", file)
	}
}
