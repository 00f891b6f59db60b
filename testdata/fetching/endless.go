package fetching

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// endless is an image of one gzip layer that is made while it is sent: files of
// 1 MiB, and one module in the middle. Its bytes are nowhere but on the wire, so
// it can be of any size. Each file is a gzip member of its own, of which all but
// the header is always the same.
type endless struct {
	files           int
	body            []byte // one file's content as a gzip member
	plain           []byte
	module          []byte
	path            string
	layer, diff     v1.Hash
	size            int64
	config, content []byte
}

// newEndless makes an image that unpacks to size bytes and holds module at path.
func newEndless(t testing.TB, size int64, content, module []byte, path string) *endless {
	e := &endless{files: int(size >> 20), plain: bytes.Repeat(content, 1<<20/len(content)+1)[:1<<20], module: module, path: path}
	var err error
	e.body, err = pack(e.plain)
	require.NoError(t, err)
	raw, plain := sha256.New(), sha256.New()
	counted := &count{w: raw}
	require.NoError(t, e.write(counted, plain))
	e.layer, e.diff, e.size = hashOf(raw), hashOf(plain), counted.n
	e.config, err = json.Marshal(v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{e.diff}}})
	require.NoError(t, err)
	config, n, err := v1.SHA256(bytes.NewReader(e.config))
	require.NoError(t, err)
	e.content, err = json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: n, Digest: config},
		Layers: []v1.Descriptor{{MediaType: types.OCILayer, Size: e.size, Digest: e.layer}}})
	require.NoError(t, err)
	return e
}

type count struct {
	w io.Writer
	n int64
}

func (c *count) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func hashOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", h.Sum(nil))}
}

// pack is plain as one gzip member.
func pack(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(plain); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

// write sends the layer to raw, and what it unpacks to to plain when that is
// not nil.
func (e *endless) write(raw, plain io.Writer) error {
	w := members{raw, plain}
	padded := append(bytes.Clone(e.module), make([]byte, (512-len(e.module)%512)%512)...)
	for i := range e.files {
		if err := w.file(fmt.Sprintf("usr/share/app/%d", i), len(e.plain), e.body, e.plain); err != nil {
			return err
		}
		if i == e.files/2 {
			if err := w.file(e.path, len(e.module), nil, padded); err != nil {
				return err
			}
		}
	}
	return w.put(nil, make([]byte, 1024))
}

// members writes a tar as gzip members.
type members struct{ raw, plain io.Writer }

// put writes text, which packed is the gzip member of; nil: it is made.
func (m members) put(packed, text []byte) error {
	if packed == nil {
		var err error
		if packed, err = pack(text); err != nil {
			return err
		}
	}
	if m.plain != nil {
		if _, err := m.plain.Write(text); err != nil {
			return err
		}
	}
	_, err := m.raw.Write(packed)
	return err
}

// file writes a file of size bytes; text is its content with the padding.
func (m members) file(name string, size int, packed, text []byte) error {
	var head bytes.Buffer
	err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: name, Size: int64(size), Mode: 0o644, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)})
	if err != nil {
		return err
	}
	if err := m.put(nil, head.Bytes()); err != nil {
		return err
	}
	return m.put(packed, text)
}

// ServeHTTP is as much of a registry as a pull needs.
func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	send := func(kind string, raw []byte) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		w.Write(raw)
	}
	switch {
	case r.URL.Path == "/v2/":
	case strings.Contains(r.URL.Path, "/manifests/"):
		send(string(types.OCIManifestSchema1), e.content)
	case strings.HasSuffix(r.URL.Path, e.layer.String()):
		w.Header().Set("Content-Length", strconv.FormatInt(e.size, 10))
		if err := e.write(w, nil); err != nil {
			fmt.Fprintln(os.Stderr, "sending the layer:", err)
		}
	case strings.Contains(r.URL.Path, "/blobs/"):
		send("application/octet-stream", e.config)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
