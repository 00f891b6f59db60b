package host

import (
	"context"
	"path"
	"slices"
	"sort"
	"strings"

	"fitout/hostops"
)

// Kernels lists every kernel that may boot, the running one first.
func (h *Host) Kernels(ctx context.Context) ([]Kernel, error) {
	running := runningKernel(h.n)
	switch h.facts.Family {
	case "ostree":
		return ostreeKernels(h.n, running), nil
	case "elemental-v2", "elemental-v1", "harvester":
		return elementalKernels(ctx, h.n, running), nil
	}
	return installedKernels(h.n, running), nil
}

// NextBoot is the kernel that boots next: a staged one that was not refused before
// the default, and the first, which runs, where no other waits. There is at least
// one.
func NextBoot(kernels []Kernel, refused ...Blocked) Kernel {
	for _, role := range []Role{Staged, Next} {
		for _, k := range kernels {
			if slices.Contains(k.Roles, role) && (role != Staged || !isRefused(refused, k.Release)) {
				return k
			}
		}
	}
	return kernels[0]
}

func isRefused(refused []Blocked, release string) bool {
	return slices.ContainsFunc(refused, func(b Blocked) bool { return b.Kernel == release })
}

// runningKernel is uname -r and its module directory; Dir is named also when
// it is gone (an upgrade may have removed it).
func runningKernel(n *hostops.Node) Kernel {
	return Kernel{Release: n.Kernel.Release(), OSRoot: "/", Dir: moduleDir(n, "/", n.Kernel.Release()), Roles: []Role{Running}}
}

// moduleDir is the directory of a release below an OS root.
func moduleDir(n *hostops.Node, root, rel string) string {
	usr := path.Join(root, "usr/lib/modules", rel)
	if n.Exists(usr) {
		return usr
	}
	return path.Join(root, "lib/modules", rel)
}

// installedKernels are the bootable kernels of an ordinary root: a directory
// that holds vmlinuz, or one with modules.dep and a vmlinuz in /boot. A
// directory alone is an orphan: a refused package leaves an empty one behind.
func installedKernels(n *hostops.Node, running Kernel) []Kernel {
	found := map[string]string{}
	for _, v := range n.Glob("/boot/vmlinu[xz]-*") {
		rel := strings.SplitN(path.Base(v), "-", 2)[1]
		if dir := moduleDir(n, "/", rel); n.Exists(dir + "/modules.dep") {
			found[rel] = dir
		}
	}
	for _, pattern := range []string{"/usr/lib/modules/*/vmlinuz", "/lib/modules/*/vmlinuz"} {
		for _, v := range n.Glob(pattern) {
			dir := path.Dir(v)
			if _, ok := found[path.Base(dir)]; !ok {
				found[path.Base(dir)] = dir
			}
		}
	}
	releases := make([]string, 0, len(found))
	for rel := range found {
		releases = append(releases, rel)
	}
	sort.Slice(releases, func(i, j int) bool { return CompareReleases(releases[i], releases[j]) > 0 })
	if len(releases) == 0 || releases[0] == running.Release {
		running.Roles = append(running.Roles, Next)
	} else if slices.Contains(releases, running.Release) {
		running.Roles = append(running.Roles, Fallback)
	}
	out := []Kernel{running}
	for i, rel := range releases {
		if rel == running.Release {
			continue
		}
		role := Fallback
		if i == 0 {
			role = Next
		}
		out = append(out, Kernel{Release: rel, OSRoot: "/", Dir: found[rel], Roles: []Role{role}})
	}
	return out
}

// CompareReleases orders kernel releases as linux-version(1) and GRUB's
// scripts do: runs of digits by value, other runs as text, "-rc" before
// nothing. It is for choosing the newest only, never for deciding what fits.
func CompareReleases(a, b string) int {
	a, b = strings.ReplaceAll(a, "-rc", "~rc"), strings.ReplaceAll(b, "-rc", "~rc")
	for a != "" || b != "" {
		var x, y string
		x, a = run(a, false)
		y, b = run(b, false)
		if c := compareText(x, y); c != 0 {
			return c
		}
		x, a = run(a, true)
		y, b = run(b, true)
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// run cuts the leading run of digits, or of other bytes, off s.
func run(s string, digits bool) (head, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9') == digits {
		i++
	}
	return s[:i], s[i:]
}

// compareText compares byte by byte; '~' sorts before the end, the end before
// everything else.
func compareText(a, b string) int {
	rank := func(s string, i int) int {
		switch {
		case i >= len(s):
			return 0
		case s[i] == '~':
			return -1
		}
		return int(s[i])
	}
	for i := 0; i < len(a) || i < len(b); i++ {
		if c := rank(a, i) - rank(b, i); c != 0 {
			return c
		}
	}
	return 0
}
