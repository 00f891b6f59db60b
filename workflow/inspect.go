package workflow

import (
	"context"
	"os"

	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/judge"
)

// Inspect reads an image into a private temporary directory, all of it or, of an
// image that holds several kernels, the part for one release; done removes it.
// All module trees of a kernel are listed, also where only one can be used.
func (e *Engine) Inspect(ctx context.Context, reference, release string) (inv *image.Inventory, done func(), err error) {
	ref, err := image.ParseReference(reference)
	if err != nil {
		return nil, nil, ReferenceError(err)
	}
	opts, err := e.ImageOptions()
	if err != nil {
		return nil, nil, err
	}
	img, err := image.Open(ctx, ref, opts)
	if err != nil {
		return nil, nil, ImageError(reference, err)
	}
	defer img.Close()
	dir, err := os.MkdirTemp("", "fitout-inspect-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	want := image.Want{Licences: true, EveryTree: true}
	if release != "" {
		want.Releases = []string{release}
	}
	inv, err = img.Fetch(ctx, dir+"/image", want)
	if err != nil {
		done()
		return nil, nil, ImageError(reference, err)
	}
	return inv, done, nil
}

// JudgeFor judges all modules of an image for one kernel whose modules are on
// this node; every module of the image is taken as wanted.
func (e *Engine) JudgeFor(ctx context.Context, inv *image.Inventory, release string) (*judge.Judgement, error) {
	s, err := e.Hardware(ctx)
	if err != nil {
		return nil, err
	}
	kernel := host.Kernel{Release: release, OSRoot: "/", Dir: "/lib/modules/" + release}
	for _, k := range s.Kernels {
		if k.Release == release {
			kernel = k
		}
	}
	j := e.judge(s, kernel, question{}, inv)
	return &j, nil
}
