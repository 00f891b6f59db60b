package judge

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/workflow/finding"
)

// machines maps uname -m to the machine in a module's ELF header.
var machines = map[string]elf.Machine{
	"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390,
	"riscv64": elf.EM_RISCV, "i686": elf.EM_386, "i386": elf.EM_386, "armv7l": elf.EM_ARM,
}

func machineName(m elf.Machine) string {
	for name, want := range machines {
		if want == m && name != "i386" {
			return name
		}
	}
	return strings.TrimPrefix(m.String(), "EM_")
}

// checkDirectory compares the directory's name with what the files say; the
// files decide.
func (x *examination) checkDirectory() {
	other := map[string]int{}
	for _, m := range x.byName {
		if r := builtFor(m); r != "" && r != x.build.Release {
			other[r]++
		}
	}
	for r, n := range other {
		x.add(finding.New("image-mislabelled", "the directory "+x.build.Release, x.build.Release, r).
			With(fmt.Sprintf("%d of %d module(s) say they were built for %s", n, len(x.byName), r)))
	}
	switch {
	case x.build.Release != x.in.Release:
		x.check("kernel directory", Differs, "no directory for %s; %s is judged in its place", x.in.Release, x.build.Release)
	case len(x.byName) == 0:
		x.check("kernel directory", Fails, "%s holds no module that can be read", x.build.Release)
	default:
		x.check("kernel directory", Passed, "%s, %d module(s)", x.build.Release, len(x.byName))
	}
	if strings.HasSuffix(x.in.Release, "+") {
		x.add(finding.New("release-plus", x.in.Release))
	}
}

// builtFor is the release in a module's vermagic, "" when it has none.
func builtFor(m *image.Module) string {
	words := strings.Fields(m.Info.Vermagic)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// checkVermagic compares word by word, as the kernel does (same_magic in
// kernel/module/version.c): the release is left out when the module has symbol
// versions and the kernel compares them.
func (x *examination) checkVermagic() {
	mods := x.imageSteps()
	if len(mods) == 0 {
		return
	}
	if x.in.Kernel == nil {
		x.add(finding.New("kernel-files-missing", x.in.Release, x.in.Release))
		x.check("vermagic", NotChecked, "nothing of kernel %s is at hand", x.in.Release)
		return
	}
	if x.in.Kernel.Vermagic == "" {
		x.add(finding.New("vermagic-unknown", x.in.Release, "any module of its own below "+x.in.Kernel.Dir))
		x.check("vermagic", NotChecked, "the kernel has no module of its own to read it from")
		return
	}
	before := len(x.findings)
	for _, m := range mods {
		x.compareVermagic(m)
	}
	switch {
	case finding.Worst(x.findings[before:]) == finding.Block:
		x.check("vermagic", Differs, "%s", x.findings[before].Message)
	case len(x.foreign) > 0:
		x.check("vermagic", Differs, "the release differs (%s), the flags are equal: %s",
			strings.Join(sortedKeys(x.foreign), ", "), flags(x.in.Kernel.Vermagic))
	default:
		x.check("vermagic", Passed, "%s", strings.TrimSpace(x.in.Kernel.Vermagic))
	}
}

func flags(vermagic string) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(vermagic), " ")
	return rest
}

func (x *examination) compareVermagic(m *image.Module) {
	have, want := strings.Fields(m.Info.Vermagic), strings.Fields(x.in.Kernel.Vermagic)
	evidence := []string{fmt.Sprintf("module %q", m.Info.Vermagic), fmt.Sprintf("kernel %q", x.in.Kernel.Vermagic)}
	if len(have) == 0 {
		x.add(finding.New("vermagic-flags", file(m), "it has none").With(evidence...))
		return
	}
	if words := wordDifference(have[1:], want[1:]); words != "" {
		x.add(finding.New("vermagic-flags", file(m), words).With(evidence...))
		return
	}
	if have[0] == want[0] {
		return
	}
	x.foreign[have[0]] = true
	if m.Info.HasCRCs && x.comparesVersions() {
		return // decided by the symbol versions
	}
	x.add(finding.New("vermagic-release", have[0], want[0]).With(evidence...).With(Difference(want[0], have[0])))
}

// comparesVersions says that the kernel was built with modversions.
func (x *examination) comparesVersions() bool {
	return x.in.Kernel != nil && slices.Contains(strings.Fields(x.in.Kernel.Vermagic), "modversions")
}

// wordDifference names the flags that one side has and the other has not.
func wordDifference(module, kernel []string) string {
	var said []string
	for _, w := range module {
		if !slices.Contains(kernel, w) {
			said = append(said, fmt.Sprintf("module has '%s', the kernel has not", w))
		}
	}
	for _, w := range kernel {
		if !slices.Contains(module, w) {
			said = append(said, fmt.Sprintf("kernel has '%s', the module has not", w))
		}
	}
	if len(said) == 0 && !slices.Equal(module, kernel) {
		said = append(said, "the flags stand in another order")
	}
	return strings.Join(said, "; ")
}

// checkStructSize compares the size of the kernel's record of a module.
func (x *examination) checkStructSize() {
	if x.in.Kernel == nil || x.in.Kernel.StructModuleSize == 0 || len(x.imageSteps()) == 0 {
		return
	}
	bad := 0
	for _, m := range x.imageSteps() {
		if have, want := m.Info.StructModuleSize, x.in.Kernel.StructModuleSize; have != want {
			bad++
			x.add(finding.New("struct-module-size", file(m), fmt.Sprint(have), fmt.Sprint(want)))
		}
	}
	if bad > 0 {
		x.check("struct module", Differs, "%d module(s) of another size", bad)
	} else {
		x.check("struct module", Passed, "%d bytes", x.in.Kernel.StructModuleSize)
	}
}

// checkRelease says what a build for another release comes to.
func (x *examination) checkRelease() {
	if len(x.foreign) == 0 && x.build.Release == x.in.Release {
		return
	}
	if !x.crcsMatch || finding.Worst(x.findings) == finding.Block {
		return
	}
	built := sortedKeys(x.foreign)
	if len(built) == 0 {
		return // the directory's name differs, the files are for this release
	}
	n := 0
	for _, m := range x.imageSteps() {
		for _, s := range m.Info.Imports {
			if s.HasCRC {
				n++
			}
		}
	}
	f := finding.New("kabi-match", strings.Join(built, ", "), fmt.Sprint(n), x.in.Release)
	for _, r := range built {
		f = f.With(Difference(x.in.Release, r))
	}
	x.add(f)
}
