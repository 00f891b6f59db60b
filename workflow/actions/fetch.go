// Package actions holds the steps of a run that belong to the workflow itself:
// bringing an image into the store, laying out its files for loading, and
// measuring the devices at the end.
package actions

import (
	"context"
	"fmt"
	"path"
	"time"

	"fitout/catalog/image"
	"fitout/hostops"
)

// Fetch brings the wanted files of an image into the store.
type Fetch struct {
	Reference, Digest string
	// Dir is the store entry, a node path.
	Dir  string
	Want image.Want
	// Size is the compressed size of the image's layers in bytes.
	Size int64
	// AuthFiles and PlainHTTP are what the operator said about the registry.
	AuthFiles []string
	PlainHTTP bool
	// Via is the way to the registry: "direct", "via proxy URL", or "local".
	Via     string
	Existed bool
}

// Kind implements hostops.Action.
func (*Fetch) Kind() string { return "fetch-image" }

// Source is where the image comes from.
func (f *Fetch) Source() string { return f.Reference }

// Describe implements hostops.Action.
func (f *Fetch) Describe() hostops.Description {
	d := hostops.Description{
		Title: "fetch " + f.Reference,
		Text: []string{
			"read " + f.Reference,
			"the way there: " + f.Via,
			"only if its digest is " + f.Digest,
			"into " + f.Dir,
		},
		Undo:     []string{"rm -r " + f.Dir},
		Estimate: time.Duration(f.Size/(4<<20)+1) * time.Second,
		Limit:    2 * time.Hour,
		Bytes:    f.Size,
		Into:     f.Dir,
	}
	return d
}

// Prepare implements hostops.Action.
func (f *Fetch) Prepare(_ context.Context, n *hostops.Node) error {
	f.Existed = n.Exists(f.Dir)
	return nil
}

// Done implements hostops.Action: the store entry is complete, undamaged, and is
// this digest.
func (f *Fetch) Done(_ context.Context, n *hostops.Node) (bool, error) {
	inv, err := image.ReadInventory(n.Path(f.Dir))
	return err == nil && inv.Digest == f.Digest, nil
}

// Do implements hostops.Action.
func (f *Fetch) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	ref, err := image.ParseReference(f.Reference)
	if err != nil {
		return err
	}
	opts, err := Options(n, f.AuthFiles, f.PlainHTTP)
	if err != nil {
		return err
	}
	opts.Pin, opts.Log = f.Digest, out.Line
	opts.Progress = out.Progress
	img, err := image.Open(ctx, ref, opts)
	if err != nil {
		if _, have := image.ReadInventory(n.Path(f.Dir)); image.CodeOf(have) == image.StoreDamaged {
			err = fmt.Errorf("%w; it is needed because %w", err, have)
		}
		return err
	}
	defer img.Close()
	if err := n.MkdirAll(path.Dir(f.Dir), 0o700); err != nil {
		return fmt.Errorf("making the image store: %w", err)
	}
	inv, err := img.Fetch(ctx, n.Path(f.Dir), f.Want)
	if err != nil {
		return err
	}
	out.Line(fmt.Sprintf("%s is %s, %d kernels", f.Reference, inv.Digest, len(inv.Kernels)))
	return nil
}

// Undo implements hostops.Action.
func (f *Fetch) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if f.Existed {
		return nil
	}
	return n.RemoveAll(f.Dir)
}

// Options are the image options that hold on this node. The error is about its
// settings file.
func Options(n *hostops.Node, authFiles []string, plainHTTP bool) (image.Options, error) {
	s, err := ReadSettings(n)
	o := image.Options{Arch: goArch(n.Kernel.Machine()), Root: n.Root, PlainHTTP: plainHTTP}
	if err == nil {
		o.Limits, o.CAFiles = s.Images.Limits.bounds(), s.Images.Authorities
	}
	for _, f := range authFiles {
		o.AuthFiles = append(o.AuthFiles, n.Path(f))
	}
	return o, err
}

// goArch is the name an image index uses for a machine (uname -m).
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return machine
}
