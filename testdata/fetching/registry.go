// Package fetching proves and measures what it costs to get one kernel's modules
// out of a driver image: bytes and requests at the registry, bytes on the disk,
// and the processor time and memory of a real fitout process, beside the tools
// that people use for it today.
package fetching

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
)

// counting is a registry with TLS that counts what it gives.
type counting struct {
	*httptest.Server
	bytes, requests atomic.Int64
}

// serve starts a handler, go-containerregistry's registry when it is nil.
func serve(t testing.TB, h http.Handler) *counting {
	if h == nil {
		h = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	}
	c := &counting{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		h.ServeHTTP(&countingWriter{w, &c.bytes}, r)
	}))
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

type countingWriter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

func (c *counting) host() string { return strings.TrimPrefix(c.URL, "https://") }

// reset forgets what was counted.
func (c *counting) reset() {
	c.bytes.Store(0)
	c.requests.Store(0)
}

// ca is the registry's certificate as PEM.
func (c *counting) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
}

// root is a node's root directory that trusts the registry.
func (c *counting) root(t testing.TB) string {
	root := t.TempDir()
	dir := filepath.Join(root, "etc/containers/certs.d", c.host())
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), c.ca(), 0o644))
	return root
}
