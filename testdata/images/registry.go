package images

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// GuestHost is what a registry is called on a machine of package vm.
const GuestHost = "registry.local:5000"

// The account of the registries.
const (
	Username = "driver-reader"
	Password = "correct horse battery staple"
)

// Registry is a registry on this host's loopback, with TLS under a private CA
// and a password.
type Registry struct {
	// Addr is its host:port.
	Addr string
	// CA is the PEM certificate that its own is signed with.
	CA string
	// Requests counts what was asked of it (only of [Serve]'s).
	Requests atomic.Int64

	stop func()
}

// Close stops the registry.
func (r *Registry) Close() { r.stop() }

// DockerConfig is a ~/.docker/config.json with the account.
func (r *Registry) DockerConfig() string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`+"\n", GuestHost, base64.StdEncoding.EncodeToString([]byte(Username+":"+Password)))
}

// Files are what a machine needs to use the registry: the CA where docker,
// podman and containerd look, and the account.
func (r *Registry) Files() map[string]string {
	return map[string]string{
		"/etc/docker/certs.d/" + GuestHost + "/ca.crt": r.CA,
		"/root/.docker/config.json":                    r.DockerConfig(),
	}
}

// Push uploads an image as repository:tag.
func (r *Registry) Push(img v1.Image, repositoryTag string) error {
	ref, err := name.ParseReference(r.Addr + "/" + repositoryTag)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.CA))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	transport.Proxy = nil
	err = remote.Write(ref, img, remote.WithTransport(transport), remote.WithAuth(&authn.Basic{Username: Username, Password: Password}))
	if err != nil {
		return fmt.Errorf("pushing %s: %w", ref, err)
	}
	return nil
}

// Serve starts go-containerregistry's registry, in this process and in memory.
func Serve() (*Registry, error) {
	pair, err := newPair()
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return nil, err
	}
	r := &Registry{Addr: l.Addr().String(), CA: string(pair.ca)}
	quiet := log.New(io.Discard, "", 0)
	server := &http.Server{Handler: r.guard(registry.New(registry.Logger(quiet))), ErrorLog: quiet}
	r.stop = func() { server.Close() }
	go server.Serve(l)
	return r, nil
}

// guard asks for the password.
func (r *Registry) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.Requests.Add(1)
		user, pass, _ := req.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(user+":"+pass), []byte(Username+":"+Password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// registryConfig is docker-registry's; the verbs are the directory, the
// address, the certificate, the key and the password file.
const registryConfig = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http:
  addr: %s
  tls: {certificate: %s, key: %s}
auth: {htpasswd: {realm: registry, path: %s}}
`

// ServeDebian starts Debian's docker-registry in a directory of its own below
// dir.
func ServeDebian(dir string) (*Registry, error) {
	pair, err := newPair()
	if err != nil {
		return nil, err
	}
	account, err := exec.Command("htpasswd", "-Bbn", Username, Password).Output()
	if err != nil {
		return nil, fmt.Errorf("making the registry's password file: %w; install apache2-utils (make deps)", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Sprintf(registryConfig, at("blobs"), addr, at("tls.crt"), at("tls.key"), at("htpasswd"))
	for name, data := range map[string][]byte{"tls.crt": pair.cert, "tls.key": pair.key, "htpasswd": account, "config.yml": []byte(config)} {
		if err := os.WriteFile(at(name), data, 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("docker-registry", "serve", at("config.yml"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting docker-registry: %w; install it (make deps)", err)
	}
	r := &Registry{Addr: addr, CA: string(pair.ca), stop: func() { cmd.Process.Kill(); cmd.Wait() }}
	if err := waitListening(addr); err != nil {
		r.stop()
		return nil, fmt.Errorf("%w: %s", err, out.String())
	}
	return r, nil
}

// freeAddr finds a free loopback port.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func waitListening(addr string) error {
	for range 100 {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("docker-registry did not listen within 10 s")
}
