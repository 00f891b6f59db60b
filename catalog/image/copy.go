package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Copied is an image that was copied.
type Copied struct {
	// Digest is the copy's; it is the original's unless kernels were left out.
	Digest  string   `json:"digest"`
	Bytes   int64    `json:"bytes"`
	Skipped []string `json:"skipped"` // releases that were left out
}

// Copy fetches an image to an archive (oci-archive:FILE[:TAG]) or a layout
// (oci:DIR[:TAG]) for nodes without a network, every blob verified. It can be
// broken off and called again: blobs that are complete are not read twice, and
// one that is half there is picked up. releases limits a packed image to those
// kernels (which gives it another digest); an image whose layers are not told
// apart by kernel is copied whole.
func Copy(ctx context.Context, ref, to Reference, releases []string, opts Options) (*Copied, error) {
	if to.Transport != OCI && to.Transport != OCIArchive {
		return nil, fail(BadReference, "an image cannot be copied to %q", to).hint("copy to oci-archive:FILE[:TAG] or oci:DIR[:TAG]")
	}
	img, err := Open(ctx, ref, opts)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	if err := img.hasReleases(releases); err != nil {
		return nil, err
	}
	dir := to.Path
	if to.Transport == OCIArchive {
		dir = to.Path + ".partial"
	}
	s, err := newStore(dir)
	if err != nil {
		return nil, err
	}
	// Two copies to one place go one after the other.
	held, _, err := img.lockPart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if s, err = newStore(dir); err != nil { // another one had it and is done
		return nil, err
	}
	c := &Copied{Skipped: []string{}}
	d, err := s.copyImage(ctx, img, newSelector(Want{Releases: releases, Licences: true}), c)
	if err != nil {
		return nil, err
	}
	if to.Transport == OCIArchive {
		if err := s.only(d); err != nil {
			return nil, err
		}
	}
	if err := s.name(d, to.Name); err != nil {
		return nil, err
	}
	c.Digest = d.Digest.String()
	if to.Transport == OCIArchive {
		if err := s.archive(to.Path); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("removing %s: %w", dir, err)
		}
	}
	return c, nil
}

// hasReleases says which of the kernels asked for an image with a layer for each
// kernel does not have.
func (img *Image) hasReleases(releases []string) error {
	var has []string
	for _, l := range img.manifest.Layers {
		if r := l.Annotations[releaseAnnotation]; r != "" {
			has = append(has, r)
		}
	}
	for _, r := range releases {
		if len(has) > 0 && !slices.Contains(has, r) {
			return fail(NoModule, "%s has no modules for kernel %s", img.ref, r).hint("it has: %s", strings.Join(has, ", "))
		}
	}
	return nil
}

// only removes what an earlier try left of another image.
func (s *ociStore) only(d v1.Descriptor) error {
	var m v1.Manifest
	raw, err := os.ReadFile(s.path(d.Digest))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	keep := map[string]bool{d.Digest.Hex: true, m.Config.Digest.Hex: true}
	for _, l := range m.Layers {
		keep[l.Digest.Hex] = true
	}
	blobs := filepath.Dir(s.path(d.Digest))
	entries, err := os.ReadDir(blobs)
	if err != nil {
		return fmt.Errorf("reading %s: %w", blobs, err)
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := os.Remove(filepath.Join(blobs, e.Name())); err != nil {
				return diskError("removing a blob", err)
			}
		}
	}
	if err := os.Remove(filepath.Join(s.dir, "index.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return diskError("removing an index", err)
	}
	return nil
}

func (s *ociStore) copyImage(ctx context.Context, img *Image, sel *selector, c *Copied) (v1.Descriptor, error) {
	m, config := img.manifest, img.config
	m.Layers, config.RootFS.DiffIDs = nil, nil
	keep, _ := img.layersFor(sel)
	sort.Ints(keep)
	wanted := map[int]bool{}
	for _, n := range keep {
		wanted[n] = true
	}
	for n, l := range img.manifest.Layers {
		if !wanted[n] && l.Annotations[layerAnnotation] != baseLayer {
			c.Skipped = append(c.Skipped, or(l.Annotations[releaseAnnotation], l.Annotations[layerAnnotation]))
			continue
		}
		if err := s.copyBlob(ctx, img, n); err != nil {
			return v1.Descriptor{}, err
		}
		m.Layers = append(m.Layers, l)
		c.Bytes += l.Size
		if n < len(img.config.RootFS.DiffIDs) {
			config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, img.config.RootFS.DiffIDs[n])
		}
	}
	if len(c.Skipped) == 0 {
		return s.putOriginal(img)
	}
	// A history with an entry for each layer no longer fits.
	config.History = nil
	cd, err := s.putJSON(config, types.OCIConfigJSON)
	if err != nil {
		return v1.Descriptor{}, err
	}
	m.Config, m.MediaType = cd, types.OCIManifestSchema1
	return s.putJSON(m, types.OCIManifestSchema1)
}

// putOriginal keeps configuration and manifest to the byte, so that the digest
// stays.
func (s *ociStore) putOriginal(img *Image) (v1.Descriptor, error) {
	if _, err := s.put(img.rawConfig, img.manifest.Config.MediaType); err != nil {
		return v1.Descriptor{}, err
	}
	var doc struct {
		MediaType types.MediaType `json:"mediaType"`
	}
	if err := json.Unmarshal(img.rawManifest, &doc); err != nil {
		return v1.Descriptor{}, fail(Corrupt, "reading manifest %s", img.digest).because(err)
	}
	return s.put(img.rawManifest, or(doc.MediaType, types.OCIManifestSchema1))
}

// copyBlob stores layer n as it is, verified. What an earlier try stored is
// used again.
func (s *ociStore) copyBlob(ctx context.Context, img *Image, n int) error {
	d := img.manifest.Layers[n]
	if s.holds(d.Digest) {
		return nil
	}
	part := s.path(d.Digest) + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return diskError("writing "+part, err)
	}
	defer f.Close()
	sum := sha256.New()
	have, err := io.Copy(sum, f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", part, err)
	}
	if err := img.appendBlob(ctx, n, f, sum, have); err != nil {
		if CodeOf(err) == DigestMismatch {
			os.Remove(part)
		}
		return err
	}
	if err := errors.Join(f.Sync(), os.Rename(part, s.path(d.Digest))); err != nil {
		return diskError("writing "+part, err)
	}
	return nil
}

// holds says whether a blob is there and is what its digest promises: a stick may
// have been pulled out while it was written.
func (s *ociStore) holds(h v1.Hash) bool {
	f, err := os.Open(s.path(h))
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && fmt.Sprintf("%x", sum.Sum(nil)) == h.Hex
}

// appendBlob writes the bytes of layer n from have on and checks the whole.
func (img *Image) appendBlob(ctx context.Context, n int, f io.Writer, sum hash.Hash, have int64) error {
	d := img.manifest.Layers[n]
	src, err := img.blobFrom(ctx, n, d, have)
	if err != nil {
		return err
	}
	defer src.Close()
	got, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(src, d.Size-have+1))
	total := have + got
	img.opts.Progress(total, d.Size)
	switch {
	case err != nil:
		return diskError(fmt.Sprintf("copying layer %d (%s)", n+1, d.Digest), err)
	case total < d.Size:
		return fail(Truncated, "layer %d (%s) ends after %d of %d bytes", n+1, d.Digest, total, d.Size).
			hint("call the copy again: it goes on from there")
	case total > d.Size || fmt.Sprintf("%x", sum.Sum(nil)) != d.Digest.Hex:
		return fail(DigestMismatch, "layer %d (%s) is not what its digest promises", n+1, d.Digest)
	}
	return nil
}

// blobFrom opens a layer at an offset.
func (img *Image) blobFrom(ctx context.Context, n int, d v1.Descriptor, offset int64) (io.ReadCloser, error) {
	if offset >= d.Size {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if r, ok := img.src.(*registrySource); ok {
		return r.blobFrom(ctx, d, offset)
	}
	src, err := img.src.blob(ctx, n, d)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, src, offset); err != nil && !errors.Is(err, io.EOF) {
		src.Close()
		return nil, fmt.Errorf("reading %s: %w", d.Digest, err)
	}
	return src, nil
}
