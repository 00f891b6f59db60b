package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Annotations of layers that image pack writes; see ARCHITECTURE.md.
const (
	releaseAnnotation = "org.fitout.kernel.release"
	layerAnnotation   = "org.fitout.layer"
)

// markerName lies in a directory from the start of a fetch; inventoryName
// appears last, so a directory with both is complete.
const (
	markerName    = ".fitout-image"
	inventoryName = "inventory.json"
)

// Fetch reads the wanted part of the image into dir, keeping paths relative to
// the image's root, and returns what is there. Each layer is read once, from
// the top, and verified while it passes. The work is done beside dir, in
// dir.part, which takes dir's place when it is complete: dir is whole or not
// there, and after an error what it held before is still there. A directory
// that an earlier fetch of the same image and want completed is used again
// without reading anything.
func (img *Image) Fetch(ctx context.Context, dir string, want Want) (*Inventory, error) {
	if inv, err := ReadInventory(dir); err == nil && inv.Digest == img.digest && sameWant(inv.want, want) {
		return inv, nil
	}
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	part := dir + ".part"
	if err := prepareDir(part); err != nil {
		return nil, err
	}
	inv, err := img.fetchInto(ctx, part, want)
	if err == nil {
		err = replaceDir(part, dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(part))
	}
	return inv, nil
}

// ownDir says that dir may be replaced: it is not there, empty, or was made by
// a fetch.
func ownDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", dir, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, markerName)); err != nil && len(entries) > 0 {
		return fmt.Errorf("fetching an image into %s: the directory is not empty and was not made by a fetch", dir)
	}
	return nil
}

// prepareDir makes a new directory with the marker in it.
func prepareDir(dir string) error {
	if err := ownDir(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("emptying %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskError("making "+dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, markerName), nil, 0o600); err != nil {
		return diskError("marking "+dir, err)
	}
	return nil
}

// replaceDir puts part in the place of dir.
func replaceDir(part, dir string) error {
	old := dir + ".old"
	if err := ownDir(old); err != nil {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("removing %s: %w", old, err)
	}
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replacing %s: %w", dir, err)
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("replacing %s: %w", dir, err)
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("removing %s: %w", old, err)
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("replacing %s: %w", dir, err)
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func (img *Image) fetchInto(ctx context.Context, dir string, want Want) (*Inventory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	sel := newSelector(want)
	x, err := img.extract(ctx, root, sel)
	if err != nil {
		return nil, err
	}
	// An image for other kernels may still serve this one (it is judged by its
	// symbols): when nothing was found, take what is there.
	if len(want.Releases) > 0 && !want.OnlyLicences && !x.hasModules() && len(x.found.releases) > 0 {
		if err := emptyRoot(root); err != nil {
			return nil, err
		}
		sel.releases = nil
		if x, err = img.extract(ctx, root, sel); err != nil {
			return nil, err
		}
	}
	if err := x.followLinks(ctx); err != nil {
		return nil, err
	}
	if err := x.makeLinks(); err != nil {
		return nil, err
	}
	inv, err := x.inventory(dir, want)
	if err != nil {
		return nil, err
	}
	if err := x.settle(); err != nil {
		return nil, err
	}
	return inv, inv.write(dir)
}

// emptyRoot takes out what a first pass wrote, all but the marker: a second one
// finds the directory as the first did.
func emptyRoot(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("reading %s: %w", root.Name(), err)
	}
	for _, e := range entries {
		if e.Name() == markerName {
			continue
		}
		if err := root.RemoveAll(e.Name()); err != nil {
			return fmt.Errorf("emptying %s: %w", root.Name(), err)
		}
	}
	return nil
}

// progressEvery is how often progress is told; each telling may be a line in a
// journal.
const progressEvery = 200 * time.Millisecond

// extract passes over all layers that can hold something wanted.
func (img *Image) extract(ctx context.Context, root *os.Root, sel *selector) (*extraction, error) {
	x := newExtraction(img, root, sel)
	var done int64
	var told time.Time
	todo, total := img.layersFor(sel)
	x.tell = func(n int64) {
		done += n
		img.fetched += n
		if now := time.Now(); done == total || now.Sub(told) >= progressEvery {
			told = now
			img.opts.Progress(done, total)
		}
	}
	for _, n := range todo {
		done, err := x.readModules(ctx, n)
		if err == nil && !done {
			err = x.readLayer(ctx, n)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := x.unmet(); err != nil {
		return nil, err
	}
	for _, l := range img.manifest.Layers {
		if r := l.Annotations[releaseAnnotation]; r != "" {
			x.found.releases[r] = true
		}
	}
	return x, nil
}

// layersFor lists the layers to read, from the top, and their bytes. A layer's
// annotation is believed only while every layer above carries one too: below a
// layer of unknown content any path may matter.
func (img *Image) layersFor(sel *selector) (todo []int, bytes int64) {
	hinted := true
	for n := len(img.manifest.Layers) - 1; n >= 0; n-- {
		l := img.manifest.Layers[n]
		release, kind := l.Annotations[releaseAnnotation], l.Annotations[layerAnnotation]
		if hinted = hinted && (release != "" || kind != ""); hinted && !sel.layer(release, kind) {
			continue
		}
		todo = append(todo, n)
		bytes += l.Size
	}
	return todo, bytes
}

// layer says whether an annotated layer can hold something wanted.
func (s *selector) layer(release, kind string) bool {
	switch {
	case s.want.OnlyLicences:
		return kind == "licences"
	case release != "":
		return s.releases == nil || s.releases[release]
	case kind == "firmware":
		return len(s.firmware) > 0
	case kind == "licences":
		return s.want.Licences || s.want.LicenceFile != ""
	}
	return true
}

func (x *extraction) hasModules() bool {
	for p, f := range x.files {
		if f.class == carrier || isModule(p) {
			return true
		}
	}
	return false
}
