package images

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// WriteLayout adds the image to the OCI layout in dir, under a tag.
func WriteLayout(img v1.Image, dir, tag string) error {
	path, err := layout.FromPath(dir)
	if err != nil {
		if path, err = layout.Write(dir, empty.Index); err != nil {
			return fmt.Errorf("making an OCI layout: %w", err)
		}
	}
	err = path.AppendImage(img,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}),
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		return fmt.Errorf("adding the image to the OCI layout: %w", err)
	}
	return nil
}

// WriteOCIArchive writes the image as one tar file that holds an OCI layout.
func WriteOCIArchive(img v1.Image, file, tag string) error {
	dir, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := WriteLayout(img, dir, tag); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	if err := addTree(w, dir); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

// addTree writes all of a directory into a tar file.
func addTree(w *tar.Writer, dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		h.Name = rel
		if d.IsDir() {
			h.Name += "/"
			return w.WriteHeader(h)
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
}

// WriteDockerArchive writes the image as docker save does.
func WriteDockerArchive(img v1.Image, file, reference string) error {
	ref, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(file, ref, img); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
