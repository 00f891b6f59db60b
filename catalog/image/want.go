package image

import (
	"path"
	"strings"
)

// Want says what of an image is needed.
type Want struct {
	// Releases are kernel releases; empty: all kernels of the image.
	Releases []string `json:"releases,omitempty"`
	// DirName is where lib/modules lies in the image, as in KMM ("/opt"), or
	// the directory of a layout without it ("/opt/open"); "": found.
	DirName string `json:"dirName,omitempty"`
	// Firmware is the firmware directory inside the image; "": the usual
	// places, "-": none.
	Firmware string `json:"firmware,omitempty"`
	// Licences asks for licence texts, LicenceFile for one by its path.
	Licences    bool   `json:"licences,omitempty"`
	LicenceFile string `json:"licenceFile,omitempty"`
	// Modules limits what is fetched of a packed image to these modules and
	// what they need, where the registry answers ranges; elsewhere the layer
	// is read whole.
	Modules []string `json:"modules,omitempty"`
	// Devices does the same where no module is named: it takes the modules
	// whose aliases have one of these modalias strings.
	Devices []string `json:"devices,omitempty"`
	// EveryTree keeps all module trees of a kernel, which otherwise must be
	// one: to list what is there.
	EveryTree bool `json:"everyTree,omitempty"`
	// OnlyLicences leaves everything else in the image: to read the terms
	// before the driver is fetched.
	OnlyLicences bool `json:"onlyLicences,omitempty"`
}

// class is what a path of an image is to us.
type class int

const (
	nothing  class = iota
	tree           // a file of a module tree, lib/modules/RELEASE/…
	loose          // a module outside a release directory (SUSE's images)
	firmware       // below a firmware directory
	licence        // a licence text
	carrier        // a package that may hold modules
	extra          // the target of a link that is wanted
)

// looseDirs hold modules without a release directory: SUSE's NVIDIA images
// (BCI-dockerfile-generator, nvidia-driver).
var looseDirs = []string{"opt/open", "opt/proprietary"}

// firmwareDirs are the usual places of firmware in an image, in the order of
// precedence for a name that is in several.
var firmwareDirs = []string{
	"firmware",                // KMM's examples
	"opt/lib/firmware",        // NVIDIA, Gaudi
	"firmwareDir/updates",     // AMD
	"rootfs/lib/firmware",     // Talos extensions before 1.9
	"rootfs/usr/lib/firmware", // Talos extensions
	"lib/firmware",
	"usr/lib/firmware",
}

// licenceDirs are where images keep licence texts; the first is what Red Hat's
// certification asks for.
var licenceDirs = []string{"licenses", "licences", "usr/share/licenses"}

// selector decides which paths are wanted.
type selector struct {
	want     Want
	anywhere bool   // no DirName was given
	dir      string // DirName without slashes around it
	firmware []string
	releases map[string]bool // nil: all
	// extra are files or directories that links point to; when there are any,
	// nothing else is wanted.
	extra []string
	// keep, when it is set, decides alone.
	keep func(path string) bool
}

func newSelector(w Want) *selector {
	s := &selector{want: w, anywhere: w.DirName == "", dir: rooted(w.DirName), firmware: firmwareDirs}
	switch w.Firmware {
	case "":
	case "-":
		s.firmware = nil
	default:
		s.firmware = []string{rooted(w.Firmware)}
	}
	if len(w.Releases) > 0 {
		s.releases = map[string]bool{}
		for _, r := range w.Releases {
			// KMM's builds trim one trailing + from the directory's name.
			s.releases[r], s.releases[strings.TrimSuffix(r, "+")] = true, true
		}
	}
	return s
}

// rooted makes a path of the catalog relative to the image's root.
func rooted(p string) string { return strings.Trim(path.Clean("/"+p), "/") }

// classify says what a file, or a symbolic link, at p is to us.
func (s *selector) classify(p string, isLink bool) class {
	if s.keep != nil {
		if s.keep(p) {
			return tree
		}
		return nothing
	}
	for _, e := range s.extra {
		if p == e || below(p, e) {
			return extra
		}
	}
	if len(s.extra) > 0 {
		return nothing
	}
	if s.want.OnlyLicences {
		if isLicence(p, s.want) {
			return licence
		}
		return nothing
	}
	if at, ok := moduleTree(p); ok && treeFile(at.rest, isLink) && s.wantsTree(at) {
		return tree
	}
	for _, d := range looseDirs {
		if below(p, d) && isModule(p) && (s.anywhere || s.dir == d) {
			return loose
		}
	}
	if _, _, ok := s.firmwareAt(p); ok {
		return firmware
	}
	if isLicence(p, s.want) {
		return licence
	}
	if strings.HasSuffix(p, ".rpm") && !strings.HasSuffix(p, ".src.rpm") && carriesModules(p) {
		return carrier
	}
	return nothing
}

// firmwareAt says in which of the firmware directories p lies, and where below it;
// an unpacked package has them too.
func (s *selector) firmwareAt(p string) (dir int, rest string, ok bool) {
	if pkg, packaged := packageOf(p); packaged {
		p = strings.TrimPrefix(p, pkg+"/")
	}
	for i, d := range s.firmware {
		if below(p, d) {
			return i, strings.TrimPrefix(p, d+"/"), true
		}
	}
	return 0, "", false
}

func (s *selector) wantsTree(at treePath) bool {
	if s.releases != nil && !s.releases[at.release] {
		return false
	}
	if _, ok := packageOf(at.root); ok {
		return true
	}
	return s.anywhere || at.root == s.dir || at.root == path.Join(s.dir, "usr")
}

// treePath is a path split around lib/modules: root/lib/modules/release/rest.
type treePath struct{ root, release, rest string }

// moduleTree splits p; ok is false when it is not inside a module tree.
// Debug symbols and sources are no trees although they look like them.
func moduleTree(p string) (at treePath, ok bool) {
	const mark = "lib/modules/"
	i := strings.Index(p, mark)
	if i < 0 || (i > 0 && p[i-1] != '/') || strings.HasPrefix(p, "usr/lib/debug/") || strings.HasPrefix(p, "usr/src/") {
		return treePath{}, false
	}
	at.root = strings.TrimSuffix(p[:i], "/")
	at.release, at.rest, _ = strings.Cut(p[i+len(mark):], "/")
	return at, at.release != ""
}

// treeFile says whether an entry of a module tree is of use: modules, the
// tables of depmod, and links but those to the sources; not kernels or maps.
func treeFile(rest string, isLink bool) bool {
	first, _, _ := strings.Cut(rest, "/")
	if first == "build" || first == "source" {
		return false
	}
	return isLink || isModule(rest) || strings.HasPrefix(rest, "modules.") && first == rest
}

// moduleSuffixes are the names that module files have.
var moduleSuffixes = []string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"}

func isModule(p string) bool {
	for _, s := range moduleSuffixes {
		if strings.HasSuffix(p, s) {
			return true
		}
	}
	return false
}

// below says whether p lies in the directory dir.
func below(p, dir string) bool {
	return len(p) > len(dir) && p[len(dir)] == '/' && strings.HasPrefix(p, dir)
}

// licenceNames begin the names of licence texts, in upper case.
var licenceNames = []string{"LICENSE", "LICENCE", "EULA", "COPYING"}

func isLicence(p string, w Want) bool {
	if w.LicenceFile != "" && p == rooted(w.LicenceFile) {
		return true
	}
	if !w.Licences {
		return false
	}
	for _, d := range licenceDirs {
		if below(p, d) {
			return true
		}
	}
	dir, base := path.Split(p)
	if dir != "" && !strings.HasPrefix(dir, "opt/") {
		return false
	}
	for _, n := range licenceNames {
		if strings.HasPrefix(strings.ToUpper(base), n) {
			return true
		}
	}
	return false
}

// carriesModules says by its name whether a package is one of kernel modules:
// kmod-… and akmods of the Fedora family, …-kmp-… of SUSE.
func carriesModules(p string) bool {
	base := path.Base(p)
	return strings.HasPrefix(base, "kmod-") || strings.Contains(base, "-kmp-")
}
