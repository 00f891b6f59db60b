package image

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
)

// registriesConf is containers-registries.conf(5), version 2: what concerns
// reaching a registry.
type registriesConf struct {
	Registry []confRegistry `toml:"registry"`
}

type confRegistry struct {
	Prefix             string       `toml:"prefix"`
	Location           string       `toml:"location"`
	Insecure           bool         `toml:"insecure"`
	Blocked            bool         `toml:"blocked"`
	MirrorByDigestOnly bool         `toml:"mirror-by-digest-only"`
	Mirror             []confMirror `toml:"mirror"`
}

type confMirror struct {
	Location       string `toml:"location"`
	Insecure       bool   `toml:"insecure"`
	PullFromMirror string `toml:"pull-from-mirror"`
}

// readRegistriesConf merges the main file and its drop-ins: a later file's
// registry replaces one with the same prefix. A file that is not valid is an
// error, for silently going round a mirror or a block would be wrong.
func readRegistriesConf(opts Options) (registriesConf, error) {
	home := or(opts.Getenv("HOME"), "/root")
	main := []string{opts.path(filepath.Join(home, ".config/containers/registries.conf")), opts.path("/etc/containers/registries.conf")}
	if f := opts.Getenv("CONTAINERS_REGISTRIES_CONF"); f != "" {
		main = []string{opts.path(f)}
	}
	var files []string
	for _, f := range main {
		if exists(f) {
			files = append(files, f)
			break
		}
	}
	for _, d := range []string{"/etc/containers/registries.conf.d", filepath.Join(home, ".config/containers/registries.conf.d")} {
		drop, err := filepath.Glob(filepath.Join(opts.path(d), "*.conf"))
		if err != nil {
			return registriesConf{}, fmt.Errorf("reading %s: %w", d, err)
		}
		sort.Strings(drop)
		files = append(files, drop...)
	}
	var merged registriesConf
	for _, f := range files {
		var c registriesConf
		raw, err := os.ReadFile(f)
		if err == nil {
			err = toml.Unmarshal(raw, &c)
		}
		if err != nil {
			return merged, fail(Blocked, "reading %s", f).because(err).hint("correct the file; nothing is pulled past a setting that cannot be read")
		}
		for _, r := range c.Registry {
			merged.add(r)
		}
	}
	return merged, nil
}

func (c *registriesConf) add(r confRegistry) {
	r.Prefix = or(r.Prefix, r.Location)
	for i := range c.Registry {
		if c.Registry[i].Prefix == r.Prefix {
			c.Registry[i] = r
			return
		}
	}
	c.Registry = append(c.Registry, r)
}

// find is the registry with the longest prefix of name (host/repository).
func (c registriesConf) find(name string) (confRegistry, bool) {
	var best confRegistry
	found := false
	for _, r := range c.Registry {
		if prefixMatches(r.Prefix, name) && (!found || len(r.Prefix) > len(best.Prefix)) {
			best, found = r, true
		}
	}
	return best, found
}

// prefixMatches knows host, host/path and *.domain, as the manual page says.
func prefixMatches(prefix, name string) bool {
	if domain, ok := strings.CutPrefix(prefix, "*."); ok {
		host, _, _ := strings.Cut(name, "/")
		host, _, _ = strings.Cut(host, ":")
		return strings.HasSuffix(host, "."+domain)
	}
	return name == prefix || strings.HasPrefix(name, prefix+"/") || !strings.Contains(prefix, "/") && strings.HasPrefix(name, prefix+":") && !strings.Contains(prefix, ":")
}

// rewrite puts location in the place of prefix.
func rewrite(prefix, location, name string) string {
	if location == "" || strings.HasPrefix(prefix, "*.") {
		if location == "" {
			return name
		}
		_, rest, _ := strings.Cut(name, "/")
		return location + "/" + rest
	}
	return location + strings.TrimPrefix(name, prefix)
}
