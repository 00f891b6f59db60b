package image

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostSettings are what the node configures for one host outside certs.d:
// RKE2's and K3s's registries.yaml.
type hostSettings struct {
	login             credential
	caFiles           []string
	certFile, keyFile string
	// httpsFailure is what https said before plain HTTP was tried.
	httpsFailure string
}

// trust is whom to believe for one host, and where that was read.
type trust struct {
	pool  *x509.CertPool
	pairs []tls.Certificate
	read  []string
}

func (t *trust) sources() string { return strings.Join(t.read, ", ") }

// certDirs hold ca.crt, client.cert and client.key for host[:port], in the
// order of containers-certs.d(5) and docker.
var certDirs = []string{"/etc/containers/certs.d", "/etc/docker/certs.d", "/etc/containerd/certs.d"}

// systemBundles are the places of the system's certificates below a root that
// is not this machine's (crypto/x509 knows those of the running system).
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem",
	"/var/lib/ca-certificates/ca-bundle.pem",
}

// loadTrust reads every source of trust. A file that cannot be read or holds no
// certificate is told and passed over.
func loadTrust(opts Options, host string, own hostSettings) *trust {
	t := systemTrust(opts)
	for _, f := range slices.Concat(opts.CAFiles, own.caFiles) {
		t.addCA(opts, opts.path(f))
	}
	if own.certFile != "" && own.keyFile != "" {
		t.addPair(opts, opts.path(own.certFile), opts.path(own.keyFile))
	}
	for _, d := range certDirs {
		t.addDir(opts, filepath.Join(opts.path(d), host))
	}
	return t
}

func systemTrust(opts Options) *trust {
	if opts.Root == "/" {
		if pool, err := x509.SystemCertPool(); err == nil {
			return &trust{pool: pool, read: []string{"the system's store"}}
		}
	}
	t := &trust{pool: x509.NewCertPool()}
	if f := opts.Getenv("SSL_CERT_FILE"); f != "" {
		t.addCA(opts, opts.path(f))
	}
	for _, d := range filepath.SplitList(opts.Getenv("SSL_CERT_DIR")) {
		files, _ := filepath.Glob(filepath.Join(opts.path(d), "*")) // the pattern is right
		for _, f := range files {
			t.addCA(opts, f)
		}
	}
	for _, b := range systemBundles {
		if f := opts.path(b); exists(f) {
			t.addCA(opts, f)
			break
		}
	}
	return t
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// addDir reads every *.crt as an authority and every *.cert with its *.key as a
// client pair.
func (t *trust) addDir(opts Options, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	t.read = append(t.read, dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch filepath.Ext(name) {
		case ".crt":
			t.addCA(opts, name)
		case ".cert":
			t.addPair(opts, name, strings.TrimSuffix(name, ".cert")+".key")
		}
	}
}

func (t *trust) addCA(opts Options, name string) {
	raw, err := os.ReadFile(name)
	if err != nil {
		opts.Log(fmt.Sprintf("certificate file %s: %v", name, err))
		return
	}
	if !t.pool.AppendCertsFromPEM(raw) {
		opts.Log(fmt.Sprintf("certificate file %s holds no certificate that can be read", name))
		return
	}
	t.read = append(t.read, name)
}

func (t *trust) addPair(opts Options, cert, key string) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		opts.Log(fmt.Sprintf("client certificate %s with %s: %v", cert, key, err))
		return
	}
	t.pairs = append(t.pairs, pair)
	t.read = append(t.read, cert)
}
