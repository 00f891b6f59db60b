package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// attestation marks build records that sit beside the images of an index.
const attestation = "vnd.docker.reference.type"

// manifestDoc is a manifest of either kind, just enough to tell them apart.
type manifestDoc struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	Manifests     []v1.Descriptor `json:"manifests"`
	Config        *v1.Descriptor  `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	FSLayers      json.RawMessage `json:"fsLayers"`
}

func (d manifestDoc) isIndex() bool { return d.Manifests != nil && d.Config == nil }

// resolve follows m, the manifest that the reference named, through indexes to
// the image manifest for this architecture. It fills the image's manifest and
// digests.
func (img *Image) resolve(ctx context.Context, raw []byte, digest v1.Hash) error {
	for depth := 0; ; depth++ {
		doc, err := parseManifest(raw, digest)
		if err != nil {
			return err
		}
		if !doc.isIndex() {
			return img.adopt(doc, raw, digest)
		}
		if depth == img.opts.Limits.Depth {
			return fail(Limit, "index %s holds indexes more than %d deep (limit depth)", img.indexDigest, depth)
		}
		if img.indexDigest == "" {
			img.indexDigest = digest.String()
		}
		next, err := choose(doc.Manifests, img.opts.Arch, img.opts.Log)
		if err != nil {
			return err
		}
		if raw, err = img.src.manifest(ctx, next); err != nil {
			return err
		}
		if err := checkBytes("manifest", raw, next.Digest); err != nil {
			return err
		}
		digest = next.Digest
	}
}

func (img *Image) adopt(doc manifestDoc, raw []byte, digest v1.Hash) error {
	if len(doc.Layers) == 0 {
		return fail(UnsupportedManifest, "manifest %s has no layers", digest)
	}
	img.manifest = v1.Manifest{SchemaVersion: 2, MediaType: doc.MediaType, Config: *doc.Config, Layers: doc.Layers}
	img.rawManifest, img.digest = raw, digest.String()
	return nil
}

func parseManifest(raw []byte, digest v1.Hash) (manifestDoc, error) {
	var doc manifestDoc
	if err := json.Unmarshal(raw, &doc); err != nil {
		return doc, fail(Corrupt, "reading manifest %s", digest).because(err)
	}
	switch {
	case doc.SchemaVersion == 1 || doc.FSLayers != nil:
		return doc, fail(UnsupportedManifest, "manifest %s is of the old schema 1 (%s)", digest, doc.MediaType).
			hint("push the image again with a current tool")
	case doc.Manifests == nil && doc.Config == nil:
		return doc, fail(UnsupportedManifest, "%s is neither an image manifest nor an index (media type %q)", digest, doc.MediaType)
	}
	for _, l := range append(doc.Layers, doc.Manifests...) {
		if l.Size < 0 || l.Digest.Hex == "" {
			return doc, fail(Hostile, "manifest %s holds an entry without a size or digest", digest)
		}
	}
	return doc, nil
}

// choose picks the entry for linux/arch. Entries that are not images (build
// attestations, platform unknown, the old schema 1) are passed over whatever
// their place; an entry without a platform serves when nothing better is there.
func choose(entries []v1.Descriptor, arch string, log func(string)) (v1.Descriptor, error) {
	var exact, bare []v1.Descriptor
	var platforms, odd []string
	for _, e := range entries {
		if why := notAnImage(e); why != "" {
			odd = append(odd, why)
			log(fmt.Sprintf("index entry %s passed over: %s", e.Digest, why))
			continue
		}
		if e.Platform == nil {
			bare = append(bare, e)
			continue
		}
		platforms = append(platforms, e.Platform.String())
		if e.Platform.OS == "linux" && e.Platform.Architecture == arch {
			exact = append(exact, e)
		}
	}
	if len(exact) > 0 {
		return exact[0], nil
	}
	if len(platforms) == 0 && len(bare) > 0 {
		return bare[0], nil
	}
	sort.Strings(platforms)
	if len(platforms) == 0 {
		return v1.Descriptor{}, fail(NoPlatform, "the index holds no usable image: %s", strings.Join(odd, ", "))
	}
	return v1.Descriptor{}, fail(NoPlatform, "the image is not made for linux/%s; it has %s", arch, strings.Join(platforms, ", "))
}

// notAnImage says why an index entry cannot be run, "" when it can.
func notAnImage(e v1.Descriptor) string {
	switch {
	case e.Annotations[attestation] != "":
		return "attestation"
	case e.Platform != nil && (e.Platform.OS == "unknown" || e.Platform.Architecture == "unknown"):
		return "platform unknown"
	case e.MediaType == "" || e.MediaType.IsImage() || e.MediaType.IsIndex():
		return ""
	}
	return string(e.MediaType)
}

// checkBytes says whether raw is what digest promises.
func checkBytes(what string, raw []byte, digest v1.Hash) error {
	got, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("hashing %s: %w", what, err)
	}
	if digest.Algorithm != "sha256" {
		return fail(UnsupportedManifest, "%s %s uses the digest %s; only sha256 is read", what, digest, digest.Algorithm)
	}
	if got != digest {
		return fail(DigestMismatch, "%s is not what its digest promises: wanted %s, got %s", what, digest, got)
	}
	return nil
}
