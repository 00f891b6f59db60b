// Package image reads driver images: from registries, layouts and archives, of
// every known layout, streamed, verified and confined.
//
// [Open] resolves a reference to one image for one architecture and reads
// nothing but its manifest and configuration. [Image.Fetch] then passes over
// the layers once, from the top, and keeps the wanted files: digests are
// verified while the bytes go by, nothing else is stored, and memory stays flat
// however large the image is. What comes out is an [Inventory].
//
// Everything an image says is taken as hostile: names, links, sizes, media
// types. Failures are an [*Error] with a stable code.
package image

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fitout/catalog/module"
)

// Inventory is what an image holds.
type Inventory struct {
	// Reference as given; Digest of the manifest of this platform, the one
	// that pins (a docker archive has none: the image's id); IndexDigest when
	// the reference named an index.
	Reference   string `json:"reference"`
	Digest      string `json:"digest"`
	IndexDigest string `json:"indexDigest,omitempty"`
	// ConfigDigest is the image's id, the same in every form of the image.
	ConfigDigest string `json:"configDigest"`
	// Layout is the name of the recognised layout ("kmm", "plain", …).
	Layout string `json:"layout"`
	// Kernels, sorted by release.
	Kernels []Kernel `json:"kernels"`
	// Releases are all kernels that the image has modules for, fetched or not.
	Releases []string          `json:"releases,omitempty"`
	Firmware []File            `json:"firmware,omitempty"`
	Licences []Licence         `json:"licences,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Bytes is the compressed size of all layers, Fetched what was read.
	Bytes   int64 `json:"bytes"`
	Fetched int64 `json:"fetched"`
	// Notes are facts about the image a person should see.
	Notes []string `json:"notes,omitempty"`

	want Want
	sums map[string][]byte // sha256 of each file by path
}

// Want is what was asked for when the image was fetched.
func (inv *Inventory) Want() Want { return inv.want }

// From is the inventory under the name that the image was asked for by.
func (inv *Inventory) From(reference string) *Inventory {
	named := *inv
	named.Reference = reference
	return &named
}

// Kernel is the part of an image that is for one kernel release.
type Kernel struct {
	Release string `json:"release"`
	// Tree is the directory of the modules, relative to the image's root
	// ("opt/lib/modules/6.1.0-57-amd64").
	Tree string `json:"tree"`
	// Modules of this image; links to the host's own tree are not among them.
	Modules []Module `json:"modules"`
	// Unusable are files with the name of a module that are none, or damaged.
	Unusable []Unusable `json:"unusable,omitempty"`
	// HostLinks are links of the tree that point to the host's modules.
	HostLinks []string `json:"hostLinks,omitempty"`
}

// Module is a module file of the image.
type Module struct {
	// Path is relative to the extracted image's root, and no link.
	Path string `json:"path"`
	// Info is read from the file, also when an inventory is read again.
	Info *module.Info `json:"-"`
}

// Unusable is a file that should be a module and cannot be read as one.
type Unusable struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// File is a file of the image.
type File struct {
	// Path is relative to the extracted image's root, Name what a firmware
	// request would call it.
	Path string `json:"path"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Licence is a licence text found in the image.
type Licence struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // "sha256:…" of the text
	Text   string `json:"text"`
}

// Progress is told how many bytes of how many have been read.
type Progress func(done, total int64)

// Image is one image for one architecture. It is not safe for use by several
// goroutines at once.
type Image struct {
	ref         Reference
	opts        Options
	src         source
	rawManifest []byte
	manifest    v1.Manifest
	rawConfig   []byte
	config      v1.ConfigFile
	digest      string
	indexDigest string
	fetched     int64
}

// Open resolves ref to the image for opts.Arch. It reads the manifest and the
// configuration, no layer. Pin and Verifier are asked first. Close the image
// when done.
func Open(ctx context.Context, ref Reference, opts Options) (*Image, error) {
	opts = opts.withDefaults()
	src, err := openSource(ctx, ref, opts)
	if err != nil {
		return nil, err
	}
	img := &Image{ref: ref, opts: opts, src: src}
	if err := img.load(ctx); err != nil {
		src.Close()
		return nil, err
	}
	return img, nil
}

func openSource(ctx context.Context, ref Reference, opts Options) (source, error) {
	if ref.Transport == Registry {
		return openRegistry(ctx, ref, opts)
	}
	return openLocal(ref, opts)
}

func (img *Image) load(ctx context.Context) error {
	raw, digest, err := img.src.top(ctx)
	if err != nil {
		return err
	}
	if err := img.resolve(ctx, raw, digest); err != nil {
		return err
	}
	if err := img.checkPin(); err != nil {
		return err
	}
	if v := img.opts.Verifier; v != nil {
		if err := v(img.ref.String(), img.digest); err != nil {
			return fail(Untrusted, "%s (%s) was not verified", img.ref, img.digest).because(err)
		}
	}
	return img.loadConfig(ctx)
}

// checkPin compares the pinned digest with the manifest's and the index's.
func (img *Image) checkPin() error {
	pin := img.opts.Pin
	if pin == "" || pin == img.digest || pin == img.indexDigest {
		return nil
	}
	if _, ok := img.src.(*dockerSource); ok {
		return fail(TagMoved, "%s is the image %s, reviewed was %s", img.ref, img.digest, pin).
			hint("a docker archive keeps no manifest digest, only the image's id; save the image as an OCI archive, or review this one")
	}
	return fail(TagMoved, "%s now points to %s, reviewed was %s", img.ref, img.digest, pin).
		hint("review the image again, or use the reviewed one by its digest")
}

func (img *Image) loadConfig(ctx context.Context) error {
	d := img.manifest.Config
	r, err := img.src.blob(ctx, configBlob, d)
	if err != nil {
		return err
	}
	defer r.Close()
	raw, err := readAll(r, "configuration "+d.Digest.String(), img.opts.Limits.Manifest)
	if err != nil {
		return err
	}
	if int64(len(raw)) < d.Size {
		return fail(Truncated, "configuration %s ends after %d of %d bytes", d.Digest, len(raw), d.Size)
	}
	if err := checkBytes("configuration", raw, d.Digest); err != nil {
		return err
	}
	img.rawConfig = raw
	if !d.MediaType.IsConfig() && d.MediaType != "" {
		return nil // an artefact's own configuration has no layer digests
	}
	if err := json.Unmarshal(raw, &img.config); err != nil {
		return fail(Corrupt, "reading configuration %s", d.Digest).because(err)
	}
	if n := len(img.config.RootFS.DiffIDs); n > 0 && n != len(img.manifest.Layers) {
		return fail(Corrupt, "the manifest has %d layers, the configuration digests of %d", len(img.manifest.Layers), n)
	}
	return nil
}

// Reference is the reference the image was opened by.
func (img *Image) Reference() Reference { return img.ref }

// Digest is that of the manifest for this architecture, the one that pins.
func (img *Image) Digest() string { return img.digest }

// IndexDigest is that of the index, "" when the reference named none.
func (img *Image) IndexDigest() string { return img.indexDigest }

// Size is the compressed size of all layers in bytes.
func (img *Image) Size() int64 {
	var n int64
	for _, l := range img.manifest.Layers {
		n += l.Size
	}
	return n
}

// LicencesApart says whether licence texts can be fetched without anything of
// the driver: every layer says what it holds, as those of image pack do.
func (img *Image) LicencesApart() bool {
	for _, l := range img.manifest.Layers {
		if l.Annotations[releaseAnnotation] == "" && l.Annotations[layerAnnotation] == "" {
			return false
		}
	}
	return true
}

// Labels are the labels of the image's configuration.
func (img *Image) Labels() map[string]string { return img.config.Config.Labels }

// Close releases the file or the connections.
func (img *Image) Close() error {
	if err := img.src.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", img.src.origin(), err)
	}
	return nil
}
