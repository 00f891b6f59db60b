package image

import (
	"context"
	"fmt"
	"os"
)

// FetchFiles reads the files whose path (relative to the image's root) keep
// names into dir, which is made, or is empty: parts of an image that is no
// driver image, such as the kernel of an operating system. Layers are read and
// verified, whiteouts and links respected, as by Fetch; there is no inventory.
// It returns how many files were kept.
func (img *Image) FetchFiles(ctx context.Context, dir string, keep func(path string) bool) (int, error) {
	if err := prepareDir(dir); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	x := newExtraction(img, root, &selector{keep: keep})
	if err := x.extract(ctx); err != nil {
		return 0, err
	}
	if err := x.makeLinks(); err != nil {
		return 0, err
	}
	return len(x.files), nil
}
