package image

import (
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// proxyFiles hold a node's proxies for a process that has no login's environment,
// such as the hook of an upgrade or a boot: pam_env(8), SUSE, RKE2 and K3s. The
// first that names one counts.
var proxyFiles = []string{"/etc/environment", "/etc/sysconfig/proxy", "/etc/default/rke2-server", "/etc/default/rke2-agent",
	"/etc/default/k3s", "/etc/systemd/system/k3s.service.env", "/etc/systemd/system/k3s-agent.service.env"}

// proxyConfig has the proxies of the environment, else those of the first file.
func proxyConfig(opts Options) httpproxy.Config {
	read := func(get func(string) string) httpproxy.Config {
		either := func(n string) string { return or(get(n), get(strings.ToLower(n))) }
		return httpproxy.Config{HTTPProxy: either("HTTP_PROXY"), HTTPSProxy: either("HTTPS_PROXY"), NoProxy: either("NO_PROXY")}
	}
	c := read(opts.Getenv)
	for _, file := range proxyFiles {
		if c != (httpproxy.Config{}) {
			break
		}
		raw, err := os.ReadFile(opts.path(file))
		values := assignments(string(raw))
		if err == nil && values["PROXY_ENABLED"] != "no" {
			c = read(func(n string) string { return values[n] })
		}
	}
	return c
}

// assignments reads NAME=VALUE lines as shells and systemd write them.
func assignments(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && !strings.HasPrefix(name, "#") {
			out[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return out
}

// proxyFunc is the way to each host; NO_PROXY knows suffixes, ports, address
// ranges and *.
func proxyFunc(opts Options) func(*url.URL) (*url.URL, error) {
	c := proxyConfig(opts)
	return c.ProxyFunc()
}

// Via says how a registry is reached with the settings of opts: "direct" or
// "via proxy URL", without a password.
func Via(ref Reference, opts Options) string {
	opts = opts.withDefaults()
	if ref.Transport != Registry {
		return "local"
	}
	p, err := proxyFunc(opts)(&url.URL{Scheme: "https", Host: ref.Registry})
	if err != nil {
		return "by a proxy setting that cannot be read"
	}
	if p == nil {
		return "direct"
	}
	return "via proxy " + redacted(p)
}

func redacted(u *url.URL) string {
	clean := *u
	if clean.User != nil {
		clean.User = url.User(clean.User.Username())
	}
	return clean.String()
}
