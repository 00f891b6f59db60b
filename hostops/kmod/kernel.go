package kmod

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"fitout/catalog/module"
	"fitout/hostops"
)

type options struct{ cache string }

// Option changes how a kernel is opened.
type Option func(*options)

// WithCache keeps a harvest of symbol versions in a directory of this machine
// (a host path, made when needed), so that the kernel's modules are read once.
func WithCache(dir string) Option { return func(o *options) { o.cache = dir } }

// OpenKernel describes the kernel whose modules lie in dir, the node path of
// lib/modules/RELEASE of any OS root ("" means the running root's). One or two
// of its modules are read now; tables and symbols at the first question.
//
// A directory that is missing is an error that wraps fs.ErrNotExist. A kernel
// without module files is no error: its Vermagic stays empty.
func OpenKernel(n *hostops.Node, release, dir string, opts ...Option) (*Kernel, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if dir == "" {
		dir = path.Join("/lib/modules", release)
	}
	if st, err := n.Stat(dir); err != nil {
		return nil, fmt.Errorf("opening the modules of kernel %s: %w", release, err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("opening the modules of kernel %s: %s is not a directory", release, dir)
	}
	k := &Kernel{Release: release, Dir: dir, Tables: OpenTables(n, dir), node: n}
	k.config = sync.OnceValue(func() []byte { return readConfig(n, k) })
	k.Reads = readsCompressed(n, k)
	if err := k.sample(n); err != nil {
		return nil, err
	}
	if release == n.Kernel.Release() {
		k.Exported = sync.OnceValue(func() map[string]bool { return Exported(n) })
	}
	k.image = &bootImage{n: n, k: k, cache: o.cache}
	k.Symbols = &Symbols{load: func(s *Symbols) { s.find(n, k, o.cache) }}
	return k, nil
}

// osRoot is the root of the OS that a modules directory belongs to.
func osRoot(dir string) string {
	root := path.Dir(path.Dir(path.Dir(dir))) // without lib/modules/RELEASE
	if path.Base(root) == "usr" {
		root = path.Dir(root)
	}
	return root
}

// sampled is how many modules are looked at before giving up on one that has
// versions: a module that imports nothing carries no CRC.
const sampled = 3

// sample reads what only the kernel's own modules tell.
func (k *Kernel) sample(n *hostops.Node) error {
	for _, file := range sampleFiles(n, k.Dir) {
		f, err := module.ReadFile(n.Path(file), module.Limits{Only: module.Modinfo | module.Versions | module.Signed})
		var bad *module.FileError
		if errors.As(err, &bad) {
			continue // a damaged file of theirs is not ours to report here
		}
		if err != nil {
			return fmt.Errorf("reading a module of kernel %s: %w", k.Release, err)
		}
		k.packed = f.Packed != module.Plain
		if k.Sample == "" || f.HasCRCs {
			k.Sample, k.Vermagic, k.StructModuleSize, k.Signer = file, f.Vermagic, f.StructModuleSize, f.Signature
		}
		for _, imp := range f.Imports {
			if imp.Name == "module_layout" && imp.HasCRC {
				k.ModuleLayout = imp.CRC
			}
		}
		if k.ModuleLayout != 0 {
			return nil
		}
	}
	return nil
}

// sampleFiles picks the smallest of the first modules that the kernel's build
// listed: modules.order names in-tree ones only. Files may be compressed since.
func sampleFiles(n *hostops.Node, dir string) []string {
	type sized struct {
		file string
		size int64
	}
	var found []sized
	add := func(file string) {
		if st, err := n.Stat(file); err == nil && st.Mode().IsRegular() {
			found = append(found, sized{file, st.Size()})
		}
	}
	order, _ := n.ReadFile(path.Join(dir, "modules.order"))
	for line := range strings.Lines(string(order)) {
		for _, suffix := range []string{"", ".xz", ".zst", ".gz"} {
			add(path.Join(dir, strings.TrimSpace(line)) + suffix)
		}
		if len(found) >= 3*sampled {
			break
		}
	}
	if len(found) == 0 {
		for _, file := range moduleFiles(n.Path(path.Join(dir, "kernel"))) {
			add(n.NodePath(file))
		}
	}
	slices.SortStableFunc(found, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	files := make([]string, 0, sampled)
	for _, s := range found[:min(sampled, len(found))] {
		files = append(files, s.file)
	}
	return files
}

// moduleCompressions is what a kernel calls the compressions that it can read
// itself: in /sys/module/compression, and in its configuration.
// Source: kernel, kernel/module/decompress.c and kernel/module/Kconfig.
var moduleCompressions = []struct {
	sysfs, config string
	kind          module.Compression
}{
	{"gzip", "CONFIG_MODULE_COMPRESS_GZIP", module.Gzip},
	{"xz", "CONFIG_MODULE_COMPRESS_XZ", module.XZ},
	{"zstd", "CONFIG_MODULE_COMPRESS_ZSTD", module.Zstd},
}

// readsCompressed asks the running kernel, or the configuration file of one
// that does not run.
func readsCompressed(n *hostops.Node, k *Kernel) []module.Compression {
	if osRoot(k.Dir) == "/" && n.Kernel.Release() == k.Release {
		name, _ := n.ReadString("/sys/module/compression")
		for _, c := range moduleCompressions {
			if c.sysfs == name {
				return []module.Compression{c.kind}
			}
		}
		return nil
	}
	if value, _ := k.Config("CONFIG_MODULE_DECOMPRESS"); value != "y" {
		return nil
	}
	for _, c := range moduleCompressions {
		if value, _ := k.Config(c.config); value == "y" {
			return []module.Compression{c.kind}
		}
	}
	return nil
}

// Config is an option of the kernel's build ("CONFIG_MODULE_FORCE_LOAD"): its
// value, "n" for one that is not set. known is false where the configuration is
// not at hand.
func (k *Kernel) Config(option string) (value string, known bool) {
	if k.config == nil || len(k.config()) == 0 {
		return "", false
	}
	for line := range strings.Lines(string(k.config())) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), option+"="); ok {
			return value, true
		}
	}
	return "n", true
}

// readConfig reads the kernel's configuration from where distributions keep
// it, nil when it is nowhere. The running kernel may show its own.
func readConfig(n *hostops.Node, k *Kernel) []byte {
	for _, file := range []string{path.Join(k.Dir, "config"), path.Join(osRoot(k.Dir), "boot/config-"+k.Release)} {
		if text, err := n.ReadFile(file); err == nil {
			return text
		}
	}
	if k.Release != n.Kernel.Release() {
		return nil
	}
	packed, err := n.ReadFile("/proc/config.gz")
	if err != nil {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return nil
	}
	return text
}
