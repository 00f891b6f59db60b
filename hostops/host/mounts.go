package host

import (
	"path"
	"strconv"
	"strings"

	"fitout/hostops"
)

// mount is a line of /proc/self/mountinfo (proc(5)).
type mount struct {
	device, root, point, fstype, options, super string
}

// readMounts reads the node's mount table, nil when it was not recorded.
func readMounts(n *hostops.Node) []mount {
	b, err := n.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []mount
	for _, line := range strings.Split(string(b), "\n") {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		out = append(out, mount{device: f[2], root: unescape(f[3]), point: unescape(f[4]), options: f[5],
			fstype: g[0], super: strings.Join(g[2:], " ")})
	}
	return out
}

// unescape undoes the octal escapes of mountinfo (\040 for a blank).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf is the mount that holds p: the longest mount point above it, the
// last one when several are stacked.
func mountOf(mounts []mount, p string) *mount {
	var best *mount
	for i := range mounts {
		m := &mounts[i]
		if p != m.point && m.point != "/" && !strings.HasPrefix(p, m.point+"/") {
			continue
		}
		if best == nil || len(m.point) >= len(best.point) {
			best = m
		}
	}
	return best
}

// notKept are file systems whose content is gone after a reboot, or that
// cannot be written.
var notKept = map[string]string{
	"tmpfs": "a tmpfs, lost at every reboot", "ramfs": "in memory, lost at every reboot",
	"rootfs": "the initramfs, lost at every reboot", "squashfs": "a read-only squashfs",
	"erofs": "a read-only erofs", "iso9660": "a read-only CD image",
}

// kept says whether what is written to p is there after a reboot, and why not.
// A node without a recorded mount table answers false.
func kept(mounts []mount, p string) (bool, string) {
	m := mountOf(mounts, path.Clean(p))
	if m == nil {
		return false, "the mount table is not known"
	}
	if why, bad := notKept[m.fstype]; bad {
		return false, m.point + " is " + why
	}
	if m.fstype == "overlay" {
		return keptOverlay(mounts, m)
	}
	if hasOption(m.options, "ro") || hasOption(m.super, "ro") {
		return false, m.point + " is mounted read-only"
	}
	return true, m.point + " is a writable " + m.fstype
}

// keptOverlay judges an overlay by where its upper directory lies.
func keptOverlay(mounts []mount, m *mount) (bool, string) {
	upper := ""
	for _, o := range strings.Split(m.super, ",") {
		if v, ok := strings.CutPrefix(o, "upperdir="); ok {
			upper = v
		}
	}
	if upper == "" {
		return false, m.point + " is a read-only overlay"
	}
	under := mountOf(mounts, upper)
	if under == nil || under == m {
		return true, m.point + " is an overlay with its upper layer in " + upper
	}
	if why, bad := notKept[under.fstype]; bad {
		return false, m.point + " is an overlay whose upper layer lies on " + why
	}
	return true, m.point + " is an overlay with its upper layer in " + upper
}

func hasOption(options, want string) bool {
	for _, o := range strings.Split(options, ",") {
		if o == want {
			return true
		}
	}
	return false
}

// isMountPoint says that something is mounted at p itself, with a file system
// that is kept.
func isMountPoint(mounts []mount, p string) bool {
	m := mountOf(mounts, p)
	return m != nil && m.point == p && notKept[m.fstype] == ""
}
