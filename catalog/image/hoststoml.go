package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// hostsTOML is containerd's hosts.toml (docs/hosts.md): the mirrors of one
// registry, in the order they stand in the file.
type hostsTOML struct {
	Server string              `toml:"server"`
	Host   map[string]tomlHost `toml:"host"`
}

type tomlHost struct {
	Capabilities []string `toml:"capabilities"`
	CA           any      `toml:"ca"` // a path or a list of them
	Client       any      `toml:"client"`
	SkipVerify   bool     `toml:"skip_verify"`
	OverridePath bool     `toml:"override_path"`
}

// containerdEndpoints are the mirrors that containerd's certs.d has for a host,
// none when there is no file for it.
func containerdEndpoints(opts Options, host, repository string) ([]*endpoint, error) {
	dir, raw := containerdFile(opts, host)
	if raw == "" {
		return nil, nil
	}
	var file hostsTOML
	meta, err := toml.Decode(raw, &file)
	if err != nil {
		return nil, fail(Blocked, "reading %s", filepath.Join(dir, "hosts.toml")).because(err).
			hint("correct the file; nothing is pulled past a setting that cannot be read")
	}
	var out []*endpoint
	for _, key := range meta.Keys() {
		if len(key) != 2 || key[0] != "host" {
			continue
		}
		h := file.Host[key[1]]
		if len(h.Capabilities) > 0 && !isOneOf("pull", h.Capabilities) {
			continue
		}
		e, err := urlEndpoint(opts, registriesYAML{file: filepath.Join(dir, "hosts.toml")}, key[1], repository)
		if err != nil {
			return nil, err
		}
		if h.OverridePath {
			e.base = strings.TrimSuffix(e.base, "/v2")
		}
		e.skipVerify = h.SkipVerify
		e.own = h.settings(opts, dir)
		out = append(out, e)
	}
	return out, nil
}

// containerdFile finds the file by containerd's spellings of a host's name.
func containerdFile(opts Options, host string) (dir, raw string) {
	underscored := strings.Replace(host, ":", "_", 1) + "_"
	for _, name := range []string{host, underscored, "_default"} {
		dir = filepath.Join(opts.path("/etc/containerd/certs.d"), name)
		text, err := os.ReadFile(filepath.Join(dir, "hosts.toml"))
		if err == nil {
			return dir, string(text)
		}
		if !os.IsNotExist(err) {
			opts.Log(fmt.Sprintf("%s: %v", filepath.Join(dir, "hosts.toml"), err))
		}
	}
	return "", ""
}

// settings are the certificates of a mirror; relative paths are beside the file.
func (h tomlHost) settings(opts Options, dir string) hostSettings {
	at := func(p string) string {
		if filepath.IsAbs(p) || p == "" {
			return p
		}
		rel, err := filepath.Rel(opts.Root, filepath.Join(dir, p))
		if err != nil {
			return p
		}
		return "/" + rel
	}
	var s hostSettings
	if ca := firstText(h.CA); ca != "" {
		s.caFile = at(ca)
	}
	if pair, ok := h.Client.([]any); ok && len(pair) > 0 {
		if inner, ok := pair[0].([]any); ok {
			pair = inner
		}
		if len(pair) == 2 {
			s.certFile, s.keyFile = at(firstText(pair[0])), at(firstText(pair[1]))
		}
	}
	return s
}

// firstText is a string, or the first of a list.
func firstText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		if len(v) > 0 {
			return firstText(v[0])
		}
	}
	return ""
}
