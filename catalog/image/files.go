package image

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"
)

// fileSet is the files of a layout directory or of an archive.
type fileSet interface {
	// open gives a file's bytes and the size it should have; the bytes may end
	// earlier. A file that is not there is fs.ErrNotExist.
	open(name string) (io.ReadCloser, int64, error)
	// first lists some of the names, for messages.
	first() []string
	// complete is nil, or says where the archive breaks off.
	complete() error
	Close() error
}

// dirFiles is a directory, read through os.Root so that a link in it leads
// nowhere else.
type dirFiles struct{ root *os.Root }

func openDir(dir string) (fileSet, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fail(NotFound, "opening image layout %s", dir).because(err)
	}
	return dirFiles{root}, nil
}

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, 0, errors.Join(err, fs.ErrNotExist)
	}
	return f, st.Size(), nil
}

func (d dirFiles) first() []string {
	entries, _ := fs.ReadDir(d.root.FS(), ".")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return firstOf(names)
}

func (d dirFiles) complete() error { return nil }
func (d dirFiles) Close() error    { return d.root.Close() }

// tarFiles is an uncompressed archive, read in place.
type tarFiles struct {
	file *os.File
	tarIndex
}

func openTar(file string, opts Options) (fileSet, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fail(NotFound, "opening image archive").because(err)
	}
	var files fileSet
	if isPacked(f) {
		files, err = openPacked(f, opts)
	} else {
		t := &tarFiles{f, newTarIndex(file, opts.Limits.Members)}
		files, err = t, t.scan(f, func(*tar.Header, string, io.Reader) error { return nil })
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return files, nil
}

func (t *tarFiles) open(name string) (io.ReadCloser, int64, error) {
	_, m, err := t.find(name)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(io.NewSectionReader(t.file, m.offset, m.size)), m.size, nil
}

func (t *tarFiles) Close() error { return t.file.Close() }

// firstOf gives the first few names in order.
func firstOf(names []string) []string {
	names = append([]string(nil), names...)
	sort.Strings(names)
	return names[:min(len(names), 8)]
}
