package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// openLocal opens an image on disk. The form is found by content: the stated
// transport only decides when an archive is of both forms.
func openLocal(ref Reference, opts Options) (source, error) {
	st, err := os.Stat(ref.Path)
	if err != nil {
		return nil, fail(NotFound, "opening image %s", ref).because(err)
	}
	var files fileSet
	if st.IsDir() {
		files, err = openDir(ref.Path)
	} else {
		files, err = openTar(ref.Path, opts)
	}
	if err != nil {
		return nil, err
	}
	src, err := recognise(ref, files, opts)
	if err != nil {
		files.Close()
		return nil, err
	}
	return src, nil
}

func recognise(ref Reference, files fileSet, opts Options) (source, error) {
	local := localImage{ref: ref, files: files, opts: opts}
	hasOCI, hasDocker := local.has("index.json"), local.has("manifest.json")
	switch {
	case hasOCI && !(hasDocker && ref.Transport == DockerArchive):
		return &ociSource{local}, nil
	case hasDocker:
		return openDocker(local)
	}
	if err := files.complete(); err != nil {
		return nil, err
	}
	return nil, fail(UnsupportedManifest, "%s is no image: no manifest.json, no index.json; it holds %s",
		ref.Path, or(strings.Join(files.first(), ", "), "nothing"))
}

// localImage is what the local forms share.
type localImage struct {
	ref   Reference
	files fileSet
	opts  Options
}

// has says that there is such a file, also one that cannot be read.
func (l *localImage) has(name string) bool {
	f, _, err := l.files.open(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	f.Close()
	return true
}

func (l *localImage) read(name string) ([]byte, error) {
	f, size, err := l.files.open(name)
	if err != nil {
		return nil, l.missing(name, err)
	}
	defer f.Close()
	raw, err := readAll(f, name, l.opts.Limits.Manifest)
	if err == nil && int64(len(raw)) < size {
		err = l.files.complete()
	}
	return raw, err
}

// missing turns "not there" into what happened: a cut archive or a bad image.
func (l *localImage) missing(name string, err error) error {
	if cut := l.files.complete(); cut != nil {
		return cut
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fail(Corrupt, "%s has no %s although it names it", l.ref.Path, name)
	}
	return fmt.Errorf("reading %s of %s: %w", name, l.ref.Path, err)
}

func (l *localImage) origin() string { return l.ref.Path }
func (l *localImage) Close() error   { return l.files.Close() }

// ociSource is an OCI image layout, directory or archive.
type ociSource struct{ localImage }

// annotations under which tools write an image's name.
var nameAnnotations = []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"}

func (s *ociSource) top(context.Context) ([]byte, v1.Hash, error) {
	raw, err := s.read("index.json")
	if err != nil {
		return nil, v1.Hash{}, err
	}
	var doc manifestDoc
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, v1.Hash{}, fail(Corrupt, "reading index.json of %s", s.ref.Path).because(err)
	}
	entry, err := s.pick(doc.Manifests)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	raw, err = s.manifest(context.Background(), entry)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	return raw, entry.Digest, checkBytes("manifest", raw, entry.Digest)
}

// pick finds the entry that Name means. Without a name the only image is
// taken; entries that differ by platform alone count as one image.
func (s *ociSource) pick(entries []v1.Descriptor) (v1.Descriptor, error) {
	if n, ok := strings.CutPrefix(s.ref.Name, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 0 || i >= len(entries) {
			return v1.Descriptor{}, fail(TagMissing, "%s has no image number %s, it has %d", s.ref.Path, n, len(entries))
		}
		return entries[i], nil
	}
	var found []v1.Descriptor
	var names []string
	for _, e := range entries {
		if notAnImage(e) != "" {
			continue
		}
		own := entryNames(e)
		names = append(names, own...)
		if s.ref.Name == "" || matchesName(own, s.ref.Name) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && s.ref.Name != "":
		return v1.Descriptor{}, &Error{Code: TagMissing, Tags: names,
			Message: fmt.Sprintf("%s has no image named %q; it has %s", s.ref.Path, s.ref.Name, listNames(names))}
	case len(found) == 0:
		return v1.Descriptor{}, fail(UnsupportedManifest, "%s holds no image", s.ref.Path)
	case onlyPlatforms(found):
		return choose(found, s.opts.Arch, s.opts.Log)
	}
	return v1.Descriptor{}, ambiguous(s.ref, len(found), names)
}

// onlyPlatforms says whether the entries are one image for several machines.
func onlyPlatforms(entries []v1.Descriptor) bool {
	first := strings.Join(entryNames(entries[0]), " ")
	for _, e := range entries {
		if e.Platform == nil || strings.Join(entryNames(e), " ") != first {
			return false
		}
	}
	return true
}

func ambiguous(ref Reference, n int, names []string) error {
	e := fail(Ambiguous, "%s holds %d images: %s", ref.Path, n, listNames(names))
	e.Tags = names
	example := "@0"
	if len(names) > 0 {
		example = names[0]
	}
	t := ref.Transport
	if t == Path {
		t = OCIArchive
	}
	return e.hint("say which one: %s:%s:%s", t, ref.Path, example)
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	return strings.Join(names, ", ")
}

func entryNames(e v1.Descriptor) []string {
	var names []string
	for _, a := range nameAnnotations {
		if n := e.Annotations[a]; n != "" {
			names = append(names, n)
		}
	}
	return names
}

// matchesName compares a full name or a tag.
func matchesName(names []string, want string) bool {
	for _, n := range names {
		if n == want || strings.HasSuffix(n, ":"+want) || strings.HasSuffix(n, "/"+want) {
			return true
		}
	}
	return false
}

func (s *ociSource) manifest(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return s.read(blobPath(d.Digest))
}

func (s *ociSource) blob(_ context.Context, _ int, d v1.Descriptor) (io.ReadCloser, error) {
	f, _, err := s.files.open(blobPath(d.Digest))
	if err != nil {
		return nil, s.missing(blobPath(d.Digest), err)
	}
	return f, nil
}

func blobPath(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }
