package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"fitout/testdata/program"
)

// Meta names a meta-package: the newest kernel of one flavour.
type Meta string

// The meta-packages that Debian 12 and its security archive have.
const (
	// Stock is the ordinary 6.1 kernel: plain .ko modules.
	Stock Meta = "linux-image-amd64"
	// Cloud lacks most hardware drivers; same vermagic flags as Stock, other
	// symbol versions.
	Cloud Meta = "linux-image-cloud-amd64"
	// RT differs from Stock in the vermagic flags (preempt_rt).
	RT Meta = "linux-image-rt-amd64"
	// Plus is a 6.12 kernel: a "+" in its release, .ko.xz modules.
	Plus Meta = "linux-image-6.12-amd64"
)

// Kernel is a kernel extracted into the cache.
type Kernel struct {
	// Release is uname -r.
	Release string
	// Dir holds boot/ and lib/modules/RELEASE.
	Dir string
}

// Vmlinuz is the path of the kernel's image.
func (k Kernel) Vmlinuz() string { return filepath.Join(k.Dir, "boot", "vmlinuz-"+k.Release) }

// Config is the path of the configuration it was built with.
func (k Kernel) Config() string { return filepath.Join(k.Dir, "boot", "config-"+k.Release) }

// Modules is the path of its modules directory.
func (k Kernel) Modules() string { return filepath.Join(k.Dir, "lib", "modules", k.Release) }

// Module returns the path of one of its modules, by module name ("-" and "_"
// are the same), relative to Modules.
func (k Kernel) Module(name string) (string, error) {
	file, _, err := k.module(name)
	return file, err
}

// module is a module's file, and those that it needs, the nearest first.
func (k Kernel) module(name string) (file string, needs []string, err error) {
	dep, err := os.ReadFile(filepath.Join(k.Modules(), "modules.dep"))
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(string(dep)) {
		file, rest, _ := strings.Cut(line, ":")
		if ModuleName(file) == strings.ReplaceAll(name, "-", "_") {
			return file, strings.Fields(rest), nil
		}
	}
	return "", nil, fmt.Errorf("kernel %s has no module %s", k.Release, name)
}

// ModuleFiles returns the paths of modules and of all that they need, relative
// to Modules, in the order to load them. What is built in has none.
func (k Kernel) ModuleFiles(names ...string) ([]string, error) {
	builtin, err := os.ReadFile(filepath.Join(k.Modules(), "modules.builtin"))
	if err != nil {
		return nil, err
	}
	compiledIn := map[string]bool{}
	for file := range strings.FieldsSeq(string(builtin)) {
		compiledIn[ModuleName(file)] = true
	}
	var files []string
	for _, name := range names {
		if compiledIn[ModuleName(name)] {
			continue
		}
		file, needs, err := k.module(name)
		if err != nil {
			return nil, err
		}
		slices.Reverse(needs)
		for _, f := range append(needs, file) {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// DepmodReads are the files of a kernel's tree that depmod reads; the other
// tables it makes.
var DepmodReads = []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"}

// Aliases returns the modalias patterns of a module, as modules.alias has them.
func (k Kernel) Aliases(name string) ([]string, error) {
	table, err := os.ReadFile(filepath.Join(k.Modules(), "modules.alias"))
	if err != nil {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(table)) {
		// alias PATTERN MODULE
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" && f[2] == strings.ReplaceAll(name, "-", "_") {
			patterns = append(patterns, f[1])
		}
	}
	return patterns, nil
}

// ModuleName is a module's name, from the path of its file, with underscores.
func ModuleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// Newest resolves a meta-package to the kernel that the mirror has now, and
// fetches that. When the mirror's index cannot be read, the newest kernel of
// that flavour in the cache serves.
func Newest(meta Meta) (Kernel, error) {
	for try := 0; ; try++ {
		unlock, err := Lock("apt")
		if err != nil {
			return Kernel{}, err
		}
		release, err := resolve(meta)
		unlock()
		if err != nil {
			return Kernel{}, err
		}
		// A failed download has read the mirror's index anew, which may name
		// another release by now.
		k, err := Fetch(release)
		if err == nil || try == 1 {
			return k, err
		}
	}
}

// Older fetches the n-th kernel release of the 6.1 series before the newest one
// that the mirror still has (1: the one just before).
func Older(n int) (Kernel, error) {
	releases, err := Releases()
	if err != nil {
		return Kernel{}, err
	}
	if len(releases) <= n {
		return Kernel{}, fmt.Errorf("the mirror has %d kernels of the 6.1 series, not %d older ones: %s", len(releases), n, strings.Join(releases, ", "))
	}
	return Fetch(releases[n])
}

var stockRelease = regexp.MustCompile(`^6\.1\.0-(\d+)-amd64$`)

// Releases lists the releases of the stock 6.1 kernels that the mirror has, the
// newest first.
func Releases() ([]string, error) {
	unlock, err := Lock("apt")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := resolve(Stock); err != nil { // makes sure that apt's index is there
		return nil, err
	}
	out, err := aptCache("pkgnames", "linux-image-6.1.0-")
	if err != nil {
		return nil, err
	}
	var releases []string
	for _, name := range strings.Fields(out) {
		if r := strings.TrimPrefix(name, "linux-image-"); stockRelease.MatchString(r) {
			releases = append(releases, r)
		}
	}
	abi := func(r string) int { n, _ := strconv.Atoi(stockRelease.FindStringSubmatch(r)[1]); return n }
	sort.Slice(releases, func(i, j int) bool { return abi(releases[i]) > abi(releases[j]) })
	return releases, nil
}

// Fetch downloads and extracts one kernel release, once.
func Fetch(release string) (Kernel, error) {
	return extract(release, func() (deb string, err error) { return Download("linux-image-" + release) })
}

// extract puts a kernel's package into the cache, with depmod's tables, once.
func extract(release string, get func() (deb string, err error)) (Kernel, error) {
	kernels, err := CacheDir("kernels")
	if err != nil {
		return Kernel{}, err
	}
	k := Kernel{Release: release, Dir: filepath.Join(kernels, release)}
	return k, Once(k.Dir, func(tmp string) error {
		deb, err := get()
		if err != nil {
			return err
		}
		if err := program.Run("dpkg-deb", "-x", deb, tmp); err != nil {
			return err
		}
		err = program.Run("depmod", "-b", tmp, release)
		return err
	})
}
