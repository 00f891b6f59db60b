package image

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// Debian's docker-registry with TLS and a password is the registry that most
// sites run; its tag list, ranges and challenges are its own.
func TestPullFromDebiansRegistryWithPassword(t *testing.T) {
	f := newRegistry(t, true) // lends its certificate
	pair := f.TLS.Certificates[0]
	dir := t.TempDir()
	host, cert := debianRegistry(t, dir, pair)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	ref, err := name.ParseReference(host + "/drivers/d:1")
	require.NoError(t, err)
	auth := &authn.Basic{Username: secretUser, Password: secretPassword}
	require.NoError(t, remote.Write(ref, oneModule(t), remote.WithAuth(auth),
		remote.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}})))

	root := t.TempDir()
	write(t, root, "etc/containers/certs.d/"+host+"/ca.crt", cert)
	_, err = openAt(t, ref.Name(), Options{Root: root})
	require.Equal(t, Unauthorised, CodeOf(err))
	write(t, root, "secrets/auth.json", login(host, secretUser, secretPassword))
	with := Options{Root: root, AuthFiles: []string{filepath.Join(root, "secrets/auth.json")}}
	img, err := openAt(t, ref.Name(), with)
	require.NoError(t, err)
	inv, err := img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.NoError(t, err)
	require.Len(t, inv.Kernels, 1)
	_, err = openAt(t, host+"/drivers/d:2", with)
	require.Equal(t, TagMissing, CodeOf(err), "%v", err)
}

// debianRegistry starts docker-registry on a free port and gives its host and
// certificate.
func debianRegistry(t testing.TB, dir string, pair tls.Certificate) (host, cert string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	host = l.Addr().String()
	require.NoError(t, l.Close())
	cert, key := pemPair(t, pair)
	write(t, dir, "tls.crt", cert)
	write(t, dir, "tls.key", key)
	out, err := exec.Command("htpasswd", "-Bbn", secretUser, secretPassword).Output()
	require.NoError(t, err)
	write(t, dir, "htpasswd", string(out))
	write(t, dir, "config.yml", fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %[1]s/data}}\n"+
		"http: {addr: %[2]q, tls: {certificate: %[1]s/tls.crt, key: %[1]s/tls.key}}\nauth: {htpasswd: {realm: test, path: %[1]s/htpasswd}}\n", dir, host))
	cmd := exec.Command("docker-registry", "serve", filepath.Join(dir, "config.yml"))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	return host, cert
}

func pemPair(t testing.TB, pair tls.Certificate) (cert, key string) {
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return pemText("CERTIFICATE", pair.Certificate[0]), pemText("PRIVATE KEY", raw)
}
