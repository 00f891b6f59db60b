package host

import (
	"context"
	"path"
	"slices"
	"strings"

	"fitout/hostops"
)

// elementalKernels are the running kernel and those of the other images of the
// state partition. The active image is the default of the next boot; it is not
// the booted one after an upgrade, or when the fallback entry was chosen.
func elementalKernels(ctx context.Context, n *hostops.Node, running Kernel) []Kernel {
	active, others := elementalImages(n)
	var out []Kernel
	add := func(img string, role Role) {
		for _, rel := range imageKernels(ctx, n, img) {
			switch {
			case rel == running.Release:
				if role == Next {
					running.Roles = append(running.Roles, Next)
				}
			case !slices.ContainsFunc(out, func(k Kernel) bool { return k.Release == rel }):
				out = append(out, Kernel{Release: rel, OSRoot: img, Roles: []Role{role}})
			}
		}
	}
	if ImageWaiting(n) {
		add(active, Next)
	} else {
		running.Roles = append(running.Roles, Next)
	}
	for _, img := range others {
		add(img, Fallback)
	}
	return append([]Kernel{running}, out...)
}

// The image directories of the state partition, of toolkit v1 and v2.
const (
	images1 = "/run/initramfs/cos-state/cOS"
	images2 = "/run/initramfs/elemental-state/.snapshots"
)

// elementalImages are the image that boots by default and the others, "" where
// the state partition cannot be seen.
func elementalImages(n *hostops.Node) (active string, others []string) {
	if n.Exists(images1 + "/active.img") {
		return images1 + "/active.img", n.Glob(images1 + "/passive.img")
	}
	if to, err := n.Readlink(images2 + "/active"); err == nil {
		active = path.Join(images2, to)
		if path.IsAbs(to) {
			active = to
		}
	}
	for _, img := range n.Glob(images2 + "/*/snapshot.img") {
		if img != active && path.Base(path.Dir(img)) != "active" {
			others = append(others, img)
		}
	}
	return active, others
}

// bootedImage is the file behind the root's loop device, as the kernel names it
// now: a file that was renamed since shows its new name.
func bootedImage(n *hostops.Node) string {
	for _, m := range readMounts(n) {
		if m.point == "/" && m.fstype != "overlay" {
			if img, err := n.ReadString("/sys/dev/block/" + m.device + "/loop/backing_file"); err == nil {
				return img
			}
		}
	}
	return ""
}

// sameImage compares an image's path with one from the kernel, which may come
// from another mount of the same partition: what tells images apart is the end
// (N/snapshot.img, active.img).
func sameImage(img, booted string) bool {
	tail := path.Base(img)
	if tail == "snapshot.img" {
		tail = path.Join(path.Base(path.Dir(img)), tail)
	}
	return img == booted || strings.HasSuffix(booted, "/"+tail)
}

// ImageWaiting says that another image than the booted one boots next; one that is
// staged and was refused does not.
func ImageWaiting(n *hostops.Node, refused ...Blocked) bool {
	if deploymentWaiting(n, refused) {
		return true
	}
	active, _ := elementalImages(n)
	booted := bootedImage(n)
	return active != "" && booted != "" && !sameImage(active, booted)
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
