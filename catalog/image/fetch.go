package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Annotations of layers that image pack writes; see ARCHITECTURE.md.
const (
	releaseAnnotation = "org.fitout.kernel.release"
	layerAnnotation   = "org.fitout.layer"

	baseLayer = "base" // a layer of the image that was built on: nothing of a driver
)

// markerName lies in a directory from the start of a fetch; inventoryName
// appears last, so a directory with both is complete.
const (
	markerName    = ".fitout-image"
	inventoryName = "inventory.json"
)

// Fetch reads the wanted part of the image into dir, keeping paths relative to
// the image's root, and returns what is there. Each layer is read once and
// verified while it passes. The work is done beside dir, in dir.part, which
// takes dir's place when it is complete: dir is whole or not there, and after an
// error what it held before is still there. Of two fetches into one dir the second
// waits for the first. A directory that an earlier fetch of
// the same image and want completed is compared with its digests and used again
// without reading anything. When a registry fails or ctx ends, dir.part stays,
// and the next Fetch goes on from there.
func (img *Image) Fetch(ctx context.Context, dir string, want Want) (*Inventory, error) {
	if inv, ok := img.fetchedBefore(dir, want); ok {
		return inv, nil
	}
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	part := dir + partName
	if err := ownDir(part); err != nil {
		return nil, err
	}
	held, waited, err := img.lockPart(ctx, part)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if waited {
		if inv, ok := img.fetchedBefore(dir, want); ok {
			return inv, os.RemoveAll(part)
		}
	}
	img.sweepParts(part)
	inv, took, err := img.fetchPart(ctx, part, want)
	if took && err != nil && !img.mayGoOn(err) {
		img.opts.Log(fmt.Sprintf("going on with an earlier fetch failed (%v); the image is fetched anew", err))
		if err = emptyDir(part); err == nil {
			inv, _, err = img.fetchPart(ctx, part, want)
		}
	}
	if err == nil {
		err = replaceDir(part, dir)
	}
	if err != nil && img.mayGoOn(err) {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(part))
	}
	return inv, nil
}

// fetchedBefore gives the inventory of a complete directory whose files are
// still what was fetched.
func (img *Image) fetchedBefore(dir string, want Want) (*Inventory, bool) {
	inv, err := ReadInventory(dir)
	if CodeOf(err) == StoreDamaged {
		img.opts.Log(fmt.Sprintf("%v; the image is fetched anew", err))
	}
	if err != nil || inv.Digest != img.digest || !sameWant(inv.want, want) {
		return nil, false
	}
	return inv, true
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

// emptyDir removes what is in a directory, and leaves the directory, which may be
// locked.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("emptying %s: %w", dir, err)
	}
	return nil
}

// prepareDir makes a directory with nothing but the marker in it.
func prepareDir(dir string) error {
	if err := ownDir(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return diskError("making "+dir, err)
	}
	if err := emptyDir(dir); err != nil {
		return err
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

// fetchPart fetches into part; took says whether an earlier fetch was taken up.
func (img *Image) fetchPart(ctx context.Context, part string, want Want) (inv *Inventory, took bool, err error) {
	if root, err := os.OpenRoot(part); err == nil {
		x := newExtraction(img, root, newSelector(want))
		if took = x.goOn(want); took {
			img.opts.Log("going on with a fetch that was broken off")
			inv, err = x.complete(ctx, want)
		}
		if err = errors.Join(err, root.Close()); took {
			return inv, took, err
		}
	}
	if err := prepareDir(part); err != nil {
		return nil, false, err
	}
	root, err := os.OpenRoot(part)
	if err != nil {
		return nil, false, fmt.Errorf("opening %s: %w", part, err)
	}
	defer root.Close()
	inv, err = newExtraction(img, root, newSelector(want)).complete(ctx, want)
	return inv, false, err
}

// complete reads all that is wanted and writes the inventory.
func (x *extraction) complete(ctx context.Context, want Want) (*Inventory, error) {
	if err := x.extractKept(ctx, want); err != nil {
		return nil, err
	}
	// An image for other kernels may still serve this one (it is judged by its
	// symbols): when nothing was found, take what is there.
	if x.sel.releases != nil && !want.OnlyLicences && !x.hasModules() && len(x.found.releases) > 0 {
		if err := emptyRoot(x.root); err != nil {
			return nil, err
		}
		x.sel.releases = nil
		x = newExtraction(x.img, x.root, x.sel)
		if err := x.extractKept(ctx, want); err != nil {
			return nil, err
		}
	}
	if err := x.followLinks(ctx); err != nil {
		return nil, err
	}
	// From here on files move, and nothing is fetched any more.
	if err := x.root.Remove(resumptionName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing %s: %w", resumptionName, err)
	}
	if err := x.makeLinks(); err != nil {
		return nil, err
	}
	inv, err := x.inventory(x.root.Name(), want)
	if err != nil {
		return nil, err
	}
	if err := x.settle(); err != nil {
		return nil, err
	}
	return inv, inv.write(x.root.Name())
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

// extractKept is extract for a fetch that can go on: it keeps how far it is from
// time to time, and when it fails in passing.
func (x *extraction) extractKept(ctx context.Context, want Want) error {
	keep := func(passes []*pass) {
		if err := x.keep(want, passes); err != nil {
			x.img.opts.Log(err.Error())
		}
	}
	kept := time.Now()
	x.kept = func(p *pass) {
		if _, remote := x.img.src.(*registrySource); remote && (p.done || time.Since(kept) > keepEvery) {
			kept = time.Now()
			keep(x.from(p.n))
		}
	}
	err := x.extract(ctx)
	if err != nil && x.img.mayGoOn(err) {
		keep(x.from(0))
	}
	return err
}

// extract passes over all layers that can hold something wanted.
func (x *extraction) extract(ctx context.Context) error {
	todo, total := x.img.layersFor(x.sel)
	x.tell = x.img.teller(x.had(todo), total)
	if err := x.readLayers(ctx, todo); err != nil {
		return err
	}
	if err := x.fetchLater(ctx); err != nil {
		return err
	}
	if err := x.unmet(); err != nil {
		return err
	}
	x.found.entries = x.counted.Load()
	for _, l := range x.img.manifest.Layers {
		if r := l.Annotations[releaseAnnotation]; r != "" {
			x.found.releases[r] = true
		}
	}
	return nil
}

// teller counts fetched bytes of several layers together and tells progress.
func (img *Image) teller(done, total int64) func(int64) {
	var mu sync.Mutex
	var told time.Time
	return func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		img.fetched += n
		if now := time.Now(); done == total || now.Sub(told) >= progressEvery {
			told = now
			img.opts.Progress(done, total)
		}
	}
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
	case kind == baseLayer:
		return false
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
