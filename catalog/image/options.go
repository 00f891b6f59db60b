package image

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Options say how to reach and how far to trust an image. The zero value reads
// for this machine's architecture with the node's own settings.
type Options struct {
	// Arch is the architecture in Go's words ("amd64", "arm64").
	Arch string
	// AuthFiles are credential files read before the node's own.
	AuthFiles []string
	// CAFiles are certificate files below Root that are trusted besides the node's
	// own.
	CAFiles []string
	// PlainHTTP allows unencrypted HTTP for the named registry.
	PlainHTTP bool
	// Root is the directory below which /etc/containers, /etc/docker and the
	// like are looked up; "" means "/".
	Root string
	// Pin is the digest that the reference must resolve to ("" : none).
	Pin string
	// Verifier is called with the reference and the platform manifest's digest
	// before anything else of the image is read.
	Verifier func(ref, digest string) error
	// Log receives a sentence a person may want to see ("registry asks to wait
	// 30 s"); it never holds a secret.
	Log func(string)
	// Limits bound what an image may cost; zero fields take their defaults.
	Limits   Limits
	Progress Progress
	// Getenv looks up a variable (proxy settings, HOME); nil means os.Getenv.
	Getenv func(string) string
	// Sleep waits between tries; nil means a timer that ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Limits bound what reading an image may cost. The names are those that errors
// use.
type Limits struct {
	// Entries of all layers together (default 2,000,000).
	Entries int64 `json:"entries,omitempty"`
	// Files written (default 200,000) and their Bytes (default 16 GiB).
	Files int64 `json:"files,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Name is the longest entry name in bytes (default 4096, PATH_MAX).
	Name int `json:"name,omitempty"`
	// Ratio is how many times larger than its compressed form a layer may be,
	// once it is over 256 MiB (default 200).
	Ratio int64 `json:"ratio,omitempty"`
	// Window is the largest zstd window in bytes (default 8 MiB).
	Window uint64 `json:"window,omitempty"`
	// Manifest is the largest manifest or configuration (default 8 MiB).
	Manifest int64 `json:"manifest,omitempty"`
	// Members of an archive file (default 100,000; an image has a few dozen).
	Members int `json:"members,omitempty"`
	// Depth is how many indexes may lie one in another (default 4; real images
	// have one).
	Depth int `json:"depth,omitempty"`
	// Wait is the longest sum of pauses that a registry may ask for in one
	// request (default 5 minutes).
	Wait time.Duration `json:"wait,omitempty"`
	// Stall is how long a connection may give nothing before it counts as
	// broken (default 1 minute).
	Stall time.Duration `json:"stall,omitempty"`
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Entries:  or(l.Entries, 2_000_000),
		Files:    or(l.Files, 200_000),
		Bytes:    or(l.Bytes, 16<<30),
		Name:     or(l.Name, 4096),
		Ratio:    or(l.Ratio, 200),
		Window:   or(l.Window, 8<<20),
		Manifest: or(l.Manifest, 8<<20),
		Members:  or(l.Members, 100_000),
		Depth:    or(l.Depth, 4),
		Wait:     or(l.Wait, 5*time.Minute),
		Stall:    or(l.Stall, time.Minute),
	}
}

func (o Options) withDefaults() Options {
	o.Arch = or(o.Arch, runtime.GOARCH)
	o.Root = or(o.Root, "/")
	o.Limits = o.Limits.withDefaults()
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	o.Log = oneAtATime(o.Log)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return o
}

// oneAtATime lets the layers of an image, which are read beside each other, use
// a function that was not made for it.
func oneAtATime(log func(string)) func(string) {
	var mu sync.Mutex
	return func(s string) {
		mu.Lock()
		defer mu.Unlock()
		log(s)
	}
}

// path is where a path of the node lies below Root.
func (o Options) path(p string) string { return filepath.Join(o.Root, p) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
