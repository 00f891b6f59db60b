package image

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// configBlob is the index of the configuration among an image's blobs.
const configBlob = -1

// source is where the bytes of one image come from. It checks nothing: digests
// and sizes are the reader's business.
type source interface {
	// top is the manifest or index that the reference names, and its digest.
	top(ctx context.Context) ([]byte, v1.Hash, error)
	// manifest reads a manifest that an index names.
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob opens layer n (configBlob: the configuration). The reader may end
	// early; it never gives more than was there.
	blob(ctx context.Context, n int, d v1.Descriptor) (io.ReadCloser, error)
	// origin is a word for messages: a host or a file.
	origin() string
	Close() error
}

// readAll reads a small blob whole, refusing one over limit bytes.
func readAll(r io.Reader, what string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if int64(len(raw)) > limit {
		return nil, fail(Limit, "%s is larger than %d bytes (limit manifest)", what, limit)
	}
	return raw, nil
}
