// Package rpmrepo writes RPM packages of kernel modules, and the metadata of a
// repository that offers them, for a package manager to choose from by the
// kernel that each needs.
package rpmrepo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/rpmpack"
)

// Package is one build: a driver for one kernel.
type Package struct {
	Name    string // "kmod-fitout-e1000e"
	Version string // of the driver, any text
	Kernel  string // the release it is for
	Arch    string // as uname -m says it, which RPM's names are too
	Licence string
	Summary string
	// Files are by absolute path; their content lies in memory while a package
	// is written.
	Files map[string][]byte
}

// capability is what kernel packages of Fedora and its kin provide, with their
// release as version (kernel.spec).
const capability = "kernel-core-uname-r"

// fixed is the time in packages and metadata, so that the same files give the
// same bytes.
var fixed = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

var notVersion = regexp.MustCompile(`[^A-Za-z0-9._+~^]+`)

// version is the text as RPM takes it for a version or a release, in which "-"
// separates.
func version(text string) string {
	if text = notVersion.ReplaceAllString(text, "_"); text == "" {
		return "0"
	}
	return text
}

// evr are version and release. The release ends with a digest of the content:
// rpm-ostree keeps what it imported by name, version and release, and would not
// look at a package of the same name again.
func (p Package) evr() (ver, rel string) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(p.Files[name]))
	}
	return version(p.Version), version(p.Kernel) + "." + hex.EncodeToString(h.Sum(nil))[:8]
}

// Filename is the package's name as a file.
func (p Package) Filename() string {
	ver, rel := p.evr()
	return fmt.Sprintf("%s-%s-%s.%s.rpm", p.Name, ver, rel, p.Arch)
}

// Requires is what binds it to its kernel.
func (p Package) Requires() string { return capability + " = " + p.Kernel }

// script indexes the kernel's modules when the package is put into a root:
// rpm-ostree does that by itself only where the kernel changed.
func (p Package) script() string { return "depmod -a " + p.Kernel + "\n" }

// bytes is the package as a file.
func (p Package) bytes() ([]byte, error) {
	ver, rel := p.evr()
	meta := rpmpack.RPMMetaData{Name: p.Name, Version: ver, Release: rel, Arch: p.Arch, Summary: p.Summary, Description: p.Summary,
		Licence: p.Licence, Compressor: "zstd", Epoch: rpmpack.NoEpoch, BuildTime: fixed, BuildHost: "localhost", Vendor: "fitout"}
	if err := meta.Requires.Set(p.Requires()); err != nil {
		return nil, fmt.Errorf("writing the package of %s for %s: %w", p.Name, p.Kernel, err)
	}
	r, err := rpmpack.NewRPM(meta)
	if err != nil {
		return nil, fmt.Errorf("writing the package of %s for %s: %w", p.Name, p.Kernel, err)
	}
	for name, content := range p.Files {
		r.AddFile(rpmpack.RPMFile{Name: name, Body: content, Mode: 0o644, Owner: "root", Group: "root", MTime: uint32(fixed.Unix())})
	}
	r.AddPostin(p.script())
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return nil, fmt.Errorf("writing the package of %s for %s: %w", p.Name, p.Kernel, err)
	}
	return b.Bytes(), nil
}

// shellWord: a release becomes part of a script.
var shellWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]*$`)

// Writer writes a repository's files, by names relative to its directory.
type Writer struct {
	put     func(name string, content []byte) error
	entries []entry
}

// NewWriter begins a repository; put writes one file.
func NewWriter(put func(name string, content []byte) error) *Writer { return &Writer{put: put} }

// Add writes a package.
func (w *Writer) Add(p Package) error {
	if !shellWord.MatchString(p.Kernel) {
		return fmt.Errorf("writing the package of %s: %q is no kernel release", p.Name, p.Kernel)
	}
	b, err := p.bytes()
	if err != nil {
		return err
	}
	e := entry{pkg: p, sum: hexSum(b), size: len(b)}
	e.headerStart, e.headerEnd = headerRange(b)
	e.ver, e.rel = p.evr()
	e.files = slices.Sorted(maps.Keys(p.Files))
	for _, content := range p.Files {
		e.installed += len(content)
	}
	e.pkg.Files = nil
	w.entries = append(w.entries, e)
	return w.put(e.file(), b)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Definition is the text of a file in yum.repos.d that names a repository in a
// directory. It is read anew each time, and whoever is without it goes on.
func Definition(id, title, dir string) string {
	return strings.Join([]string{"[" + id + "]", "name=" + title, "baseurl=file://" + dir, "enabled=1", "gpgcheck=0",
		"metadata_expire=1", "skip_if_unavailable=1", ""}, "\n")
}
