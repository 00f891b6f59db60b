package host

import (
	"fmt"
	"sort"
	"strings"

	"fitout/catalog/module"
)

// modinfo is what the modprobe.d file needs of a driver's modules, the union
// over its builds.
type modinfo struct {
	aliases   map[string][]string // module → patterns
	pre, post map[string][]string // module → soft dependencies
	firmware  bool
}

// confText is the driver's modprobe.d file (modprobe.d(5)).
//
// Everything in it is conditional on the kernel that runs: with no build for
// that kernel in the tree, or when the build does not load, the in-tree
// drivers are used, and the kernel log says so. A driver's own alias lines go
// before the kernel's, so udev's coldplug asks for the driver by itself.
func confText(l Layout, d Driver, m modinfo) string {
	var b strings.Builder
	version := strings.Join(strings.Fields(d.Version), " ") // as the module says it: it must not begin a line
	fmt.Fprintf(&b, "# Made by fitout for driver %s %s. `fitout remove %s` takes it away.\n", d.Name, version, d.Name)
	if d.AllowUnsupported {
		b.WriteString("allow_unsupported_modules 1\n") // the last such line counts
	}
	load := ownModules(d)
	for _, mod := range load {
		for _, a := range sortedUnique(m.aliases[mod]) {
			fmt.Fprintf(&b, "alias %s %s\n", a, mod)
		}
	}
	own := map[string]bool{}
	for _, mod := range load {
		own[module.Normalize(mod)] = true
	}
	var instead []string
	for _, r := range d.Replaces {
		if !own[module.Normalize(r)] {
			instead = append(instead, r)
		}
	}
	main := load[len(load)-1]
	for _, mod := range load {
		var other []string
		if mod == main {
			other = instead
		}
		fmt.Fprintf(&b, "install %s %s\n", mod, installCommand(l, d, mod, other, m.firmware))
		fmt.Fprintf(&b, "remove %s t=%s; /sbin/modprobe -d $t --ignore-remove -r %s 2>/dev/null || exec /sbin/modprobe --ignore-remove -r %s\n", mod, l.tree(), mod, mod)
	}
	for _, r := range instead {
		fmt.Fprintf(&b, "install %s %s%s && /sbin/modprobe -q %s; exec /sbin/modprobe --ignore-install %s $CMDLINE_OPTS\n", r, wait(l), haveBuild(l, d), main, r)
	}
	for _, mod := range load {
		if line := softdep(mod, m.pre[mod], m.post[mod]); line != "" {
			b.WriteString(line + "\n")
		}
		if p := d.Parameters[mod]; len(p) > 0 {
			fmt.Fprintf(&b, "options %s %s\n", mod, strings.Join(quoteParams(p), " "))
		}
	}
	return b.String()
}

// haveBuild is the shell condition "the tree has a build for the kernel that
// runs".
func haveBuild(l Layout, d Driver) string {
	return fmt.Sprintf("[ -d %s/lib/modules/$(uname -r)/updates/%s ]", l.tree(), d.Name)
}

// installCommand loads from the tree, else the in-tree drivers. The firmware
// path is written without a newline, which the kernel would take as part of it.
func installCommand(l Layout, d Driver, mod string, instead []string, firmware bool) string {
	load := fmt.Sprintf("/sbin/modprobe -d %s --ignore-install %s $CMDLINE_OPTS", l.tree(), mod)
	if firmware {
		load = fmt.Sprintf("printf %%s %s > /sys/module/firmware_class/parameters/path; %s", firmwareDir(l.State), load)
	}
	fallback := fmt.Sprintf("exec /sbin/modprobe --ignore-install %s $CMDLINE_OPTS", mod)
	if len(instead) > 0 {
		fallback = ""
		for i, r := range instead {
			if i > 0 {
				fallback += "; "
			}
			fallback += "/sbin/modprobe --ignore-install " + r
		}
	}
	return fmt.Sprintf("%sif %s; then %s && exit 0; echo '<3>fitout: %s did not load %s, falling back to the in-tree driver' > /dev/kmsg; fi; %s",
		wait(l), haveBuild(l, d), load, d.Name, mod, fallback)
}

// wait waits, at most half a minute, for a state directory that is a mount of
// its own: coldplug begins before it is mounted, and would take the in-tree
// driver for good. The boot unit's file is the mark of the real root: in an
// initramfs, which may hold a copy of this file, nothing waits and the in-tree
// driver is taken. After the time the boot goes on with that one too.
func wait(l Layout) string {
	if l.UnitDir == "" || !l.Apart {
		return ""
	}
	return fmt.Sprintf("i=0; while [ ! -d %s ] && [ -e %s/%s ] && [ $i -lt 30 ]; do sleep 1; i=$((i+1)); done; ", l.tree(), l.UnitDir, bootUnit)
}

// softdep is one line with all of a module's soft dependencies: modprobe takes
// the first line it finds and ignores the others. "" for none.
func softdep(name string, pre, post []string) string {
	s := ""
	if p := unique(pre); len(p) > 0 {
		s += " pre: " + strings.Join(p, " ")
	}
	if p := unique(post); len(p) > 0 {
		s += " post: " + strings.Join(p, " ")
	}
	if s == "" {
		return ""
	}
	return "softdep " + name + s
}

// quoteParams puts values with blanks in double quotes, as the kernel's parser
// wants them.
func quoteParams(params []string) []string {
	out := make([]string, len(params))
	for i, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if ok && strings.ContainsAny(value, " \t") && !strings.HasPrefix(value, `"`) {
			p = name + `="` + value + `"`
		}
		out[i] = p
	}
	return out
}

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func sortedUnique(in []string) []string {
	out := unique(in)
	sort.Strings(out)
	return out
}
