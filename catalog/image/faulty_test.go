package image

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// faulty is go-containerregistry's registry behind a handler that a test makes
// misbehave. It counts requests and remembers what was sent.
type faulty struct {
	*httptest.Server
	t     testing.TB
	inner http.Handler

	mu sync.Mutex
	// before may answer a request itself (true) instead of the registry.
	before   func(w http.ResponseWriter, r *http.Request) bool
	requests []*http.Request
	// account is what pushing takes, nil for nothing.
	account authn.Authenticator
}

func newRegistry(t testing.TB, tls bool) *faulty {
	f := &faulty{t: t, inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	if f.Server = httptest.NewUnstartedServer(f); tls {
		f.Config.ErrorLog = log.New(io.Discard, "", 0)
		f.StartTLS()
	} else {
		f.Start()
	}
	t.Cleanup(f.Close)
	return f
}

// newDebianRegistry is Debian's docker-registry, with TLS and a password, behind
// the same handler.
func newDebianRegistry(t testing.TB) *faulty {
	f := newRegistry(t, true)
	host, cert := debianRegistry(t, t.TempDir(), f.TLS.Certificates[0])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	f.inner = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: host})
			r.Out.Host = r.In.Host // for the places it names in its answers
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	f.account = &authn.Basic{Username: secretUser, Password: secretPassword}
	return f
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Clone(r.Context()))
	before := f.before
	f.mu.Unlock()
	if before == nil || !before(w, r) {
		f.inner.ServeHTTP(w, r)
	}
}

func (f *faulty) misbehave(how func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.requests = how, nil
}

func (f *faulty) host() string {
	return strings.TrimPrefix(strings.TrimPrefix(f.URL, "https://"), "http://")
}

// push stores an image past all faults.
func (f *faulty) push(repo string, img v1.Image) string {
	f.misbehave(nil)
	ref, err := name.ParseReference(f.host() + "/" + repo)
	require.NoError(f.t, err)
	options := []remote.Option{remote.WithTransport(f.Client().Transport)}
	if f.account != nil {
		options = append(options, remote.WithAuth(f.account))
	}
	require.NoError(f.t, remote.Write(ref, img, options...))
	f.misbehave(nil)
	return f.host() + "/" + repo
}

// pack packs an image, into the registry as d:1 when nothing else is said.
func (f *faulty) pack(o PackOptions) *Packed {
	f.misbehave(nil)
	if o.Output == (Reference{}) {
		o.Output = mustParse(f.t, f.host()+"/d:1")
	}
	o.Work, o.Reach = f.t.TempDir(), quiet(f.t)
	o.Reach.Root = f.root(nil)
	p, err := Pack(f.t.Context(), o)
	require.NoError(f.t, err)
	return p
}

// root is a node that trusts the registry; files are added to it by path.
func (f *faulty) root(files map[string]string) string {
	root := f.t.TempDir()
	if c := f.Certificate(); c != nil {
		write(f.t, root, "etc/containers/certs.d/"+f.host()+"/ca.crt", pemText("CERTIFICATE", c.Raw))
	}
	if f.account != nil {
		write(f.t, root, "root/.docker/config.json", login(f.host(), secretUser, secretPassword))
	}
	for name, text := range files {
		write(f.t, root, name, text)
	}
	return root
}

func write(t testing.TB, root, name, text string) {
	p := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
}

// login writes a credential file.
func login(host, user, password string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

const (
	secretUser     = "u1"
	secretPassword = "S3cret/+=x"
)

// basicAuth wants the login of secretUser.
func basicAuth(w http.ResponseWriter, r *http.Request) bool {
	if u, p, ok := r.BasicAuth(); ok && u == secretUser && p == secretPassword {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Negotiate, Basic realm="x"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// tokens is a token server; each token serves uses requests.
type tokens struct {
	mu     sync.Mutex
	uses   int
	issued int
	left   map[string]int
	host   string
}

func (k *tokens) handle(w http.ResponseWriter, r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.URL.Path == "/token" {
		u, p, _ := r.BasicAuth()
		if u != secretUser || p != secretPassword {
			if r.FormValue("refresh_token") != "identity" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}
		k.issued++
		t := fmt.Sprintf("eyJabc%d", k.issued)
		k.left[t] = k.uses
		json.NewEncoder(w).Encode(map[string]any{"token": t, "expires_in": 60})
		return true
	}
	t := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if k.left[t] > 0 {
		k.left[t]--
		return false
	}
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="test",scope="repository:d:pull"`, k.host))
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// connectProxy is a proxy that tunnels every host to one address.
func connectProxy(t testing.TB, to, answer string) (string, *[]string) {
	var seen []string
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Host)
		mu.Unlock()
		if answer != "" {
			http.Error(w, answer, http.StatusForbidden)
			return
		}
		tunnel(t, w, to)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	u.User = url.UserPassword("proxyuser", secretPassword)
	return u.String(), &seen
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func rootWith(t testing.TB, name, text string) string {
	root := t.TempDir()
	write(t, root, name, text)
	return root
}
