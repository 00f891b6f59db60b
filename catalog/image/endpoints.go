package image

import (
	"fmt"
	"net/url"
	"strings"
)

// endpointsFor lists where a repository is served, in the order to ask: the
// mirrors of registries.conf, of RKE2's or K3s's file and of containerd's
// certs.d, then the registry.
func endpointsFor(ref Reference, opts Options) ([]*endpoint, error) {
	conf, err := readRegistriesConf(opts)
	if err != nil {
		return nil, err
	}
	rancher, err := readRegistriesYAML(opts)
	if err != nil {
		return nil, err
	}
	name := ref.Registry + "/" + ref.Repository
	reg, found := conf.find(name)
	if found && reg.Blocked {
		return nil, fail(Blocked, "registry %s is blocked on this node (prefix %s in registries.conf)", ref.Registry, reg.Prefix).
			hint("use an allowed registry or an archive; blocked is set in /etc/containers/registries.conf or registries.conf.d")
	}
	var out []*endpoint
	for _, m := range reg.Mirror {
		if !mirrorServes(reg, m, ref) {
			continue
		}
		out = append(out, newEndpoint(opts, rancher, rewrite(reg.Prefix, m.Location, name), m.Insecure, false))
	}
	urls, repository, err := rancher.endpoints(ref.Registry, ref.Repository)
	if err != nil {
		return nil, err
	}
	for _, u := range urls {
		e, err := urlEndpoint(opts, rancher, u, repository)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	mirrors, err := containerdEndpoints(opts, ref.Registry, ref.Repository)
	if err != nil {
		return nil, err
	}
	out = append(out, mirrors...)
	location := name
	if found {
		location = rewrite(reg.Prefix, reg.Location, name)
	}
	return append(out, newEndpoint(opts, rancher, location, found && reg.Insecure, opts.PlainHTTP)), nil
}

// mirrorServes applies pull-from-mirror and its older form.
func mirrorServes(r confRegistry, m confMirror, ref Reference) bool {
	switch {
	case r.MirrorByDigestOnly || m.PullFromMirror == "digest-only":
		return ref.Digest != ""
	case m.PullFromMirror == "tag-only":
		return ref.Digest == ""
	}
	return true
}

// dockerHub is the name of Docker's registry, dockerHubHost where it answers.
const (
	dockerHub     = "docker.io"
	dockerHubHost = "registry-1.docker.io"
)

// newEndpoint makes an endpoint of host/repository. insecure is what
// registries.conf means by it: an untrusted certificate or plain HTTP.
func newEndpoint(opts Options, rancher registriesYAML, name string, insecure, plain bool) *endpoint {
	host, repository, _ := strings.Cut(name, "/")
	own, skip := rancher.settings(host)
	loginName := host
	if host == dockerHub {
		host = dockerHubHost
	}
	e := &endpoint{opts: opts, host: host, base: "https://" + host + "/v2", repository: repository,
		loginName: loginName, plain: insecure || plain, skipVerify: insecure || skip, own: own}
	if e.plain {
		e.fallback = "http://" + host + "/v2"
	}
	return e
}

// urlEndpoint makes an endpoint of a mirror's URL; http in it is plain HTTP by
// the administrator's own word. A path is kept, "/v2" is added when missing.
func urlEndpoint(opts Options, rancher registriesYAML, raw, repository string) (*endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fail(Blocked, "reading %s: the endpoint %q is no http or https URL", rancher.file, raw)
	}
	own, skip := rancher.settings(u.Host)
	path := strings.TrimSuffix(u.Path, "/")
	if !strings.HasSuffix(path, "/v2") {
		path += "/v2"
	}
	return &endpoint{opts: opts, host: u.Host, base: fmt.Sprintf("%s://%s%s", u.Scheme, u.Host, path), repository: repository,
		loginName: u.Host, plain: u.Scheme == "http", skipVerify: skip, own: own}, nil
}
