// Package images builds driver images for tests and the demo: real Debian
// modules, packed as the vendors' images pack theirs.
//
// An image is built in memory with go-containerregistry from a [Spec], and then
// written as an OCI layout, an OCI or docker archive, or pushed to a registry:
// the one of go-containerregistry or Debian's docker-registry, both with TLS, a
// private CA and a password.
package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fitout/testdata/program"
	"fitout/testdata/vm/debian"
)

// The places where driver images keep their modules.
const (
	KMM    = "opt/lib/modules" // Kernel Module Management and its kin
	Plain  = "lib/modules"     // kvc, SRO, and images made by hand
	UsrLib = "usr/lib/modules" // the same on merged-usr bases: /lib is a link to usr/lib
)

// Licence is the text that the images carry.
const Licence = `These kernel modules are part of the Linux kernel as Debian builds it.

They are free software: you can redistribute them and modify them under
the terms of the GNU General Public License, version 2, as published by
the Free Software Foundation.

They are distributed in the hope that they will be useful, but WITHOUT
ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for
more details.
`

// LicenceDigest names the text of [Licence] in an answers file.
func LicenceDigest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(Licence))) }

// built is the time of every file, so that an image's digest depends on its
// content alone.
var built = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// Spec says what an image holds.
type Spec struct {
	// Dir is where the modules lie: KMM (the default), Plain or UsrLib.
	Dir string
	// Kernels are the kernels that it serves, and Modules the names of the
	// modules that it has for each.
	Kernels []debian.Kernel
	Modules []string
	// As names another release as the directory of a kernel's modules: a
	// mislabelled image.
	As map[string]string
	// Change may replace a module's bytes (to break it).
	Change func(kernel, module string, data []byte) ([]byte, error)
	// Firmware files, by path below /firmware.
	Firmware map[string]string
	// Licence is the text at /licenses/LICENSE; "" stands for [Licence],
	// "none" for no file.
	Licence string
	// PerKernel makes one annotated layer for each kernel, as
	// fitout image pack does.
	PerKernel bool
	// Extra files, by path.
	Extra map[string]string
}

// Build makes the image.
func Build(spec Spec) (v1.Image, error) {
	if spec.Dir == "" {
		spec.Dir = KMM
	}
	var adds []mutate.Addendum
	base, err := spec.base()
	if err != nil {
		return nil, err
	}
	adds = append(adds, mutate.Addendum{Layer: base, Annotations: spec.annotate("org.fitout.layer", "licences")})
	var all tree
	for _, k := range spec.Kernels {
		files, err := spec.kernel(k)
		if err != nil {
			return nil, fmt.Errorf("packing modules of %s: %w", k.Release, err)
		}
		if !spec.PerKernel {
			all = append(all, files...)
			continue
		}
		layer, err := files.layer()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: layer, Annotations: spec.annotate("org.fitout.kernel.release", k.Release)})
	}
	if len(all) > 0 {
		layer, err := all.layer()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: layer})
	}
	return assemble(v1.Config{}, adds...)
}

// Of makes an image of one layer, with these files.
func Of(config v1.Config, files ...File) (v1.Image, error) {
	layer, err := tree(files).layer()
	if err != nil {
		return nil, err
	}
	return assemble(config, mutate.Addendum{Layer: layer})
}

// assemble stacks layers to an image.
func assemble(config v1.Config, adds ...mutate.Addendum) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(img, adds...)
	if err != nil {
		return nil, fmt.Errorf("putting the image together: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = "linux", "amd64", v1.Time{Time: built}, config
	file.Config.Labels = map[string]string{"org.opencontainers.image.title": "Test driver"}
	return mutate.ConfigFile(img, file)
}

func (s Spec) annotate(key, value string) map[string]string {
	if !s.PerKernel {
		return nil
	}
	return map[string]string{key: value}
}

// base is what an image holds besides modules.
func (s Spec) base() (v1.Layer, error) {
	files := tree{{Name: "etc/os-release", Data: []byte("ID=driver-base\nVERSION_ID=1\n")}}
	if s.Dir == UsrLib {
		files = append(files, File{Name: "lib", Link: "usr/lib"})
	}
	switch s.Licence {
	case "none":
	case "":
		files = append(files, File{Name: "licenses/LICENSE", Data: []byte(Licence)})
	default:
		files = append(files, File{Name: "licenses/LICENSE", Data: []byte(s.Licence)})
	}
	for name, text := range s.Firmware {
		files = append(files, File{Name: "firmware/" + name, Data: []byte(text)})
	}
	for name, text := range s.Extra {
		files = append(files, File{Name: name, Data: []byte(text)})
	}
	return files.layer()
}

// kernel collects the files of one kernel: the modules at the places that they
// have in the kernel's own tree, and depmod's tables over them alone, as a
// Dockerfile's "depmod -b /opt" makes them.
func (s Spec) kernel(k debian.Kernel) (tree, error) {
	tmp, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "lib/modules", k.Release)
	for _, name := range s.Modules {
		rel, err := k.Module(name)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(filepath.Join(k.Modules(), rel))
		if err != nil {
			return nil, err
		}
		if s.Change != nil {
			if data, err = s.Change(k.Release, name, data); err != nil {
				return nil, fmt.Errorf("changing %s: %w", name, err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, rel)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, rel), data, 0o644); err != nil {
			return nil, err
		}
	}
	for _, list := range debian.DepmodReads {
		data, err := os.ReadFile(filepath.Join(k.Modules(), list))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, list), data, 0o644); err != nil {
			return nil, err
		}
	}
	if err := program.Run("depmod", "-b", tmp, k.Release); err != nil {
		return nil, err
	}
	name := k.Release
	if other := s.As[name]; other != "" {
		name = other
	}
	return collect(dir, s.Dir+"/"+name)
}

// collect reads the files below dir as entries below prefix.
func collect(dir, prefix string) (tree, error) {
	var files tree
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		files = append(files, File{Name: prefix + "/" + rel, Data: data})
		return err
	})
	return files, err
}

// File is a file of an image, or a link when Link is not empty.
type File struct {
	Name, Link string
	Data       []byte
}

// tree is the content of a layer.
type tree []File

// layer packs the entries, sorted, each parent directory before its children.
func (t tree) layer() (v1.Layer, error) {
	slices.SortFunc(t, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	seen := map[string]bool{}
	for _, e := range t {
		for i, c := range e.Name {
			if dir := e.Name[:i]; c == '/' && !seen[dir] {
				seen[dir] = true
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: built}); err != nil {
					return nil, err
				}
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: 0o644, Size: int64(len(e.Data)), ModTime: built}
		if e.Link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	data := buf.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
}
