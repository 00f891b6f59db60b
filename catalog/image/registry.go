package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registrySource is one repository, reached through the first of its endpoints
// (mirrors, then the registry itself) that has the image.
type registrySource struct {
	ref       Reference
	opts      Options
	endpoints []*endpoint
	// at is the endpoint that gave the manifest; blobs are asked there first.
	at int
	mu sync.Mutex
}

// manifestTypes are asked for; schema 1 is not among them, but is named when
// it comes all the same.
var manifestTypes = []string{
	string(types.OCIImageIndex), string(types.DockerManifestList),
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}

func openRegistry(_ context.Context, ref Reference, opts Options) (source, error) {
	endpoints, err := endpointsFor(ref, opts)
	if err != nil {
		return nil, err
	}
	return &registrySource{ref: ref, opts: opts, endpoints: endpoints}, nil
}

func (s *registrySource) origin() string { return s.ref.Registry }

func (s *registrySource) Close() error {
	for _, e := range s.endpoints {
		e.close()
	}
	return nil
}

// top asks the endpoints in order. When all fail the registry's own error is
// the headline and the mirrors' are told beside it.
func (s *registrySource) top(ctx context.Context) ([]byte, v1.Hash, error) {
	var before []error
	for i, e := range s.endpoints {
		raw, digest, err := s.topFrom(ctx, e)
		if err == nil {
			s.at = i
			return raw, digest, nil
		}
		if ctx.Err() != nil {
			return nil, v1.Hash{}, ctx.Err()
		}
		if i == len(s.endpoints)-1 {
			return nil, v1.Hash{}, withMirrors(err, before)
		}
		s.opts.Log(fmt.Sprintf("mirror %s does not serve %s: %v", e.host, s.ref, err))
		before = append(before, fmt.Errorf("mirror %s: %w", e.host, err))
	}
	return nil, v1.Hash{}, fail(Blocked, "no endpoint is configured for %s", s.ref.Registry)
}

func withMirrors(err error, mirrors []error) error {
	var own *Error
	if len(mirrors) == 0 || !errors.As(err, &own) {
		return err
	}
	var words []string
	for _, m := range mirrors {
		words = append(words, m.Error())
	}
	e := *own
	e.Message += " (tried before: " + strings.Join(words, "; ") + ")"
	return &e
}

func (s *registrySource) topFrom(ctx context.Context, e *endpoint) ([]byte, v1.Hash, error) {
	raw, err := e.getManifest(ctx, s.ref.identifier())
	if err != nil {
		return nil, v1.Hash{}, s.explainMissing(ctx, e, err)
	}
	if s.ref.Digest == "" {
		digest, _, err := v1.SHA256(strings.NewReader(string(raw)))
		return raw, digest, err
	}
	digest, err := v1.NewHash(s.ref.Digest)
	if err != nil {
		return nil, v1.Hash{}, fail(BadReference, "image reference %s", s.ref).because(err)
	}
	return raw, digest, checkBytes("manifest", raw, digest)
}

func (s *registrySource) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return s.endpoints[s.at].getManifest(ctx, d.Digest.String())
}

// blob opens a layer with resume. Foreign layer URLs are not followed: a
// driver's layers are where its manifest is.
func (s *registrySource) blob(ctx context.Context, _ int, d v1.Descriptor) (io.ReadCloser, error) {
	return s.blobFrom(ctx, d, 0)
}

// blobFrom opens a layer at an offset: where the manifest came from, or where
// else it is.
func (s *registrySource) blobFrom(ctx context.Context, d v1.Descriptor, offset int64) (io.ReadCloser, error) {
	b := &blobReader{ctx: ctx, e: s.endpoints[s.at], d: d, offset: offset}
	err := b.connect()
	if CodeOf(err) == NotFound && s.at+1 < len(s.endpoints) {
		s.mu.Lock() // an endpoint settles how it is reached with its first request
		defer s.mu.Unlock()
		for i := s.at + 1; CodeOf(err) == NotFound && i < len(s.endpoints); i++ {
			b = &blobReader{ctx: ctx, e: s.endpoints[i], d: d, offset: offset}
			err = b.connect()
		}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// getManifest reads a manifest by tag or digest.
func (e *endpoint) getManifest(ctx context.Context, id string) ([]byte, error) {
	resp, err := e.get(ctx, "manifests/"+id, http.Header{"Accept": manifestTypes})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := readAll(resp.Body, "manifest "+id, e.opts.Limits.Manifest)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > int64(len(raw)) {
		return nil, fail(Truncated, "manifest %s from %s ends after %d of %d bytes", id, e.host, len(raw), resp.ContentLength)
	}
	return raw, nil
}
