package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// cluster is a strict stand-in of a Kubernetes API server: TLS with a private
// CA, client certificates demanded, the node authorizer's rules for kubelets,
// and nothing but GET.
type cluster struct {
	t        *testing.T
	ca       *x509.Certificate
	caKey    *ecdsa.PrivateKey
	server   *httptest.Server
	node     map[string]any // the Node object, nil: 404
	pods     []map[string]any
	upgrades map[string]string // name → state label
	planes   []string
	hang     chan struct{}   // not nil: answers nothing
	writable bool            // changes are allowed, to admins
	budget   map[string]bool // pods that a disruption budget protects
	broken   atomic.Bool     // answers 503
	onPatch  func()          // called after a node was patched

	mu      sync.Mutex
	asked   []string
	changed []string // requests that would change something
}

const nodeID = "node-17.example.com"

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, upgrades: map[string]string{}, planes: []string{nodeID, "b", "c"}}
	c.ca, c.caKey = c.authority()
	c.node = map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": nodeID, "annotations": map[string]string{}},
		"spec":   map[string]any{},
		"status": map[string]any{"conditions": []map[string]any{ready(time.Minute)}}}
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	cert, key := c.issue("kube-apiserver", "", x509.ExtKeyUsageServerAuth)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	c.server.StartTLS()
	t.Cleanup(func() {
		if c.hang != nil {
			close(c.hang)
		}
		c.server.Close()
		require.Empty(t, c.changed, "a check must not change anything")
	})
	return c
}

func ready(age time.Duration) map[string]any {
	return map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady",
		"lastHeartbeatTime": time.Now().Add(-age).UTC().Format(time.RFC3339)}
}

func (c *cluster) authority() (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rke2-server-ca"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(c.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(c.t, err)
	return cert, key
}

// issue makes a certificate and its key, PEM.
func (c *cluster) issue(cn, org string, use x509.ExtKeyUsage) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if org != "" {
		tmpl.Subject.Organization = []string{org}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.ca, &k.PublicKey, c.caKey)
	require.NoError(c.t, err)
	raw, err := x509.MarshalECPrivateKey(k)
	require.NoError(c.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	if r.Method != http.MethodGet && !c.writable {
		c.changed = append(c.changed, r.Method+" "+r.URL.Path)
	}
	c.mu.Unlock()
	if c.hang != nil {
		<-c.hang
		return
	}
	if c.broken.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	subject := r.TLS.PeerCertificates[0].Subject
	admin := slices.Contains(subject.Organization, "system:masters")
	kubelet := subject.CommonName == "system:node:"+nodeID && slices.Contains(subject.Organization, "system:nodes")
	var answer any
	code := http.StatusOK
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Method != http.MethodGet && c.writable && admin:
		answer, code = c.change(r)
	case r.Method != http.MethodGet:
		code = http.StatusForbidden
		answer = map[string]any{"kind": "Status", "message": "changes are forbidden to " + subject.CommonName}
	case discovery[r.URL.Path] != "":
		answer = json.RawMessage(discovery[r.URL.Path])
	case r.URL.Path == "/api/v1/nodes/"+nodeID && (admin || kubelet):
		answer = c.node
	case r.URL.Path == "/api/v1/pods" && (admin || kubelet && r.URL.Query().Get("fieldSelector") == "spec.nodeName="+nodeID):
		answer = map[string]any{"kind": "PodList", "items": c.pods}
	case r.URL.Path == "/api/v1/nodes" && admin && r.URL.Query().Get("labelSelector") == "node-role.kubernetes.io/control-plane":
		var items []map[string]any
		for _, p := range c.planes {
			items = append(items, map[string]any{"metadata": map[string]any{"name": p}})
		}
		answer = map[string]any{"kind": "NodeList", "items": items}
	case r.URL.Path == "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades" && admin:
		var items []map[string]any
		for name, state := range c.upgrades {
			items = append(items, map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]string{"harvesterhci.io/upgradeState": state}}})
		}
		answer = map[string]any{"kind": "UpgradeList", "items": items}
	default:
		code = http.StatusForbidden
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": code}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// discovery is how kubectl learns what kinds of objects there are.
var discovery = map[string]string{
	"/api":  `{"kind": "APIVersions", "versions": ["v1"]}`,
	"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
	"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "singularName": "",
		"namespaced": false, "kind": "Node", "verbs": ["get", "list", "patch"], "shortNames": ["no"]}]}`,
}

// spec sets fields of the Node's spec; annotate its annotations; condition adds
// a status condition.
func (c *cluster) cordon() { c.node["spec"] = map[string]any{"unschedulable": true} }
func (c *cluster) annotate(kv ...string) {
	a := c.node["metadata"].(map[string]any)["annotations"].(map[string]string)
	for i := 0; i < len(kv); i += 2 {
		a[kv[i]] = kv[i+1]
	}
}
func (c *cluster) condition(kind, status, reason string) {
	s := c.node["status"].(map[string]any)
	s["conditions"] = append(s["conditions"].([]map[string]any), map[string]any{"type": kind, "status": status, "reason": reason})
}
func (c *cluster) pod(name, owner string, labels map[string]string) {
	meta := map[string]any{"name": name, "namespace": "default", "labels": labels}
	if owner != "" {
		meta["ownerReferences"] = []map[string]string{{"kind": owner, "name": "x"}}
	}
	c.pods = append(c.pods, map[string]any{"metadata": meta, "status": map[string]string{"phase": "Running"}})
}

// layout is where a distribution keeps its files.
type layout struct{ dir, admin string }

var layouts = map[string]layout{
	"rke2": {"/var/lib/rancher/rke2/agent", "/etc/rancher/rke2/rke2.yaml"},
	"k3s":  {"/var/lib/rancher/k3s/agent", "/etc/rancher/k3s/k3s.yaml"},
}

// member builds a node of the cluster: an agent has the kubelet's kubeconfig
// only, with paths; a server has the admin's besides, with data inline.
func (c *cluster) member(distribution string, server bool) *hostops.Node {
	n := hostops.At(c.t.TempDir(), nil)
	write := func(p string, data []byte) { require.NoError(c.t, n.WriteFile(p, data, 0o600)) }
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw})
	cert, key := c.issue("system:node:"+nodeID, "system:nodes", x509.ExtKeyUsageClientAuth)
	if distribution == "kubelet" {
		write("/var/lib/kubelet/pki/kubelet-client-current.pem", append(cert, key...))
		write("/etc/kubernetes/pki/ca.crt", ca)
		write("/etc/kubernetes/kubelet.conf", []byte(c.kubeconfig("/etc/kubernetes/pki/ca.crt",
			"/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-client-current.pem")))
		return n
	}
	l := layouts[distribution]
	write(path.Join(l.dir, "client-kubelet.crt"), cert)
	write(path.Join(l.dir, "client-kubelet.key"), key)
	write(path.Join(l.dir, "server-ca.crt"), ca)
	write(path.Join(l.dir, "kubelet.kubeconfig"), []byte(c.kubeconfig(path.Join(l.dir, "server-ca.crt"), path.Join(l.dir, "client-kubelet.crt"), path.Join(l.dir, "client-kubelet.key"))))
	if server {
		cert, key := c.issue("system:admin", "system:masters", x509.ExtKeyUsageClientAuth)
		text := c.kubeconfig("CA", "CERT", "KEY")
		for field, data := range map[string][]byte{"certificate-authority: CA": ca, "client-certificate: CERT": cert, "client-key: KEY": key} {
			name, _, _ := strings.Cut(field, ":")
			text = strings.Replace(text, field, name+"-data: "+encode(data), 1)
		}
		write(l.admin, []byte(text))
	}
	return n
}

func (c *cluster) kubeconfig(ca, cert, key string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- cluster: {server: "https://192.0.2.1:6443"}
  name: other
- name: local
  cluster:
    server: %s
    certificate-authority: %s
contexts:
- context: {cluster: local, namespace: default, user: user}
  name: Default
current-context: Default
users:
- name: user
  user:
    client-certificate: %s
    client-key: %s
`, c.server.URL, ca, cert, key)
}
