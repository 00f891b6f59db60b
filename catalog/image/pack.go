package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PackOptions say what goes into a driver image and where it is written.
type PackOptions struct {
	// Kernels are directories of modules, one a release; the whole tree below
	// Dir is searched for modules.
	Kernels []PackKernel
	// Images are images to take kernels, firmware and licences from;
	// Releases limits which of their kernels (empty: all).
	Images   []Reference
	Releases []string
	// Append is an image whose layers are kept as they are; a kernel it has
	// already is replaced.
	Append *Reference
	// Base is an image to build on, whose layers lie below and are kept: KMM
	// copies the modules out with the image's own sh and cp, which an image of
	// modules alone does not have. A node fetches nothing of it.
	Base *Reference
	// Firmware is a directory whose files keep their paths below it; Licences
	// are files.
	Firmware string
	Licences []string
	Labels   map[string]string
	// DirName is where lib/modules goes ("/opt" by default), as in KMM.
	DirName string
	// HostLink adds KMM's link to the host's own modules to each tree.
	HostLink bool
	// Strict makes every lint finding an error.
	Strict bool
	// Output is where the image goes: a registry, oci:DIR[:TAG] or
	// oci-archive:FILE[:TAG].
	Output Reference
	// Work is a directory for temporary files ("" : the system's).
	Work string
	// Reach says how registries are reached, also for Output.
	Reach Options
}

// PackKernel is the modules of one kernel.
type PackKernel struct{ Release, Dir string }

// Packed is an image that was written.
type Packed struct {
	Digest string        `json:"digest"`
	Layers []PackedLayer `json:"layers"`
	Lint   []Lint        `json:"lint"`
}

// PackedLayer is one layer of a packed image. Release is "" for a shared one,
// Kind "firmware", "licences" or "" then.
type PackedLayer struct {
	Release string `json:"release"`
	Kind    string `json:"kind"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`
	Kept    bool   `json:"kept"` // taken over from the image that was appended to
}

// Pack builds a driver image of one layer a kernel release, each annotated with
// its release, and shared layers for firmware and licences. A node fetches the
// one layer it needs; every other tool sees an ordinary image in KMM's layout.
// The same input gives the same digest.
func Pack(ctx context.Context, o PackOptions) (*Packed, error) {
	o.Reach = o.Reach.withDefaults()
	work, err := os.MkdirTemp(o.Work, "fitout-pack-")
	if err != nil {
		return nil, diskError("making a work directory", err)
	}
	defer os.RemoveAll(work)
	p := &packing{o: o, work: work, dir: rooted(or(o.DirName, "/opt")), from: map[string]string{}, result: Packed{Lint: []Lint{}}}
	if p.store, err = p.openStore(); err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.addAll(ctx); err != nil {
		return nil, err
	}
	d, err := p.finish()
	if err != nil {
		return nil, err
	}
	p.result.Digest = d.Digest.String()
	return &p.result, p.deliver(ctx, d)
}

// packing is a Pack under way.
type packing struct {
	o      PackOptions
	work   string
	dir    string
	store  *ociStore
	base   *Image
	config v1.ConfigFile
	layers []packedLayer
	from   map[string]string // where each release's modules come from
	seen   []string          // releases of the images to take from
	// firmware and licences are gathered from all sources into one layer each.
	firmware, licences []packFile
	result             Packed
}

// openStore writes into the layout itself, or into one that is archived or
// pushed afterwards.
func (p *packing) openStore() (*ociStore, error) {
	switch p.o.Output.Transport {
	case OCI:
		return newStore(p.o.Output.Path)
	case OCIArchive, Registry:
		return newStore(filepath.Join(p.work, "layout"))
	}
	return nil, fail(BadReference, "an image cannot be written to %q", p.o.Output).
		hint("write to HOST/REPOSITORY:TAG, oci:DIR[:TAG] or oci-archive:FILE[:TAG]")
}

func (p *packing) addAll(ctx context.Context) error {
	for _, k := range p.o.Kernels {
		files, err := modulesBelow(k.Dir)
		if err != nil {
			return err
		}
		if err := p.addKernel(k.Release, k.Dir, files); err != nil {
			return err
		}
	}
	for i, ref := range p.o.Images {
		if err := p.addImage(ctx, ref, filepath.Join(p.work, fmt.Sprintf("image-%d", i))); err != nil {
			return err
		}
	}
	for _, r := range p.o.Releases {
		if p.from[r] == "" {
			return fail(NoModule, "no image given has modules for kernel %s", r).hint("those taken have: %s", or(strings.Join(p.seen, ", "), "none"))
		}
	}
	if p.o.Firmware != "" {
		files, err := filesBelow(p.o.Firmware, "firmware", func(string) bool { return true })
		if err != nil {
			return err
		}
		p.firmware = append(p.firmware, files...)
	}
	for _, l := range p.o.Licences {
		text, err := os.ReadFile(l)
		if err != nil {
			return fail(NotReadable, "the licence text cannot be read").because(err)
		}
		p.addLicence(filepath.Base(l), text)
	}
	if err := p.addShared("firmware", p.firmware); err != nil {
		return err
	}
	return p.addShared("licences", p.licences)
}

// modulesBelow finds every module of a tree by its path below it.
func modulesBelow(dir string) ([]packFile, error) {
	files, err := filesBelow(dir, "", isModule)
	if err == nil && len(files) == 0 {
		err = fail(NotReadable, "%s holds no kernel module", dir).hint("name the directory that the .ko files were built in or installed to")
	}
	return files, err
}

// filesBelow lists files, in order; links among them are followed, for what is
// packed is the file they lead to.
func filesBelow(dir, under string, keep func(string) bool) ([]packFile, error) {
	var out []packFile
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || d.IsDir() || !keep(p) {
			return err
		}
		if st, err := os.Stat(p); err != nil || !st.Mode().IsRegular() {
			return err
		}
		out = append(out, packFile{name: path.Join(under, filepath.ToSlash(rel)), from: p})
		return nil
	})
	if err != nil {
		return nil, fail(NotReadable, "%s cannot be read", dir).because(err)
	}
	return out, nil
}

// addLicence takes a text under its file's name. Two texts of one name are two
// texts.
func (p *packing) addLicence(base string, text []byte) {
	name := "licenses/" + base
	for n := 2; ; n++ {
		i := slices.IndexFunc(p.licences, func(f packFile) bool { return f.name == name })
		if i < 0 {
			p.licences = append(p.licences, packFile{name: name, data: text})
			return
		}
		if bytes.Equal(p.licences[i].data, text) {
			return
		}
		name = fmt.Sprintf("licenses/%s.%d", base, n)
	}
}

// addKernel writes the layer of one release. files are named by their place in
// the tree; from is what to call their origin.
func (p *packing) addKernel(release, from string, files []packFile) error {
	if release == "" || strings.ContainsAny(release, "/ \x00") {
		return fail(BadReference, "%q of %s is no kernel release", release, from)
	}
	if other := p.from[release]; other != "" {
		return fail(Ambiguous, "modules of kernel %s come from %s and from %s", release, other, from).
			hint("name one place for each kernel; of an image, --only takes some kernels")
	}
	p.from[release] = from
	set, err := readSet(release, files)
	if err != nil {
		return err
	}
	p.result.Lint = append(p.result.Lint, set.lint()...)
	if p.o.Strict && len(p.result.Lint) > 0 {
		var all []string
		for _, l := range p.result.Lint {
			all = append(all, l.Release+" "+l.Path+" "+l.Message)
		}
		return fail(p.result.Lint[0].Code, "%s", strings.Join(all, "; ")).hint("mend the modules, or pack them without --strict")
	}
	tree := path.Join(p.dir, "lib/modules", release)
	var out []packFile
	for _, f := range append(files, set.tables()...) {
		f.name = path.Join(tree, f.name)
		out = append(out, f)
	}
	if p.o.HostLink {
		out = append(out, packFile{name: path.Join(tree, "host"), link: "/lib/modules/" + release})
	}
	l, err := p.store.writeLayer(out, map[string]string{releaseAnnotation: release})
	if err != nil {
		return err
	}
	p.place(l)
	return nil
}

// addShared writes a layer that all kernels share; none for no files. Where
// two sources have the same path the last one counts. It lies above the shared
// layers of an image that is appended to, which stay.
func (p *packing) addShared(kind string, files []packFile) error {
	if len(files) == 0 {
		return nil
	}
	byName := map[string]packFile{}
	for _, f := range files {
		byName[f.name] = f
	}
	files = files[:0]
	for _, n := range sortedKeys(byName) {
		files = append(files, byName[n])
	}
	l, err := p.store.writeLayer(files, map[string]string{layerAnnotation: kind})
	if err != nil {
		return err
	}
	for _, old := range p.layers {
		if old.desc.Digest == l.desc.Digest {
			return nil
		}
	}
	p.layers = append(p.layers, l)
	return nil
}

// place adds a release's layer, in the place of an older one for it.
func (p *packing) place(l packedLayer) {
	for i := range p.layers {
		if p.layers[i].desc.Annotations[releaseAnnotation] == l.desc.Annotations[releaseAnnotation] {
			p.layers[i] = l
			return
		}
	}
	p.layers = append(p.layers, l)
}

// addImage takes kernels, firmware and licences out of another image.
func (p *packing) addImage(ctx context.Context, ref Reference, dir string) error {
	img, err := Open(ctx, ref, p.o.Reach)
	if err != nil {
		return err
	}
	defer img.Close()
	inv, err := img.Fetch(ctx, dir, Want{Releases: p.o.Releases, Licences: true})
	if err != nil {
		return err
	}
	for _, k := range inv.Kernels {
		p.seen = append(p.seen, k.Release)
		if len(p.o.Releases) > 0 && !slices.Contains(p.o.Releases, k.Release) {
			continue // a layer that is not told apart by kernel brings others along
		}
		var files []packFile
		for _, m := range k.Modules {
			name := strings.TrimPrefix(m.Path, k.Tree+"/")
			if name == m.Path {
				name = "extra/" + path.Base(m.Path)
			}
			files = append(files, packFile{name: name, from: filepath.Join(dir, filepath.FromSlash(m.Path))})
		}
		if err := p.addKernel(k.Release, ref.String(), files); err != nil {
			return err
		}
	}
	for _, f := range inv.Firmware {
		name := f.Name + strings.TrimPrefix(path.Ext(f.Path), path.Ext(f.Name))
		p.firmware = append(p.firmware, packFile{name: "firmware/" + name, from: filepath.Join(dir, filepath.FromSlash(f.Path))})
	}
	for _, l := range inv.Licences {
		p.addLicence(path.Base(l.Path), []byte(l.Text))
	}
	return nil
}

// finish writes configuration and manifest.
func (p *packing) finish() (v1.Descriptor, error) {
	if len(p.layers) == 0 {
		return v1.Descriptor{}, fail(UnknownLayout, "nothing to pack: no kernel, firmware or licence was given")
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	p.config.RootFS.DiffIDs, p.config.History = nil, nil
	var releases []string
	for _, l := range p.layers {
		m.Layers = append(m.Layers, l.desc)
		p.config.RootFS.DiffIDs = append(p.config.RootFS.DiffIDs, l.diff)
		r := PackedLayer{Release: l.desc.Annotations[releaseAnnotation], Kind: l.desc.Annotations[layerAnnotation],
			Digest: l.desc.Digest.String(), Size: l.desc.Size, Kept: p.kept(l)}
		p.result.Layers = append(p.result.Layers, r)
		if r.Release != "" {
			releases = append(releases, r.Release)
		}
	}
	sort.Strings(releases)
	p.config.Config.Labels["org.fitout.kernels"] = strings.Join(releases, " ")
	for k, v := range p.o.Labels {
		p.config.Config.Labels[k] = v
	}
	var err error
	if m.Config, err = p.store.putJSON(p.config, types.OCIConfigJSON); err != nil {
		return v1.Descriptor{}, err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("writing the manifest: %w", err)
	}
	return p.store.put(raw, types.OCIManifestSchema1)
}
