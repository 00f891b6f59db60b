package image

import (
	"path"
	"sort"
	"strings"
)

// contents is what the recognition of a layout looks at.
type contents struct {
	// roots are the directories above lib/modules of the fetched trees, loose
	// those of looseDirs that hold modules, packages the carriers unpacked.
	roots, loose, packages []string
	// modules are the paths of all fetched modules.
	modules    []string
	firmware   []string
	found      *survey
	labels     map[string]string
	entrypoint []string
	env        []string
}

// layout is one way that vendors lay drivers out in an image.
type layout struct {
	name string
	// is says whether the contents are of this layout.
	is func(c contents) bool
	// refused says why it cannot be used by taking files out ("" : it can),
	// cure what to do instead.
	refused, cure string
}

// layouts in the order they are tried; the first that matches names the image.
// Where an image has modules in a known place, that wins over what else is in
// it: a self-loading container that brings built modules is read like any
// other.
var layouts = []layout{
	{name: "suse-bci", is: func(c contents) bool { return len(c.loose) > 0 }},
	{name: "amd", is: func(c contents) bool {
		return len(c.roots) > 0 && anyBelow(c.firmware, "firmwareDir/updates")
	}},
	{name: "talos", is: func(c contents) bool { return hasAny(c.roots, "rootfs", "rootfs/usr") }},
	{name: "nvidia-rhel", is: func(c contents) bool {
		return anyContains(c.modules, "/extra/drivers/video/nvidia/") && hasAny(c.roots, "", "usr")
	}},
	{name: "rpm", is: func(c contents) bool { return len(c.packages) > 0 }},
	{name: "kvc", is: func(c contents) bool {
		return hasAny(c.roots, "", "usr") && len(c.modules) > 0 && allDirectlyInTree(c.modules)
	}},
	{name: "kmm", is: func(c contents) bool {
		for _, r := range c.roots {
			if r != "" && r != "usr" {
				return true
			}
		}
		return false
	}},
	{name: "plain", is: func(c contents) bool { return len(c.roots) > 0 }},
	{name: "deb", is: func(c contents) bool { return len(c.found.debs) > 0 },
		refused: "it carries Debian packages that are linked and signed when they are installed, no finished modules",
		cure:    "build an image of the installed modules with fitout image pack, or run the vendor's container"},
	{name: "self-loading", is: selfLoading,
		refused: "its container builds and loads the driver itself when it starts, there are no finished modules in it",
		cure:    "use the vendor's precompiled image for this kernel, or build one with fitout image pack"},
	{name: "sysext", is: func(c contents) bool { return len(c.found.raws) > 0 },
		refused: "it carries a system extension as a disk image (.raw)",
		cure:    "put the extension's usr/lib/modules into an image with fitout image pack, or install it with systemd-sysext"},
}

// selfLoadingPrograms are entry points of containers that load by themselves
// (gpu-driver-container, doca-driver-build, Harvester's toolkit).
var selfLoadingPrograms = []string{"nvidia-driver", "entrypoint.sh", "sources", "precompiled", "dtk-build"}

// selfLoadingEnv are variables that only such containers set.
var selfLoadingEnv = []string{"NVIDIA_NIC_DRIVER_VER=", "DRIVER_VERSION=", "DRIVER_BRANCH=", "D_OFED_VERSION="}

func selfLoading(c contents) bool {
	if len(c.found.runfiles) > 0 {
		return true
	}
	env := false
	for _, v := range c.env {
		for _, known := range selfLoadingEnv {
			env = env || strings.HasPrefix(v, known)
		}
	}
	for _, word := range c.entrypoint {
		base := path.Base(word)
		if base == "nvidia-driver" {
			return true
		}
		for _, p := range selfLoadingPrograms {
			if base == p && env {
				return true
			}
		}
	}
	return false
}

// recogniseLayout names the layout, or says why the image cannot be used.
func recogniseLayout(c contents, ref string, want Want) (string, error) {
	for _, l := range layouts {
		if !l.is(c) {
			continue
		}
		if l.refused != "" {
			return "", fail(UnsupportedLayout, "%s cannot be used by taking files out (layout %s): %s", ref, l.name, l.refused).hint("%s", l.cure)
		}
		return l.name, nil
	}
	if releases := c.found.sortedReleases(); len(releases) > 0 && want.DirName != "" {
		return "", fail(UnknownLayout, "%s has no modules in %s; it has some for %s in another place", ref, want.DirName, strings.Join(releases, ", ")).
			hint("name the place with dirName, or leave it out")
	}
	return "", fail(UnknownLayout, "%s is of no known layout: %s", ref, c.found.describe()).
		hint("modules are expected in DIR/lib/modules/RELEASE; build such an image with fitout image pack")
}

func hasAny(list []string, words ...string) bool {
	for _, l := range list {
		for _, w := range words {
			if l == w {
				return true
			}
		}
	}
	return false
}

func anyBelow(list []string, dir string) bool {
	for _, p := range list {
		if below(p, dir) {
			return true
		}
	}
	return false
}

func anyContains(list []string, part string) bool {
	for _, p := range list {
		if strings.Contains(p, part) {
			return true
		}
	}
	return false
}

// allDirectlyInTree says whether every module lies in the release's directory
// itself, as kmods-via-containers builds them.
func allDirectlyInTree(modules []string) bool {
	for _, p := range modules {
		at, ok := moduleTree(p)
		if !ok || strings.Contains(at.rest, "/") {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
