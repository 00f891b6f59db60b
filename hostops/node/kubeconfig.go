package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fitout/hostops"
)

// distribution is one way Kubernetes is installed on a node.
type distribution struct {
	name string
	// present: any of these tells that it is there.
	present []string
	// admin and kubelet are its kubeconfigs, admin on servers only. certificate
	// is the kubelet's, whose common name is the node's.
	admin, kubelet string
	certificate    []string
	kubectl        string
}

// distributions, first match wins. Sources: facts of RKE2 v1.2x and K3s
// (data directories), kubeadm's layout.
var distributions = []distribution{
	{"rke2", []string{"/var/lib/rancher/rke2/agent", "/etc/rancher/rke2"}, "/etc/rancher/rke2/rke2.yaml",
		"/var/lib/rancher/rke2/agent/kubelet.kubeconfig", []string{"/var/lib/rancher/rke2/agent/client-kubelet.crt"},
		"/var/lib/rancher/rke2/bin/kubectl"},
	{"k3s", []string{"/var/lib/rancher/k3s/agent", "/etc/rancher/k3s"}, "/etc/rancher/k3s/k3s.yaml",
		"/var/lib/rancher/k3s/agent/kubelet.kubeconfig", []string{"/var/lib/rancher/k3s/agent/client-kubelet.crt"}, "k3s kubectl"},
	{"kubelet", []string{"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeconfig"},
		"/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf",
		[]string{"/var/lib/kubelet/pki/kubelet-client-current.pem"}, "kubectl"},
}

// detect says which distribution the node runs; nil for none.
func detect(n *hostops.Node) *distribution {
	for i := range distributions {
		for _, p := range distributions[i].present {
			if n.Exists(p) {
				return &distributions[i]
			}
		}
	}
	return nil
}

// harvesterFiles tell a Harvester node (its os-release ID changes too often).
var harvesterFiles = []string{"/etc/harvester-release.yaml", "/oem/harvester.config"}

// nodeName is the node's name in the cluster: the common name of the kubelet's
// client certificate, "system:node:NAME". The host name may be another.
func nodeName(n *hostops.Node, d *distribution) (string, error) {
	var errs []error
	for _, file := range d.certificate {
		data, err := n.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return "", fmt.Errorf("reading %s: %w", file, err)
			}
			if name, ok := strings.CutPrefix(cert.Subject.CommonName, "system:node:"); ok {
				return name, nil
			}
			return "", fmt.Errorf("reading %s: its common name is %q, not system:node:NAME", file, cert.Subject.CommonName)
		}
		errs = append(errs, fmt.Errorf("reading %s: it holds no certificate", file))
	}
	return "", errors.Join(errs...)
}

// kubeconfig is the part of a kubeconfig that is needed to reach one server
// with a client certificate or a token.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			Server string `yaml:"server"`
			CA     string `yaml:"certificate-authority"`
			CAData string `yaml:"certificate-authority-data"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User struct {
			Cert      string `yaml:"client-certificate"`
			CertData  string `yaml:"client-certificate-data"`
			Key       string `yaml:"client-key"`
			KeyData   string `yaml:"client-key-data"`
			Token     string `yaml:"token"`
			TokenFile string `yaml:"tokenFile"`
		} `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

// api reaches a cluster's API server.
type api struct {
	server, token string
	client        *http.Client
	// admin: the credentials may see more than this node.
	admin bool
	file  string
	// kubectl is asked when the server does not take who we are, nil for none.
	kubectl *kubectl
}

// openAPI makes a client of the kubeconfig at file, a node path. What is in there
// and cannot be used leaves kubectl to ask with, where there is one.
func openAPI(n *hostops.Node, file string) (*api, error) {
	k := kubectlOf(n, detect(n), file)
	a, err := openKubeconfig(n, file)
	if err != nil {
		if k == nil || !n.Exists(file) {
			return nil, err
		}
		a = &api{file: file}
	}
	a.kubectl = k
	return a, nil
}

func openKubeconfig(n *hostops.Node, file string) (*api, error) {
	data, err := n.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	cluster, user := k.chosen()
	if cluster < 0 || user < 0 {
		return nil, fmt.Errorf("reading %s: it names no cluster or no user", file)
	}
	read := func(data, file2 string) ([]byte, error) {
		if data != "" {
			return base64.StdEncoding.DecodeString(data)
		}
		if file2 == "" {
			return nil, nil
		}
		if !path.IsAbs(file2) {
			file2 = path.Join(path.Dir(file), file2)
		}
		return n.ReadFile(file2)
	}
	c, u := k.Clusters[cluster].Cluster, k.Users[user].User
	ca, err1 := read(c.CAData, c.CA)
	cert, err2 := read(u.CertData, u.Cert)
	key, err3 := read(u.KeyData, u.Key)
	token, err4 := read("", u.TokenFile)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if u.Token != "" {
		token = []byte(u.Token)
	}
	conf, err := tlsConfig(ca, cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	// No proxy: the server is this node or its cluster.
	return &api{server: strings.TrimSuffix(c.Server, "/"), token: strings.TrimSpace(string(token)), file: file,
		client: &http.Client{Timeout: apiLimit, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}}, nil
}

// chosen are the indexes of the current context's cluster and user; the first
// ones when it names none. -1: there is none.
func (k *kubeconfig) chosen() (cluster, user int) {
	cluster, user = min(len(k.Clusters), 1)-1, min(len(k.Users), 1)-1
	for _, c := range k.Contexts {
		if c.Name != k.CurrentContext {
			continue
		}
		for i := range k.Clusters {
			if k.Clusters[i].Name == c.Context.Cluster {
				cluster = i
			}
		}
		for i := range k.Users {
			if k.Users[i].Name == c.Context.User {
				user = i
			}
		}
	}
	return cluster, user
}

func tlsConfig(ca, cert, key []byte) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("its certificate authority holds no certificate")
		}
	}
	if len(cert) > 0 {
		if len(key) == 0 {
			key = cert // kubelet-client-current.pem holds both
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// statusError is an answer that is not 2xx.
type statusError struct {
	code             int
	request, message string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the API server answered %d to %s", e.code, e.request)
	if e.message != "" {
		s += ": " + e.message
	}
	return s
}

// maxAnswer bounds an answer in bytes.
const maxAnswer = 16 << 20

// get reads one object. It also returns the server's time, zero when it sent
// none.
func (a *api) get(ctx context.Context, p string, into any) (time.Time, error) {
	return a.send(ctx, http.MethodGet, p, "", nil, into)
}

// send makes one request; body and into may be nil. An answer other than 2xx
// is a *statusError.
func (a *api) send(ctx context.Context, method, p, contentType string, body []byte, into any) (time.Time, error) {
	if a.client != nil {
		at, err := a.request(ctx, method, p, contentType, body, into)
		if a.kubectl == nil || !unproven(err) {
			return at, err
		}
	}
	return a.kubectl.send(ctx, method, p, body, into)
}

func (a *api) request(ctx context.Context, method, p, contentType string, body []byte, into any) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.server+p, bytes.NewReader(body))
	if err != nil {
		return time.Time{}, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer resp.Body.Close()
	at, _ := http.ParseTime(resp.Header.Get("Date"))
	answer := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		var status struct{ Message string }
		_ = answer.Decode(&status) // an error need not explain itself
		return at, &statusError{resp.StatusCode, method + " " + p, status.Message}
	}
	if into == nil {
		return at, nil
	}
	if err := answer.Decode(into); err != nil {
		return at, fmt.Errorf("reading the answer to %s %s: %w", method, p, err)
	}
	return at, nil
}
