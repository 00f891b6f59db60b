package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/run"
)

// stored is an image in the store, or why it is not there.
type stored struct {
	inventory *image.Inventory
	dir       string // node path
	err       error
}

// store reads one image: first only what is for the kernels that may boot; when
// that leaves one of them without a build, all of it, so that a build for
// another release can be judged by its symbols.
func (e *Engine) store(ctx context.Context, s *Survey, q question, release, reference string, p image.Progress) *stored {
	ref, err := image.ParseReference(reference)
	if err != nil {
		return &stored{err: ReferenceError(err)}
	}
	pin := q.pins[release]
	if pin == "" && e.Locked {
		return &stored{err: stopf(ExitForbidden, "not-pinned", "run the wizard once, or leave --locked out", "%s is not pinned by the answers for %s", reference, release)}
	}
	var damage error // of what the store has of it
	if pin != "" {
		// A pinned image that is in the store needs no network at all.
		dir := e.storeDir(pin, q.place())
		inv, err := image.ReadInventory(e.Node.Path(dir))
		if err == nil && inv.Digest == pin && inv.Want().Covers(q.want([]string{release})) &&
			hasBuilds(inv, []string{release}) && hasBuilds(inv, q.upgrades(inv, s.Running())) {
			return &stored{inventory: inv.From(reference), dir: dir}
		}
		damage = err
	}
	opts, err := e.imageOptions(q)
	if err != nil {
		return &stored{err: err}
	}
	opts.Pin, opts.Progress = pin, p
	img, err := image.Open(ctx, ref, opts)
	if err != nil {
		known, broken := e.installedFrom(s, q.place(), reference, release, pin)
		if known != nil {
			return known // what was installed from it needs neither stick nor registry again
		}
		return &stored{err: withDamage(ImageError(reference, err), cmp.Or(broken, damage))}
	}
	defer img.Close()
	dir := e.storeDir(img.Digest(), q.place())
	files := e.storeFiles(dir)
	if err := e.termsOf(ctx, q, img, files); err != nil {
		return &stored{err: err}
	}
	want := q.want(s.releases())
	inv, err := e.fetch(ctx, img, files, want)
	switch {
	case err != nil:
	case !q.exact && !hasBuilds(inv, s.releases()):
		want.Releases = nil
		inv, err = e.fetch(ctx, img, files, want)
	case !hasBuilds(inv, q.upgrades(inv, s.Running())):
		want.Releases = append(s.releases(), q.upgrades(inv, s.Running())...)
		inv, err = e.fetch(ctx, img, files, want)
	}
	if err != nil {
		return &stored{err: ImageError(reference, err)}
	}
	return &stored{inventory: inv, dir: dir}
}

// withDamage adds to an error about a source that the store has the image, and
// why it does not serve.
func withDamage(err, damage error) error {
	var e *Error
	if !errors.As(err, &e) || image.CodeOf(damage) != image.StoreDamaged {
		return err
	}
	c := *e
	c.Message += "; the copy in the image store does not serve: " + damage.Error()
	return &c
}

// installedFrom is the stored image of a driver that was installed from this
// very reference, nil when there is none; damage says why it cannot be used.
func (e *Engine) installedFrom(s *Survey, place, reference, release, pin string) (known *stored, damage error) {
	records, _ := run.Installed(e.Node, s.Host.StateDir)
	for _, r := range records {
		if r.Driver.Image != reference || r.Driver.Place != place || (pin != "" && pin != r.Driver.Digest) {
			continue
		}
		dir := e.storeDir(r.Driver.Digest, place)
		inv, err := image.ReadInventory(e.Node.Path(dir))
		if err == nil && hasBuilds(inv, []string{release}) {
			return &stored{inventory: inv, dir: dir}, nil
		}
		damage = cmp.Or(damage, err)
	}
	return nil, damage
}

// fetch reads what is wanted of an image into its directory of the store, a path
// of this machine. What another driver of the same image has there already stays.
func (e *Engine) fetch(ctx context.Context, img *image.Image, dir string, want image.Want) (*image.Inventory, error) {
	if have, err := image.ReadInventory(dir); err == nil && have.Digest == img.Digest() {
		if have.Want().Covers(want) {
			return have.From(img.Reference().String()), nil
		}
		want = have.Want().With(want)
	}
	if err := os.MkdirAll(path.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("making the image store: %w", err)
	}
	return img.Fetch(ctx, dir, want)
}

// licenceFile is where a driver's licence text lies in its image, "" when the
// entry does not say.
func licenceFile(d catalog.Driver) string {
	if d.Licence == nil {
		return ""
	}
	return d.Licence.File
}

// upgrades are the image's kernels that an upgrade may bring.
func (q question) upgrades(inv *image.Inventory, running string) []string {
	var out []string
	for _, r := range inv.Releases {
		if q.newer && host.CompareReleases(r, running) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func hasBuilds(inv *image.Inventory, releases []string) bool {
	for _, r := range releases {
		if !slices.ContainsFunc(inv.Kernels, func(k image.Kernel) bool { return k.Release == r }) {
			return false
		}
	}
	return true
}

// storeDir is where an image's files are kept, named by its digest and, for one
// with several flavours, by the place in it.
func (e *Engine) storeDir(digest, place string) string {
	name := strings.ReplaceAll(digest, ":", "-")
	if place != "" {
		name += "-" + place
	}
	return path.Join(e.StateDir(), "store", name)
}

// place is where in the image the driver lies.
func (q question) place() string { return q.want(nil).Place() }

// storeFiles is where, on this machine, an image is read to whose directory of
// the store is dir.
func (e *Engine) storeFiles(dir string) string {
	if e.Scratch != "" {
		return path.Join(e.Scratch, path.Base(dir))
	}
	return e.Node.Path(dir)
}

// MayStore says that this process may write the image store.
func (e *Engine) MayStore() bool {
	for dir := e.Node.Path(path.Join(e.StateDir(), "store")); ; dir = path.Dir(dir) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != "/" {
			continue // what is missing is made in the directory above
		}
		return unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	}
}
