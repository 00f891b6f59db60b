package image

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each fault of a registry or the way to it has its own name, and what passes
// is got over without a word to the caller.
func TestFaultsOfARegistryHaveTheirOwnNames(t *testing.T) {
	t.Run("go-containerregistry", func(t *testing.T) { faultTable(t, newRegistry(t, true)) })
	t.Run("docker-registry", func(t *testing.T) { faultTable(t, newDebianRegistry(t)) })
}

func faultTable(t *testing.T, f *faulty) {
	big := imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")}))
	for _, tc := range []struct {
		name  string
		fault func(img *Image, n int, w http.ResponseWriter, r *http.Request) bool
		code  Code
		says  string
		log   string
	}{
		{name: "breaks off once", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			return n == 1 && breakAfter(w, r, 1000)
		}, log: "broke off after 1000 of"},
		{name: "breaks off again and again", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			return n < 10 && breakAfter(w, r, 3000)
		}, log: "going on from there"},
		{name: "never gives more", fault: func(img *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			return breakAfter(w, r, 1000*min(1, 2-n))
		}, code: Truncated, says: "ends after 1000 of"},
		{name: "shorter than the manifest says", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			w.Write(make([]byte, 100))
			return true
		}, code: Truncated, says: "ends after 100 of"},
		{name: "longer than the manifest says", fault: func(img *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", strconv.Itoa(1<<20))
			w.Write(make([]byte, 1<<20))
			return true
		}, code: DigestMismatch, says: "the manifest says"},
		{name: "other bytes", fault: func(img *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			w.Write(bytes.Repeat([]byte{1}, int(img.manifest.Layers[0].Size)))
			return true
		}, code: DigestMismatch, says: "not what its digest promises"},
		{name: "slow", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			return inPieces(w, r, 0)
		}},
		{name: "stops in the middle", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			return n == 1 && inPieces(w, r, 3)
		}, log: "gave nothing for 300ms (limit stall)"},
		{name: "breaks off, and sends all again slowly", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return breakAfter(w, r, 4500)
			}
			r.Header.Del("Range")
			rec := w.(*passOn).answer(r)
			for _, part := range [][2]int{{0, 2000}, {2000, 4000}, {4000, rec.Body.Len()}} {
				w.Write(rec.Body.Bytes()[part[0]:part[1]])
				http.NewResponseController(w.(*passOn).ResponseWriter).Flush()
				time.Sleep(200 * time.Millisecond)
			}
			return true
		}, log: "broke off after 4500 of"},
		{name: "redirects to nowhere", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://127.0.0.1:1"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}, code: Unreachable, says: "127.0.0.1:1"},
		{name: "redirects in a circle", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}, code: Unreachable, says: "10 redirects"},
		{name: "answers the wrong range", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return breakAfter(w, r, 1000)
			}
			w.Header().Set("Content-Range", "bytes 7-9/10")
			return status(w, http.StatusPartialContent)
		}, code: Unreachable, says: "wrong range"},
		{name: "too many requests, then served", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "30")
			return n <= 2 && status(w, http.StatusTooManyRequests)
		}, log: "asks to wait 30 s"},
		{name: "too many requests for ever", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "200")
			return status(w, http.StatusTooManyRequests)
		}, code: RateLimited, says: "limits the rate"},
		{name: "out of order for a while", fault: func(_ *Image, n int, w http.ResponseWriter, r *http.Request) bool {
			return n <= 2 && status(w, http.StatusBadGateway)
		}, log: "502"},
		{name: "out of order", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			return status(w, http.StatusInternalServerError)
		}, code: Unreachable, says: "keeps answering 500"},
		{name: "no right to pull", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			return status(w, http.StatusForbidden)
		}, code: Denied, says: "no right to pull"},
		{name: "the layer is gone", fault: func(_ *Image, _ int, w http.ResponseWriter, r *http.Request) bool {
			return status(w, http.StatusNotFound)
		}, code: NotFound, says: "does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := f.push("d:1", big)
			var said []string
			img, err := openAt(t, ref, Options{Root: f.root(nil), Log: func(s string) { said = append(said, s) }, Limits: Limits{Stall: 300 * time.Millisecond}})
			require.NoError(t, err)
			n := 0
			f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
				if !layerBlob(img, r) {
					return false
				}
				n++
				return tc.fault(img, n, &passOn{w, f.inner}, r)
			})
			dir := filepath.Join(t.TempDir(), "s")
			_, err = img.Fetch(t.Context(), dir, Want{})
			require.Equal(t, tc.code, CodeOf(err), "%v", err)
			if tc.code == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.says)
				require.NoDirExists(t, dir)
			}
			require.Contains(t, strings.Join(said, "\n"), tc.log)
		})
	}
}

// passOn lets a fault serve the true bytes in part.
type passOn struct {
	http.ResponseWriter
	inner http.Handler
}

// answer is the true one; its header is set.
func (p *passOn) answer(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	p.inner.ServeHTTP(rec, r)
	maps.Copy(p.Header(), rec.Header())
	return rec
}

func status(w http.ResponseWriter, code int) bool {
	w.WriteHeader(code)
	return true
}

// breakAfter sends n bytes of the true answer and drops the connection.
func breakAfter(w http.ResponseWriter, r *http.Request, n int) bool {
	p := w.(*passOn)
	rec := p.answer(r)
	w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
	w.WriteHeader(rec.Code)
	w.Write(rec.Body.Bytes()[:max(0, min(n, rec.Body.Len()))])
	http.NewResponseController(w.(*passOn).ResponseWriter).Flush()
	if n >= rec.Body.Len() {
		return true
	}
	panic(http.ErrAbortHandler)
}

// inPieces sends the true answer in small pieces, all of them or so many, and
// then waits for the client to go.
func inPieces(w http.ResponseWriter, r *http.Request, pieces int) bool {
	p := w.(*passOn)
	rec := p.answer(r)
	w.WriteHeader(rec.Code)
	for raw, n := rec.Body.Bytes(), 0; len(raw) > 0; n++ {
		if pieces > 0 && n == pieces {
			<-r.Context().Done()
			return true
		}
		piece := raw[:min(len(raw), 4000)]
		raw = raw[len(piece):]
		w.Write(piece)
		http.NewResponseController(p.ResponseWriter).Flush()
	}
	return true
}
