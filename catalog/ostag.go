package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// osTag is the OS part of tags and why it is that.
type osTag struct{ tag, why string }

// osTagOf is os-release's ID and VERSION_ID put together, as NVIDIA's and
// Mellanox' operators do it; RHEL and its rebuilds leave the minor version out.
func osTagOf(v Vars) (osTag, error) {
	if v.OSTag != "" {
		return osTag{v.OSTag, "given as osTag"}, nil
	}
	id, version := osRelease(v.OSRelease, "ID"), osRelease(v.OSRelease, "VERSION_ID")
	switch {
	case id == "":
		return osTag{}, fmt.Errorf("/etc/os-release has no ID; set osTag in the answers file")
	case version == "":
		return osTag{}, fmt.Errorf("/etc/os-release has no VERSION_ID; set osTag in the answers file")
	}
	own := osTag{id + version, "from /etc/os-release"}
	switch id {
	case "rhel", "rocky", "ol":
		major, _, _ := strings.Cut(version, ".")
		return osTag{id + major, "from /etc/os-release, the minor version left out"}, nil
	}
	for _, a := range osTagAliases {
		if slices.Contains(a.ids, id) && strings.Contains(v.release, a.kernel) {
			return osTag{a.tag, fmt.Sprintf("os-release says %s, the kernel is that of %s", own.tag, a.tag)}, nil
		}
	}
	return own, nil
}

// osTagAliases are operating systems under whose own name nobody publishes
// images, but which run the kernel of one that has them. SUSE writes the product
// into the kernel's release: 150700 is SLE 15 SP7, 160000 is SLES 16.0.
var osTagAliases = []struct {
	ids    []string
	kernel string // in the release
	tag    string
}{
	{suseLike, "-150700.", "sles15.7"},
	{suseLike, "-160000.", "sles16.0"},
}

var suseLike = []string{"sl-micro", "sle-micro", "sle-micro-rancher", "harvester"}

// osRelease reads one value of an os-release file (os-release(5)).
func osRelease(content, key string) string {
	value := ""
	for line := range strings.Lines(content) {
		k, v, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && k == key {
			value = strings.Trim(v, `"'`)
		}
	}
	return value
}
