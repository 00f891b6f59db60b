package image

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Mirrors are asked first, the registry itself last; rewriting and blocks of
// registries.conf hold.
func TestMirrorsOfTheNodeAreUsed(t *testing.T) {
	mirror, origin := newRegistry(t, true), newRegistry(t, true)
	img := oneModule(t)
	mirror.push("cache/drivers/d:1", img)
	ref := origin.push("drivers/d:1", img)
	both := func(conf, yaml, hosts string) string {
		root := origin.root(nil)
		write(t, root, "etc/docker/certs.d/"+mirror.host()+"/ca.crt", pemText("CERTIFICATE", mirror.Certificate().Raw))
		if conf != "" {
			write(t, root, "etc/containers/registries.conf", conf)
		}
		if yaml != "" {
			write(t, root, "etc/rancher/rke2/registries.yaml", yaml)
		}
		if hosts != "" {
			dir := "etc/containerd/certs.d/" + origin.host() + "/"
			write(t, root, dir+"hosts.toml", hosts)
			write(t, root, dir+"mirror.pem", pemText("CERTIFICATE", mirror.Certificate().Raw))
			require.NoError(t, os.RemoveAll(filepath.Join(root, "etc/docker")))
		}
		return root
	}
	for _, tc := range []struct {
		name, conf, yaml, hosts string
		mirrored, asked         bool // was served by the mirror; was the origin asked
	}{
		{"mirror", "[[registry]]\nprefix = \"ORIGIN\"\nlocation = \"ORIGIN\"\n[[registry.mirror]]\nlocation = \"MIRROR/cache\"\n", "", "", true, false},
		{"location", "[[registry]]\nprefix = \"ORIGIN/drivers\"\nlocation = \"MIRROR/cache/drivers\"\n", "", "", true, false},
		{"mirror without the image", "[[registry]]\nlocation = \"ORIGIN\"\n[[registry.mirror]]\nlocation = \"MIRROR/nothing\"\n", "", "", false, true},
		{"mirror for digests only", "[[registry]]\nlocation = \"ORIGIN\"\n[[registry.mirror]]\nlocation = \"MIRROR/cache\"\npull-from-mirror = \"digest-only\"\n", "", "", false, true},
		{"K3s with rewrite", "", "mirrors:\n  \"ORIGIN\":\n    endpoint: [\"https://MIRROR/v2\"]\n    rewrite:\n      \"^(.*)$\": \"cache/$1\"\n", "", true, false},
		{"K3s for every registry", "", "mirrors:\n  \"*\":\n    endpoint: [\"https://MIRROR\"]\n    rewrite:\n      \"^drivers\": \"cache/drivers\"\n", "", true, false},
		{"containerd's hosts.toml", "", "", "server = \"https://ORIGIN\"\n[host.\"https://MIRROR/v2/cache\"]\n  capabilities = [\"pull\"]\n  ca = \"mirror.pem\"\n  override_path = true\n", true, false},
		{"containerd's for pushing only", "", "", "[host.\"https://MIRROR\"]\n  capabilities = [\"push\"]\n", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fill := strings.NewReplacer("ORIGIN", origin.host(), "MIRROR", mirror.host()).Replace
			mirror.misbehave(nil)
			origin.misbehave(nil)
			opened, err := openAt(t, ref, Options{Root: both(fill(tc.conf), fill(tc.yaml), fill(tc.hosts))})
			require.NoError(t, err)
			_, err = opened.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
			require.NoError(t, err)
			require.Equal(t, tc.asked, len(origin.requests) > 0)
			served := false
			for _, r := range mirror.requests {
				served = served || isBlob(r)
			}
			require.Equal(t, tc.mirrored, served)
		})
	}

	origin.misbehave(nil)
	_, err := openAt(t, ref, Options{Root: both("[[registry]]\nlocation = \""+origin.host()+"\"\nblocked = true\n", "", "")})
	require.Equal(t, Blocked, CodeOf(err))
	_, err = openAt(t, ref, Options{Root: both("[[registry]\n", "", "")})
	require.Equal(t, Blocked, CodeOf(err))
	require.ErrorContains(t, err, "registries.conf")
	require.Empty(t, origin.requests)
}

// Proxy settings are read whole, and a proxy's answer is not taken for the
// registry's.
func TestProxiesAreUsedAndNamed(t *testing.T) {
	f := newRegistry(t, true)
	f.push("d:1", oneModule(t))
	_, port, _ := strings.Cut(f.host(), ":")
	name := "example.com:" + port // the test server's certificate is for it
	root := f.root(nil)
	write(t, root, "etc/containers/certs.d/"+name+"/ca.crt", pemText("CERTIFICATE", f.Certificate().Raw))
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

	good, seen := connectProxy(t, f.host(), "")
	for _, variable := range []string{"HTTPS_PROXY", "https_proxy"} {
		img, err := openAt(t, name+"/d:1", Options{Root: root, Getenv: env(map[string]string{variable: good, "NO_PROXY": "10.0.0.0/8,.example.net,other.com"})})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err)
	}
	require.Contains(t, *seen, name)

	bad, _ := connectProxy(t, "", "go away")
	_, err := openAt(t, name+"/d:1", Options{Root: root, Getenv: env(map[string]string{"HTTPS_PROXY": bad})})
	require.Equal(t, Proxy, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "answered 403 Forbidden")
	require.NotContains(t, err.Error(), secretPassword)

	for _, tc := range []struct {
		host, no string
		direct   bool
	}{
		{"192.168.24.1:8787", "localhost,192.168.0.0/16", true},
		{"192.168.24.1:8787", "192.168.24.1", true},
		{"192.168.24.1:8787", "10.0.0.0/8", false},
		{"[fd00::5]:5000", "fd00::/8", true},
		{"[fd00::5]:5000", "fd00::5", true},
		{"[fd00::5]:5000", "[fd00::5]:5000", true},
		{"[fd00::5]:5000", "[fd00::5]:5001", false},
		{"[fd00::5]:5000", "fc00::/16", false},
		{"192.168.24.1:8787", "192.168.24.1:8787", true},
		{"192.168.24.1:8787", "192.168.24.1:8788", false},
		{"reg.corp.example", ".corp.example", true},
		{"reg.corp.example", "corp.example", true},
		{"reg.corp.example:5000", "reg.corp.example:5000", true},
		{"reg.corp.example:5001", "reg.corp.example:5000", false},
		{"reg.corp.example", "*", true},
		{"reg.corp.example", "", false},
	} {
		via := Via(Reference{Transport: Registry, Registry: tc.host}, Options{Getenv: env(map[string]string{"HTTPS_PROXY": bad, "NO_PROXY": tc.no})})
		require.Equal(t, tc.direct, via == "direct", "%s with %s: %s", tc.host, tc.no, via)
		require.NotContains(t, via, secretPassword)
	}
}

// clientPair makes a client certificate that signs itself.
func clientPair(t *testing.T) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	require.NoError(t, err)
	raw, err := x509.MarshalECPrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

func TestClientCertificateOfCertsDIsShown(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	f.TLS.ClientAuth = tls.RequireAnyClientCert
	f.CloseClientConnections()
	_, err := openAt(t, ref, Options{Root: f.root(nil)})
	require.Error(t, err)
	cert, key := clientPair(t)
	dir := "etc/containers/certs.d/" + f.host() + "/"
	_, err = openAt(t, ref, Options{Root: f.root(map[string]string{dir + "client.cert": string(cert), dir + "client.key": string(key)})})
	require.NoError(t, err)
}

// An archive needs no network at all: with every dial failing it is read, its
// digests are checked, and it may be taken away afterwards.
func TestArchiveIsReadWithoutTheNetwork(t *testing.T) {
	file := archived(t, asLayout(t, oneModule(t)))
	proxy := func(k string) string {
		return map[string]string{"HTTPS_PROXY": "http://192.0.2.1:1", "HTTP_PROXY": "http://192.0.2.1:1"}[k]
	}
	img, err := openAt(t, "oci-archive:"+file, Options{Getenv: proxy})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "s")
	inv, err := img.Fetch(t.Context(), dir, Want{})
	require.NoError(t, err)
	require.NoError(t, img.Close())
	require.NoError(t, os.Remove(file))
	again, err := ReadInventory(dir)
	require.NoError(t, err)
	require.Equal(t, inv, again)
	require.Equal(t, "oci-archive:"+file, again.Reference)
}

// A hook of an upgrade has no login's environment: the node's own files say how
// the registry is reached.
func TestProxyOfTheNodeCountsWithoutAnEnvironment(t *testing.T) {
	ref := Reference{Transport: Registry, Registry: "reg.example"}
	const via = "via proxy http://u@proxy.example:3128"
	for name, tc := range map[string]struct {
		files map[string]string
		env   map[string]string
		via   string
	}{
		"nothing":         {nil, nil, "direct"},
		"pam":             {map[string]string{"etc/environment": "PATH=/bin\nhttps_proxy=\"http://u:secret@proxy.example:3128\"\n"}, nil, via},
		"pam, exported":   {map[string]string{"etc/environment": "export HTTPS_PROXY='http://u:secret@proxy.example:3128'\n"}, nil, via},
		"a comment":       {map[string]string{"etc/environment": "#HTTPS_PROXY=http://u:secret@proxy.example:3128\n"}, nil, "direct"},
		"SUSE":            {map[string]string{"etc/sysconfig/proxy": "PROXY_ENABLED=\"yes\"\nHTTPS_PROXY=\"http://u:secret@proxy.example:3128\"\nNO_PROXY=\"localhost\"\n"}, nil, via},
		"SUSE, off":       {map[string]string{"etc/sysconfig/proxy": "PROXY_ENABLED=\"no\"\nHTTPS_PROXY=\"http://u:secret@proxy.example:3128\"\n"}, nil, "direct"},
		"RKE2":            {map[string]string{"etc/environment": "PATH=/bin\n", "etc/default/rke2-agent": "HTTPS_PROXY=http://u:secret@proxy.example:3128\nNO_PROXY=10.0.0.0/8\n"}, nil, via},
		"K3s, excepted":   {map[string]string{"etc/default/k3s": "HTTPS_PROXY=http://u:secret@proxy.example:3128\nNO_PROXY=.example\n"}, nil, "direct"},
		"the environment": {map[string]string{"etc/environment": "HTTPS_PROXY=http://other.example:1\n"}, map[string]string{"https_proxy": "http://u:secret@proxy.example:3128"}, via},
		"an exception of the environment": {map[string]string{"etc/environment": "HTTPS_PROXY=http://other.example:1\n"},
			map[string]string{"NO_PROXY": "reg.example"}, "direct"},
	} {
		root := t.TempDir()
		for file, text := range tc.files {
			write(t, root, file, text)
		}
		require.Equal(t, tc.via, Via(ref, Options{Root: root, Getenv: func(k string) string { return tc.env[k] }}), name)
	}
}

// Tag lists come in pages.
func TestTagListIsReadToItsEnd(t *testing.T) {
	f := newRegistry(t, true)
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Query().Get("last") {
		case "":
			w.Header().Set("Link", `</v2/d/tags/list?n=1000&last=b>; rel="next"`)
			w.Write([]byte(`{"name":"d","tags":["a","b"]}`))
		default:
			w.Write([]byte(`{"name":"d","tags":["c"]}`))
		}
		return true
	})
	ref, err := ParseReference(f.host() + "/d")
	require.NoError(t, err)
	tags, err := ListTags(t.Context(), ref, Options{Root: f.root(nil), Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, tags)
}
