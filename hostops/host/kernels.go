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
		running.Roles = append(running.Roles, Next)
		return append([]Kernel{running}, passiveKernels(ctx, h.n, running)...), nil
	}
	return installedKernels(h.n, running), nil
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

// passiveKernels looks into the passive image of an Elemental system where
// that is possible without mounting it (debugfs of e2fsprogs).
func passiveKernels(ctx context.Context, n *hostops.Node, running Kernel) []Kernel {
	if n.Simulated() || !n.Exec.Look("debugfs") {
		return nil
	}
	var out []Kernel
	for _, img := range passiveImages(n) {
		for _, rel := range imageKernels(ctx, n, img) {
			if rel != running.Release && !slices.ContainsFunc(out, func(k Kernel) bool { return k.Release == rel }) {
				out = append(out, Kernel{Release: rel, OSRoot: img, Roles: []Role{Fallback}})
			}
		}
	}
	return out
}

// passiveImages are the images of the state partition that are not the booted
// one, for v1 and v2.
func passiveImages(n *hostops.Node) []string {
	if n.Exists("/run/initramfs/cos-state/cOS/passive.img") {
		return []string{"/run/initramfs/cos-state/cOS/passive.img"}
	}
	return n.Glob("/run/initramfs/elemental-state/.snapshots/*/snapshot.img")
}

// imageKernels lists the kernel directories of an ext image: those with a
// modules.dep in them.
func imageKernels(ctx context.Context, n *hostops.Node, img string) []string {
	var out []string
	for _, dir := range []string{"/usr/lib/modules", "/lib/modules"} {
		b, err := n.Exec.Run(ctx, "debugfs", "-R", "ls -p "+dir, img)
		if err != nil {
			continue
		}
		for _, rel := range debugfsNames(string(b)) {
			dep, err := n.Exec.Run(ctx, "debugfs", "-R", "stat "+dir+"/"+rel+"/modules.dep", img)
			if err == nil && strings.Contains(string(dep), "Type: regular") && !slices.Contains(out, rel) {
				out = append(out, rel)
			}
		}
	}
	return out
}

// debugfsNames reads `ls -p`: /inode/mode/uid/gid/name/size/ a line.
func debugfsNames(text string) []string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		f := strings.Split(line, "/")
		if len(f) >= 7 && f[5] != "." && f[5] != ".." && f[5] != "" {
			out = append(out, f[5])
		}
	}
	return out
}
