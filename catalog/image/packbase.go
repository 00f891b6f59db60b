package image

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// start begins with an empty image, or with the layers of the one to append to
// or to build on.
func (p *packing) start(ctx context.Context) error {
	p.config = v1.ConfigFile{OS: "linux", Architecture: or(p.o.Reach.Arch, runtime.GOARCH), RootFS: v1.RootFS{Type: "layers"}}
	p.config.Config.Labels = map[string]string{}
	ref, kind := p.o.Append, ""
	switch {
	case p.o.Append != nil && p.o.Base != nil:
		return fail(BadReference, "an image is either appended to or built on a base, not both")
	case p.o.Base != nil:
		ref, kind = p.o.Base, baseLayer
	case ref == nil:
		return nil
	}
	img, err := Open(ctx, *ref, p.o.Reach)
	if err != nil {
		return err
	}
	p.base = img
	p.config = *img.config.DeepCopy()
	if p.config.Config.Labels == nil {
		p.config.Config.Labels = map[string]string{}
	}
	for n, l := range img.manifest.Layers {
		if n >= len(img.config.RootFS.DiffIDs) {
			return fail(UnsupportedManifest, "%s has no digests of its plain layers and cannot be built on", *ref)
		}
		if kind != "" {
			l.Annotations = map[string]string{layerAnnotation: kind}
		}
		p.layers = append(p.layers, packedLayer{desc: l, diff: img.config.RootFS.DiffIDs[n]})
	}
	return nil
}

// kept says whether a layer came with the image that was appended to.
func (p *packing) kept(l packedLayer) bool {
	if p.base == nil {
		return false
	}
	for _, old := range p.base.manifest.Layers {
		if old.Digest == l.desc.Digest {
			return true
		}
	}
	return false
}

// deliver brings the image to its place: the layers that were kept first, then
// the name.
func (p *packing) deliver(ctx context.Context, d v1.Descriptor) error {
	if p.base != nil {
		defer p.base.Close()
		for n, l := range p.base.manifest.Layers {
			if exists(p.store.path(l.Digest)) || !p.uses(l.Digest) {
				continue
			}
			if err := p.store.copyBlob(ctx, p.base, n); err != nil {
				return err
			}
		}
	}
	switch p.o.Output.Transport {
	case OCI:
		return p.store.name(d, p.o.Output.Name)
	case OCIArchive:
		if err := p.store.name(d, p.o.Output.Name); err != nil {
			return err
		}
		return p.store.archive(p.o.Output.Path)
	}
	return push(ctx, p.store, d, p.o.Output, p.o.Reach)
}

func (p *packing) uses(h v1.Hash) bool {
	for _, l := range p.layers {
		if l.desc.Digest == h {
			return true
		}
	}
	return false
}
