// Package fetching measures what reading an image takes of a real fitout
// process, against a registry that makes the image while it sends it.
package fetching

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// counting is a registry with TLS that counts what it gives.
type counting struct {
	*httptest.Server
	bytes atomic.Int64
}

// serve starts a handler.
func serve(t testing.TB, h http.Handler) *counting {
	c := &counting{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// ca is the registry's certificate as PEM.
func (c *counting) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
}
