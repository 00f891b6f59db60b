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
	for _, ca := range texts(h.CA) {
		s.caFiles = append(s.caFiles, at(ca))
	}
	if cert, key := clientFiles(h.Client); cert != "" {
		s.certFile, s.keyFile = at(cert), at(key)
	}
	return s
}

// clientFiles are the first client certificate and its key: of "FILE", of
// ["FILE", …] or of [["CERT", "KEY"], …]. A key that is not named is in the
// certificate's file (containerd, docs/hosts.md).
func clientFiles(v any) (cert, key string) {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	pair := append(texts(v), "", "")
	return pair[0], or(pair[1], pair[0])
}

// texts are a string, or those of a list.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	}
	return out
}
