package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/actions"
	"fitout/workflow/run"
)

// Store is the image store below the state directory.
type Store struct {
	Dir string `json:"dir"`
	// Bytes and Limit are sizes in bytes; what drivers need counts, and stays
	// also above the limit.
	Bytes  int64         `json:"bytes"`
	Limit  int64         `json:"limit"`
	Images []StoredImage `json:"images"`
}

// StoredImage is one image of the store, or the remains of a fetch that can go
// on.
type StoredImage struct {
	Digest string    `json:"digest"`
	Bytes  int64     `json:"bytes"`
	Used   time.Time `json:"used"` // when it was last fetched
	// Needed says that an installed driver came from it.
	Needed bool `json:"needed"`

	dir string
}

// Store measures the image store.
func (e *Engine) Store() (*Store, error) {
	set, settingsErr := actions.ReadSettings(e.Node)
	st := &Store{Dir: path.Join(e.StateDir(), "store"), Limit: set.Store.Bytes(), Images: []StoredImage{}}
	needed, err := e.neededImages()
	if err != nil {
		return st, err
	}
	entries, err := e.Node.ReadDir(st.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return st, settingsErr
	}
	if err != nil {
		return st, fmt.Errorf("reading the image store: %w", err)
	}
	for _, entry := range entries {
		i := StoredImage{dir: path.Join(st.Dir, entry.Name())}
		name := strings.TrimSuffix(strings.TrimSuffix(entry.Name(), ".part"), ".old")
		digest, _, _ := strings.Cut(strings.Replace(name, "-", ":", 1), "-") // behind it, the place in the image
		i.Digest = digest
		i.Needed = needed[i.Digest] && name == entry.Name()
		if info, err := entry.Info(); err == nil {
			i.Used = info.ModTime()
		}
		i.Bytes = e.takes(i.dir)
		st.Bytes += i.Bytes
		st.Images = append(st.Images, i)
	}
	return st, settingsErr
}

// neededImages are the digests that installed and kept drivers came from.
func (e *Engine) neededImages() (map[string]bool, error) {
	out := map[string]bool{}
	records, err := run.Installed(e.Node, e.StateDir())
	for _, r := range records {
		out[r.Driver.Digest] = true
	}
	kept, keptErr := host.ReadKept(e.Node, e.StateDir())
	for _, k := range kept {
		out[k.Driver.Digest] = true
		for _, b := range k.Driver.Builds {
			out[b.Digest] = true
		}
	}
	return out, errors.Join(err, keptErr)
}

// takes is what the files below a directory take, in bytes; files that are gone
// meanwhile take nothing.
func (e *Engine) takes(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(e.Node.Path(dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// TidyStore deletes images that no driver needs, those fetched longest ago
// first, until the store is within its limit; spare are digests that are in use
// now. It returns what it deleted. With a record that cannot be read it deletes
// nothing: what is needed is not known then.
func (e *Engine) TidyStore(spare ...string) ([]StoredImage, error) {
	st, err := e.Store()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(st.Images, func(a, b StoredImage) int { return cmp.Compare(a.Used.UnixNano(), b.Used.UnixNano()) })
	var gone []StoredImage
	for _, i := range st.Images {
		if st.Bytes <= st.Limit {
			break
		}
		if i.Needed || slices.Contains(spare, i.Digest) || image.Fetching(e.Node.Path(i.dir)) {
			continue
		}
		if err := e.Node.RemoveAll(i.dir); err != nil {
			return gone, fmt.Errorf("taking %s out of the image store: %w", i.Digest, err)
		}
		st.Bytes -= i.Bytes
		gone = append(gone, i)
	}
	return gone, nil
}

// tidyAfterFetch keeps the store within its limit once an image came in; a run
// in progress may need what nobody has recorded yet.
func (e *Engine) tidyAfterFetch(digest string) {
	if e.Current() != "" {
		return
	}
	if _, err := e.TidyStore(digest); err != nil {
		e.Node.Log.Warn("the image store was not tidied", "err", err)
	}
}
