package image

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"sort"
	"time"

	"github.com/containerd/stargz-snapshotter/estargz"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// packFile is one file of a layer: from a file on disk, or its bytes.
type packFile struct {
	name string // in the image
	from string // on disk, "" when data holds it
	data []byte
	link string // target of a symbolic link
}

// packedLayer is a layer that was written, with what the configuration and the
// manifest say of it.
type packedLayer struct {
	desc v1.Descriptor
	diff v1.Hash
}

func fileHeader(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: formatOf(name)}
}

// formatOf keeps to the oldest tar that can hold the name, which every tool
// reads alike.
func formatOf(name string) tar.Format {
	if len(name) <= 100 {
		return tar.FormatUSTAR
	}
	return tar.FormatPAX
}

// writeLayer stores files as one gzip layer in which each file can be fetched by
// itself (eStargz). The same files give the same bytes: sorted names, no times,
// owner root, one compression level: level 9 makes modules 0.5% smaller in ten
// times the time.
func (s *ociStore) writeLayer(files []packFile, notes map[string]string) (packedLayer, error) {
	sort.Slice(files, func(i, j int) bool { return files[i].name < files[j].name })
	b, err := s.create()
	if err != nil {
		return packedLayer{}, err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeEntries(tar.NewWriter(w), files)) }()
	z := estargz.NewWriterLevel(b, gzip.DefaultCompression)
	err = z.AppendTar(r)
	r.CloseWithError(err)
	if err != nil {
		b.abandon()
		return packedLayer{}, diskError("packing a layer", err)
	}
	sum, err := z.Close()
	if err != nil {
		b.abandon()
		return packedLayer{}, diskError("packing a layer", err)
	}
	diff, err := v1.NewHash(z.DiffID())
	if err != nil {
		b.abandon()
		return packedLayer{}, fmt.Errorf("packing a layer: %w", err)
	}
	l := packedLayer{diff: diff}
	l.desc, err = b.commit(types.OCILayer)
	l.desc.Annotations = map[string]string{tocAnnotation: sum.String()}
	for k, v := range notes {
		l.desc.Annotations[k] = v
	}
	return l, err
}

func writeEntries(w *tar.Writer, files []packFile) error {
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := writeDirs(w, path.Dir(f.name), made); err != nil {
			return err
		}
		if err := writeEntry(w, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return w.Close()
}

func writeDirs(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := writeDirs(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir, ModTime: time.Unix(0, 0), Format: formatOf(dir + "/")})
}

func writeEntry(w *tar.Writer, f packFile) error {
	switch {
	case f.link != "":
		return w.WriteHeader(&tar.Header{Name: f.name, Linkname: f.link, Mode: 0o777, Typeflag: tar.TypeSymlink, ModTime: time.Unix(0, 0), Format: formatOf(f.name + f.link)})
	case f.from == "":
		if err := w.WriteHeader(fileHeader(f.name, int64(len(f.data)))); err != nil {
			return err
		}
		_, err := w.Write(f.data)
		return err
	}
	return addFile(w, f.from, f.name)
}
