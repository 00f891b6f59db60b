package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sort"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ociStore is an OCI image layout that is being written.
type ociStore struct{ dir string }

func newStore(dir string) (*ociStore, error) {
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755); err != nil {
		return nil, placeError(dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return nil, placeError(dir, err)
	}
	return &ociStore{dir}, nil
}

// placeError tells a place where nothing can be written from a disk that is full.
func placeError(file string, err error) error {
	if err = diskError("writing "+file, err); CodeOf(err) != "" {
		return err
	}
	return fail(NotWritable, "%s cannot be written", file).because(errors.Unwrap(err))
}

func (s *ociStore) path(h v1.Hash) string {
	return filepath.Join(s.dir, filepath.FromSlash(blobPath(h)))
}

// put stores a small blob.
func (s *ociStore) put(raw []byte, media types.MediaType) (v1.Descriptor, error) {
	h, n, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("hashing a blob: %w", err)
	}
	if err := replaceFile(s.path(h), raw); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: media, Digest: h, Size: n}, nil
}

func (s *ociStore) putJSON(v any, media types.MediaType) (v1.Descriptor, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("writing %s: %w", media, err)
	}
	return s.put(raw, media)
}

// replaceFile writes a file whole or not at all.
func replaceFile(name string, data []byte) error {
	tmp := name + ".new"
	if err := writeSynced(tmp, data, 0o644); err != nil {
		return diskError("writing "+name, err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// blobWriter stores a blob whose digest is known when it is complete.
type blobWriter struct {
	store *ociStore
	file  *os.File
	sum   hash.Hash
	size  int64
}

func (s *ociStore) create() (*blobWriter, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "blobs"), "new-")
	if err != nil {
		return nil, diskError("writing a blob", err)
	}
	return &blobWriter{store: s, file: f, sum: sha256.New()}, nil
}

func (b *blobWriter) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.sum.Write(p[:n])
	b.size += int64(n)
	return n, err
}

// commit gives the blob its name.
func (b *blobWriter) commit(media types.MediaType) (v1.Descriptor, error) {
	h := v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", b.sum.Sum(nil))}
	err := errors.Join(b.file.Chmod(0o644), b.file.Sync(), b.file.Close())
	if err == nil {
		err = os.Rename(b.file.Name(), b.store.path(h))
	}
	if err != nil {
		b.abandon()
		return v1.Descriptor{}, diskError("writing a blob", err)
	}
	return v1.Descriptor{MediaType: media, Digest: h, Size: b.size}, nil
}

func (b *blobWriter) abandon() {
	b.file.Close()
	os.Remove(b.file.Name())
}

// name puts a manifest into the layout's index under a tag; an entry of the
// same tag is replaced, others stay.
func (s *ociStore) name(d v1.Descriptor, tag string) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	file := filepath.Join(s.dir, "index.json")
	if raw, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(raw, &index); err != nil {
			return fail(Corrupt, "reading %s", file).because(err)
		}
	}
	if tag != "" {
		d.Annotations = map[string]string{nameAnnotations[0]: tag}
	}
	var keep []v1.Descriptor
	for _, e := range index.Manifests {
		if e.Annotations[nameAnnotations[0]] != tag {
			keep = append(keep, e)
		}
	}
	index.Manifests = append(keep, d)
	raw, err := json.Marshal(index)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return replaceFile(file, raw)
}

// archive writes the layout as one tar file, whole or not at all. Members are
// in a fixed order and without times, so equal images are equal files.
func (s *ociStore) archive(file string) error {
	tmp := file + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return placeError(file, err)
	}
	err = s.writeTar(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		os.Remove(tmp)
		return diskError("writing "+file, err)
	}
	return nil
}

// writeTar puts the index first, for a reader that has little patience.
func (s *ociStore) writeTar(to io.Writer) error {
	blobs, err := os.ReadDir(filepath.Join(s.dir, "blobs/sha256"))
	if err != nil {
		return err
	}
	names := []string{"oci-layout", "index.json"}
	for _, b := range blobs {
		if len(b.Name()) == sha256.Size*2 {
			names = append(names, "blobs/sha256/"+b.Name())
		}
	}
	sort.Strings(names[2:])
	w := tar.NewWriter(to)
	for _, n := range names {
		if err := addFile(w, filepath.Join(s.dir, n), n); err != nil {
			return err
		}
	}
	return w.Close()
}

// addFile writes one file into a tar: owner root, mode 0644, no time.
func addFile(w *tar.Writer, from, name string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(fileHeader(name, st.Size())); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
