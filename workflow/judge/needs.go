package judge

import (
	"fmt"
	"path"
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
			x.add(finding.New("loaded", m.Info.Name).With("srcversion " + m.Info.Srcversion))
			continue
		}
		words = append(words, m.Info.Name+" is loaded in another build")
		x.add(finding.New("loaded-other-version", m.Info.Name, buildWords(have.Version, have.Srcversion), buildWords(m.Info.Version, m.Info.Srcversion)))
	}
	for _, name := range x.in.Replaces {
		name = module.Normalize(name)
		if _, ok := x.loaded[name]; ok && x.byName[name] == nil {
			words = append(words, name+" is loaded and goes")
			x.add(finding.New("in-tree-loaded", name))
		}
	}
	if len(words) == 0 {
		words = []string{"none of its modules is loaded"}
	}
	x.check("already loaded", Passed, "%s", strings.Join(words, "; "))
}

func buildWords(version, srcversion string) string {
	switch {
	case version != "" && srcversion != "":
		return version + " (srcversion " + srcversion + ")"
	case version != "":
		return version
	case srcversion != "":
		return "srcversion " + srcversion
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
	x.add(f.With("its parameters: " + orNone(strings.Join(few(all), ", "))))
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

// checkFirmware looks for every file that a module may ask for. A driver lists
// files for all its cards: some missing is worth a note, none there is a risk.
func (x *examination) checkFirmware() {
	inImage := map[string]bool{}
	for _, f := range x.in.Inventory.Firmware {
		inImage[plainName(f.Name)] = true
	}
	total, absent := 0, 0
	for _, m := range x.imageSteps() {
		if len(m.Info.Firmware) == 0 {
			continue
		}
		var missing []string
		for _, name := range m.Info.Firmware {
			total++
			if !has(inImage, name) && (x.in.HostFirmware == nil || !x.in.HostFirmware(name)) {
				missing = append(missing, name)
			}
		}
		absent += len(missing)
		x.firmwareFinding(m, missing, inImage)
	}
	switch {
	case total == 0:
	case absent == 0:
		x.check("firmware", Passed, "%d file(s), all in the image or on the host", total)
	default:
		x.check("firmware", Fails, "%d of %d file(s) are neither in the image nor on the host", absent, total)
	}
}

func (x *examination) firmwareFinding(m *image.Module, missing []string, inImage map[string]bool) {
	if len(missing) == 0 {
		return
	}
	for _, name := range missing {
		if other := otherVersion(name, inImage); other != "" {
			x.add(finding.New("firmware-version", m.Info.Name, name, other))
			return
		}
	}
	f := finding.New("firmware-missing", m.Info.Name, summary(missing)).With(few(missing)...)
	if len(missing) < len(m.Info.Firmware) {
		f = f.As(finding.Note)
	}
	x.add(f)
}

// has matches a firmware name, which may be a pattern ("iwlwifi-*.ucode").
func has(files map[string]bool, name string) bool {
	if files[name] {
		return true
	}
	if !strings.ContainsAny(name, "*?[") {
		return false
	}
	for f := range files {
		if ok, _ := path.Match(name, f); ok {
			return true
		}
	}
	return false
}

// plainName is a firmware file's name without a compression suffix.
func plainName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".xz"), ".zst")
}

// otherVersion finds the same file below a directory of another version:
// nvidia/555.58.02/gsp.bin for nvidia/565.57.01/gsp.bin.
func otherVersion(name string, files map[string]bool) string {
	parts := strings.Split(name, "/")
	for _, f := range sortedKeys(files) {
		other := strings.Split(f, "/")
		if len(other) != len(parts) {
			continue
		}
		differ := 0
		for i := range parts {
			if parts[i] == other[i] {
				continue
			}
			if i == len(parts)-1 || !isVersion(parts[i]) || !isVersion(other[i]) {
				differ = 2
				break
			}
			differ++
		}
		if differ == 1 {
			return f
		}
	}
	return ""
}

func isVersion(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9' && strings.Contains(s, ".")
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
