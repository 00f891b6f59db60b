package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// resumptionName is the file in which a fetch that was broken off keeps how far
// it was; it lies beside the files it had written.
const resumptionName = ".resume"

// keepEvery is how much of a fetch is lost at most when the process is killed; when
// the machine stops, as much as was not on its disk yet.
const keepEvery = 10 * time.Second

// resumption is what is known of a fetch under way. No byte of a layer is kept
// for it: what was wanted is written already, and the rest of a gzip stream can
// be read from the last of its places. It is stored behind its own sha256, files
// are compared with theirs, and a layer's digest is verified at its end over all
// of it, the part before the break included.
type resumption struct {
	Format int    `json:"format"`
	Digest string `json:"digest"`
	Want   Want   `json:"want"`
	// Every says that the fetch had gone over to all kernels of the image.
	Every   bool                  `json:"every,omitempty"`
	Key     pathKey               `json:"key"`
	Above   marks                 `json:"above"`
	Files   map[string]keptFile   `json:"files,omitempty"`
	Links   map[string]keptLink   `json:"links,omitempty"`
	Wants   map[string][]keptLink `json:"wants,omitempty"`
	Found   json.RawMessage       `json:"found"`
	Entries int64                 `json:"entries"`
	Layers  map[int]keptPass      `json:"layers"`
}

const resumptionFormat = 1

type keptFile struct {
	Layer int    `json:"layer"`
	Size  int64  `json:"size"`
	Class class  `json:"class"`
	Sum   []byte `json:"sum"`
}

// keptLink is a symbolic link and its target, or a hard link's name.
type keptLink struct {
	Name  string `json:"name"`
	Layer int    `json:"layer"`
	Class class  `json:"class"`
}

type keptPass struct {
	Done     bool         `json:"done,omitempty"`
	Verified bool         `json:"verified,omitempty"`
	Own      marks        `json:"own"`
	Names    []string     `json:"names,omitempty"`
	Links    []passedLink `json:"links,omitempty"`
	Border   int64        `json:"border,omitempty"`
	Spot     *place       `json:"spot,omitempty"`
}

// passingCodes are failures after which the next try may go on.
var passingCodes = map[Code]bool{Unreachable: true, RateLimited: true, Truncated: true, Unauthorised: true, Denied: true,
	Proxy: true, TLS: true, ClockSkew: true, NotFound: true}

// mayGoOn says whether what was fetched is worth keeping after err: the source
// failed, not the image.
func (img *Image) mayGoOn(err error) bool {
	_, remote := img.src.(*registrySource)
	return remote && (passingCodes[CodeOf(err)] || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// keep writes down how far the fetch is: with all layers begun while none is
// being read, or in a layer's turn with those from it upwards.
func (x *extraction) keep(want Want, passes []*pass) error {
	found, err := json.Marshal(x.found)
	if err != nil {
		return fmt.Errorf("keeping what was fetched: %w", err)
	}
	r := resumption{Format: resumptionFormat, Digest: x.img.digest, Want: want, Every: len(want.Releases) > 0 && x.sel.releases == nil,
		Key: x.over.seed, Above: x.over.above, Files: map[string]keptFile{}, Links: map[string]keptLink{}, Wants: map[string][]keptLink{},
		Found: found, Entries: x.counted.Load(), Layers: map[int]keptPass{}}
	for p, f := range x.files {
		r.Files[p] = keptFile{f.layer, f.size, f.class, f.sum[:]}
	}
	for p, l := range x.links {
		r.Links[p] = keptLink{l.target, l.layer, l.class}
	}
	for target, links := range x.wants {
		for _, l := range links {
			r.Wants[target] = append(r.Wants[target], keptLink{l.name, l.layer, l.class})
		}
	}
	put := map[int]bool{} // layers of which more is to be fetched
	for _, l := range x.later {
		put[l.layer] = true
	}
	for _, p := range passes {
		r.Layers[p.n] = keptPass{p.done && !put[p.n], p.verified && !put[p.n], p.own, p.names, p.links, p.border, p.spot}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keeping what was fetched: %w", err)
	}
	sum := sha256.Sum256(raw)
	name := filepath.Join(x.root.Name(), resumptionName)
	if err := os.WriteFile(name+".new", append(sum[:], raw...), 0o600); err != nil {
		return diskError("keeping what was fetched", err)
	}
	return os.Rename(name+".new", name)
}

// goOn takes up a fetch of the same image and want that was broken off in
// root; ok is false when there is none, or its files are not what it wrote.
func (x *extraction) goOn(want Want) (ok bool) {
	raw, err := x.root.ReadFile(resumptionName)
	if err != nil || len(raw) < sha256.Size || sha256.Sum256(raw[sha256.Size:]) != [sha256.Size]byte(raw) {
		return false
	}
	raw = raw[sha256.Size:]
	var r resumption
	if json.Unmarshal(raw, &r) != nil || r.Format != resumptionFormat || r.Digest != x.img.digest || !sameWant(r.Want, want) ||
		json.Unmarshal(r.Found, &x.found) != nil || !r.sound() {
		return false
	}
	for p, f := range r.Files {
		if !intact(x.root, p, f.Sum) {
			x.img.opts.Log(fmt.Sprintf("%s was fetched before and is damaged; the image is fetched anew", p))
			return false
		}
	}
	if err := x.sweep(r.Files); err != nil {
		return false
	}
	if r.Every {
		x.sel.releases = nil
	}
	x.over.seed, x.over.above = r.Key, r.Above
	x.counted.Store(r.Entries)
	x.restore(r)
	return true
}

// sound says whether nothing is missing that is relied on later.
func (r *resumption) sound() bool {
	ok := r.Above.sound()
	for _, l := range r.Layers {
		ok = ok && (l.Own.sound() && l.Border >= 0 && (l.Spot == nil || l.Spot.Raw.At >= 0 && l.Spot.Point.In >= l.Spot.Raw.At && l.Spot.Point.Out <= l.Border))
	}
	return ok
}

func (x *extraction) restore(r resumption) {
	for p, f := range r.Files {
		x.files[p] = written{layer: f.Layer, size: f.Size, class: f.Class, sum: [sha256.Size]byte(f.Sum)}
		x.spent.files++
		x.spent.bytes += f.Size
	}
	for p, l := range r.Links {
		x.links[p] = link{layer: l.Layer, target: l.Name, class: l.Class}
	}
	for target, links := range r.Wants {
		for _, l := range links {
			x.wants[target] = append(x.wants[target], hardlink{l.Name, l.Layer, l.Class})
		}
	}
	for n, k := range r.Layers {
		x.passes[n] = &pass{x: x, n: n, own: k.Own, names: k.Names, links: k.Links, border: k.Border, spot: k.Spot, verified: k.Verified, done: k.Done}
	}
}

// had is how many bytes of the layers need not be fetched again.
func (x *extraction) had(todo []int) (bytes int64) {
	for _, n := range todo {
		p := x.passes[n]
		switch {
		case p == nil:
		case p.done || p.verified:
			bytes += x.img.manifest.Layers[n].Size
		case p.spot != nil:
			bytes += p.spot.Raw.At
		}
	}
	return bytes
}

// sweep removes what is not among the files: those of a step that was not
// written down any more.
func (x *extraction) sweep(files map[string]keptFile) error {
	return fs.WalkDir(x.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == markerName || p == resumptionName {
			return err
		}
		if _, ok := files[p]; ok {
			return nil
		}
		return x.root.Remove(p)
	})
}

// intact says whether a file of root has the sha256 sum.
func intact(root *os.Root, p string, sum []byte) bool {
	if st, err := root.Lstat(p); err != nil || !st.Mode().IsRegular() || len(sum) != sha256.Size {
		return false
	}
	f, err := root.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return err == nil && [sha256.Size]byte(h.Sum(nil)) == [sha256.Size]byte(sum)
}
