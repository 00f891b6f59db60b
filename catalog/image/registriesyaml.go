package image

import (
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// registriesYAML is RKE2's and K3s's private registry file.
type registriesYAML struct {
	Mirrors map[string]struct {
		Endpoint []string          `yaml:"endpoint"`
		Rewrite  map[string]string `yaml:"rewrite"`
	} `yaml:"mirrors"`
	Configs map[string]struct {
		Auth struct {
			Username      string `yaml:"username"`
			Password      string `yaml:"password"`
			Auth          string `yaml:"auth"`
			IdentityToken string `yaml:"identity_token"`
		} `yaml:"auth"`
		TLS struct {
			CAFile             string `yaml:"ca_file"`
			CertFile           string `yaml:"cert_file"`
			KeyFile            string `yaml:"key_file"`
			InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
		} `yaml:"tls"`
	} `yaml:"configs"`
	file string
}

// registriesYAMLFiles are where the two write it.
var registriesYAMLFiles = []string{"/etc/rancher/rke2/registries.yaml", "/etc/rancher/k3s/registries.yaml"}

func readRegistriesYAML(opts Options) (registriesYAML, error) {
	for _, f := range registriesYAMLFiles {
		raw, err := os.ReadFile(opts.path(f))
		if os.IsNotExist(err) {
			continue
		}
		r := registriesYAML{file: opts.path(f)}
		if err == nil {
			err = yaml.Unmarshal(raw, &r)
		}
		if err != nil {
			return r, fail(Blocked, "reading %s", opts.path(f)).because(err).hint("correct the file; nothing is pulled past a setting that cannot be read")
		}
		return r, nil
	}
	return registriesYAML{}, nil
}

// settings are those for one host, and whether its certificate may be anyone's.
func (r registriesYAML) settings(host string) (hostSettings, bool) {
	c, ok := r.Configs[host]
	if !ok {
		return hostSettings{}, false
	}
	s := hostSettings{certFile: c.TLS.CertFile, keyFile: c.TLS.KeyFile}
	if c.TLS.CAFile != "" {
		s.caFiles = []string{c.TLS.CAFile}
	}
	s.login = credential{username: c.Auth.Username, password: c.Auth.Password, identity: c.Auth.IdentityToken, from: r.file}
	if raw, err := base64.StdEncoding.DecodeString(c.Auth.Auth); err == nil && len(raw) > 0 {
		s.login.username, s.login.password, _ = strings.Cut(string(raw), ":")
	}
	return s, c.TLS.InsecureSkipVerify
}

// endpoints are the mirrors of a host, with the repository as each calls it.
func (r registriesYAML) endpoints(host, repository string) ([]string, string, error) {
	m, ok := r.Mirrors[host]
	if !ok {
		m, ok = r.Mirrors["*"]
	}
	if !ok {
		return nil, repository, nil
	}
	for _, pattern := range sortedKeys(m.Rewrite) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, "", fail(Blocked, "reading %s", r.file).because(fmt.Errorf("rewrite %q: %w", pattern, err))
		}
		if re.MatchString(repository) {
			return m.Endpoint, re.ReplaceAllString(repository, m.Rewrite[pattern]), nil
		}
	}
	return m.Endpoint, repository, nil
}
