package image

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// push sends a stored image to a registry: the layers it does not have yet,
// the configuration, and last the manifest under its tag.
func push(ctx context.Context, s *ociStore, d v1.Descriptor, to Reference, opts Options) error {
	opts = opts.withDefaults()
	endpoints, err := endpointsFor(to, opts)
	if err != nil {
		return err
	}
	e := endpoints[len(endpoints)-1] // the registry itself, never a mirror
	e.scope = "pull,push"
	defer e.close()
	raw, err := os.ReadFile(s.path(d.Digest))
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	doc, err := parseManifest(raw, d.Digest)
	if err != nil {
		return err
	}
	for _, b := range append(doc.Layers, *doc.Config) {
		if err := e.pushBlob(ctx, s, b); err != nil {
			return err
		}
	}
	id := or(to.identifier(), d.Digest.String())
	header := http.Header{"Content-Type": {string(d.MediaType)}}
	resp, err := e.do(ctx, http.MethodPut, e.url("manifests/"+id), header, fileBody(s.path(d.Digest)))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// pushBlob sends one blob in one piece, after asking whether it is there.
func (e *endpoint) pushBlob(ctx context.Context, s *ociStore, d v1.Descriptor) error {
	resp, err := e.do(ctx, http.MethodHead, e.url("blobs/"+d.Digest.String()), nil, nil)
	if err == nil {
		return resp.Body.Close()
	}
	if CodeOf(err) != NotFound {
		return err
	}
	resp, err = e.do(ctx, http.MethodPost, e.url("blobs/uploads/"), nil, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	at, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return fail(Unreachable, "registry %s names no place for an upload", e.host)
	}
	if at.Host != hostOf(e.base) {
		return fail(Hostile, "registry %s sends the upload on to %s", e.host, at.Host)
	}
	// A registry behind a TLS proxy may call itself by http.
	at.Scheme = resp.Request.URL.Scheme
	q := at.Query()
	q.Set("digest", d.Digest.String())
	at.RawQuery = q.Encode()
	resp, err = e.do(ctx, http.MethodPut, at.String(),
		http.Header{"Content-Type": {"application/octet-stream"}}, fileBody(s.path(d.Digest)))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// fileBody sends a file, opened anew for each try.
func fileBody(name string) body {
	return func() (io.Reader, int64, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, 0, fmt.Errorf("reading %s: %w", name, err)
		}
		st, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, 0, fmt.Errorf("reading %s: %w", name, err)
		}
		return f, st.Size(), nil
	}
}
