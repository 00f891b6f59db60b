package image

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The certificate authority of a private registry is believed wherever the node
// keeps it, and named among the sources when another one is missing.
func TestAuthorityIsReadFromEveryPlaceOfTheNode(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	ca := pemText("CERTIFICATE", f.Certificate().Raw)
	for name, files := range map[string]map[string]string{
		"containers":       {"etc/containers/certs.d/" + f.host() + "/ca.crt": ca},
		"docker":           {"etc/docker/certs.d/" + f.host() + "/ca.crt": ca},
		"containerd":       {"etc/containerd/certs.d/" + f.host() + "/ca.crt": ca},
		"system, Debian":   {"etc/ssl/certs/ca-certificates.crt": ca},
		"system, RHEL":     {"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": ca},
		"system, SUSE":     {"var/lib/ca-certificates/ca-bundle.pem": ca},
		"RKE2":             {"etc/rancher/rke2/registries.yaml": "configs: {\"" + f.host() + "\": {tls: {ca_file: /etc/own.pem}}}\n", "etc/own.pem": ca},
		"K3s, any":         {"etc/rancher/k3s/registries.yaml": "configs: {\"" + f.host() + "\": {tls: {insecure_skip_verify: true}}}\n"},
		"given":            {"srv/own.pem": ca},
		"SSL_CERT_FILE":    {"srv/bundle.pem": ca},
		"SSL_CERT_DIR":     {"srv/certs/0a1b2c3d.0": ca},
		"hosts.toml, list": {"etc/containerd/certs.d/" + f.host() + "/hosts.toml": "[host.\"https://" + f.host() + "\"]\n  ca = [\"none.pem\", \"own.pem\"]\n", "etc/containerd/certs.d/" + f.host() + "/own.pem": ca},
	} {
		root := t.TempDir()
		for file, text := range files {
			write(t, root, file, text)
		}
		env := func(k string) string {
			return map[string]string{"SSL_CERT_FILE": "/srv/bundle.pem", "SSL_CERT_DIR": "/srv/none:/srv/certs"}[k]
		}
		img, err := openAt(t, ref, Options{Root: root, Getenv: env, CAFiles: []string{"/srv/own.pem"}})
		require.NoError(t, err, name)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err, name)
	}
	other, _ := clientPair(t)
	files := map[string]string{"etc/docker/certs.d/" + f.host() + "/ca.crt": string(other), "etc/ssl/certs/ca-certificates.crt": string(other)}
	root := t.TempDir()
	for file, text := range files {
		write(t, root, file, text)
	}
	_, err := openAt(t, ref, Options{Root: root})
	require.Equal(t, TLS, CodeOf(err), "%v", err)
	var e *Error
	require.ErrorAs(t, err, &e)
	for file := range files {
		require.Contains(t, e.Hint, "/"+file)
	}
}

// RKE2's and K3s's file and containerd's bring client certificates too.
func TestClientCertificateOfAMirrorFileIsShown(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	f.TLS.ClientAuth = tls.RequireAnyClientCert
	f.CloseClientConnections()
	cert, key := clientPair(t)
	hosts := "etc/containerd/certs.d/" + f.host() + "/hosts.toml"
	for file, text := range map[string]string{
		"etc/rancher/rke2/registries.yaml": "configs: {\"HOST\": {tls: {cert_file: /etc/c.pem, key_file: /etc/k.pem}}}\n",
		hosts:                              "[host.\"https://HOST\"]\n  client = [[\"/etc/c.pem\", \"/etc/k.pem\"]]\n",
		hosts + " ":                        "[host.\"https://HOST\"]\n  client = \"/etc/both.pem\"\n",
		hosts + "  ":                       "[host.\"https://HOST\"]\n  client = [\"/etc/both.pem\", \"/etc/other.pem\"]\n",
	} {
		files := map[string]string{"etc/c.pem": string(cert), "etc/k.pem": string(key), "etc/both.pem": string(cert) + string(key),
			strings.TrimSpace(file): strings.ReplaceAll(text, "HOST", f.host())}
		_, err := openAt(t, ref, Options{Root: f.root(files)})
		require.NoError(t, err, text)
	}
}

// Of registries.conf: a prefix for a domain and all below it, the longest prefix
// that matches, drop-ins over the main file, and a mirror of its own insecurity.
func TestRegistriesConfIsReadAsItsManualSays(t *testing.T) {
	mirror := newRegistry(t, false)
	mirror.push("cache/drivers/d:1", oneModule(t))
	for name, files := range map[string]map[string]string{
		"domain": {"etc/containers/registries.conf": "[[registry]]\nprefix = \"*.corp.example\"\nlocation = \"MIRROR/cache\"\ninsecure = true\n"},
		"longest prefix": {"etc/containers/registries.conf": "[[registry]]\nprefix = \"reg.corp.example\"\nblocked = true\nlocation = \"x.example\"\n" +
			"[[registry]]\nprefix = \"reg.corp.example/drivers\"\nlocation = \"MIRROR/cache/drivers\"\ninsecure = true\n"},
		"drop-in replaces": {"etc/containers/registries.conf": "[[registry]]\nprefix = \"reg.corp.example\"\nblocked = true\nlocation = \"x.example\"\n",
			"etc/containers/registries.conf.d/50-own.conf": "[[registry]]\nprefix = \"reg.corp.example\"\nlocation = \"MIRROR/cache\"\ninsecure = true\n"},
		"insecure mirror": {"etc/containers/registries.conf": "[[registry]]\nlocation = \"reg.corp.example\"\n[[registry.mirror]]\nlocation = \"MIRROR/cache\"\ninsecure = true\n"},
	} {
		root := t.TempDir()
		for file, text := range files {
			write(t, root, file, strings.ReplaceAll(text, "MIRROR", mirror.host()))
		}
		_, err := openAt(t, "reg.corp.example/drivers/d:1", Options{Root: root})
		require.NoError(t, err, name)
	}
	// Without that word the mirror's plain HTTP is not spoken.
	root := rootWith(t, "etc/containers/registries.conf", "[[registry]]\nlocation = \"reg.corp.example\"\n[[registry.mirror]]\nlocation = \""+mirror.host()+"/cache\"\n")
	mirror.misbehave(nil)
	_, err := openAt(t, "reg.corp.example/drivers/d:1", Options{Root: root})
	require.Error(t, err)
	require.Empty(t, mirror.requests)
}

// A registry that has nothing but an IPv6 address.
func TestRegistryAtAnIPv6Address(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	require.NoError(t, err)
	f := newRegistry(t, true)
	f.push("d:1", oneModule(t))
	six := httptest.NewUnstartedServer(f)
	six.Listener.Close()
	six.Listener = l
	six.StartTLS()
	t.Cleanup(six.Close)
	root := rootWith(t, "etc/containers/certs.d/"+l.Addr().String()+"/ca.crt", pemText("CERTIFICATE", six.Certificate().Raw))
	_, err = openAt(t, l.Addr().String()+"/d:1", Options{Root: root})
	require.NoError(t, err)
}

// Plain HTTP, where it is allowed, goes through the proxy for it.
func TestPlainHTTPGoesThroughItsProxy(t *testing.T) {
	f := newRegistry(t, false)
	f.push("d:1", oneModule(t))
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		asked++
		f.inner.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	env := func(k string) string {
		return map[string]string{"HTTP_PROXY": proxy.URL, "no_proxy": "other.example"}[k]
	}
	root := rootWith(t, "etc/rancher/k3s/registries.yaml", "mirrors: {\"reg.corp.example\": {endpoint: [\"http://reg.corp.example\"]}}\n")
	_, err := openAt(t, "reg.corp.example/d:1", Options{Root: root, Getenv: env})
	require.NoError(t, err)
	require.Positive(t, asked)
}

// What an earlier try of a copy left is checked with the rest: damage in it is
// found, and the next call begins anew.
func TestCopyDoesNotBuildOnADamagedPart(t *testing.T) {
	f := newRegistry(t, true)
	img := imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")}))
	ref := mustParse(t, f.push("d:1", img))
	opts := quiet(t)
	opts.Root, opts.Arch = f.root(nil), ""
	file := filepath.Join(t.TempDir(), "copy.tar")
	to := mustParse(t, "oci-archive:"+file+":1")
	m, err := img.Manifest()
	require.NoError(t, err)
	part := filepath.Join(file+".partial", blobPath(m.Layers[0].Digest)+".part")
	write(t, filepath.Dir(part), filepath.Base(part), "bytes that are not the layer's")
	_, err = Copy(t.Context(), ref, to, nil, opts)
	require.Equal(t, DigestMismatch, CodeOf(err), "%v", err)
	require.NoFileExists(t, file)
	_, err = Copy(t.Context(), ref, to, nil, opts)
	require.NoError(t, err)
	_, err = os.Stat(file)
	require.NoError(t, err)
}
