package image

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Transport says where an image lies, in the words of containers-transports(5).
type Transport string

// The transports. Path is a bare file or directory whose form is found by its
// content when it is opened.
const (
	Registry      Transport = "docker"
	OCI           Transport = "oci"
	OCIArchive    Transport = "oci-archive"
	DockerArchive Transport = "docker-archive"
	Path          Transport = "path"
)

// Reference names an image. Registry references fill Registry to Digest,
// local ones Path and Name.
type Reference struct {
	Transport Transport
	// Registry is host[:port], Repository the path below it.
	Registry, Repository string
	// Tag is "" when only a digest was given; Digest "" when only a tag.
	Tag, Digest string
	// Path is a file or directory; Name the image inside it ("" : the only
	// one), a tag, a full name or "@N" for the N-th.
	Path, Name string
}

// ParseReference reads a reference: host[:port]/repo[:tag][@digest],
// oci:DIR[:tag], oci-archive:FILE[:tag], docker-archive:FILE[:ref], or a path
// (beginning with / or ., or ending in .tar). It looks at nothing but the text.
func ParseReference(s string) (Reference, error) {
	if s == "" {
		return Reference{}, fail(BadReference, "the image reference is empty")
	}
	for _, t := range []Transport{OCIArchive, DockerArchive, OCI} {
		if rest, ok := strings.CutPrefix(s, string(t)+":"); ok {
			return localReference(s, t, rest)
		}
	}
	s = strings.TrimPrefix(s, "docker://")
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".tar") {
		return Reference{Transport: Path, Path: s}, nil
	}
	return registryReference(s)
}

func localReference(s string, t Transport, rest string) (Reference, error) {
	path, inner, _ := strings.Cut(rest, ":")
	if path == "" {
		return Reference{}, fail(BadReference, "image reference %q: %s: needs a path", s, t).
			hint("write %s:/path/to/it or %s:/path/to/it:TAG", t, t)
	}
	return Reference{Transport: t, Path: path, Name: inner}, nil
}

func registryReference(s string) (Reference, error) {
	host, _, slash := strings.Cut(s, "/")
	if !slash || !(strings.ContainsAny(host, ".:[") || host == "localhost") {
		return Reference{}, fail(BadReference, "image reference %q names no registry", s).
			hint("write HOST[:PORT]/REPOSITORY:TAG, for example docker.io/%s; a file needs a leading ./ or /", s)
	}
	base, digest, _ := strings.Cut(s, "@")
	tag, err := name.NewTag(base)
	if err != nil {
		return Reference{}, fail(BadReference, "image reference %q", s).because(err)
	}
	r := Reference{Transport: Registry, Registry: registryName(tag.RegistryStr()), Repository: tag.RepositoryStr(), Digest: digest}
	if digest != "" {
		if _, err := name.NewDigest(tag.Context().Name() + "@" + digest); err != nil {
			return Reference{}, fail(BadReference, "image reference %q", s).because(err)
		}
	}
	if digest == "" || strings.Contains(base[strings.LastIndex(base, "/"):], ":") {
		r.Tag = tag.TagStr()
	}
	return r, nil
}

// registryName undoes go-containerregistry's own name for Docker's registry:
// registries.conf and credential files call it docker.io.
func registryName(host string) string {
	if host == name.DefaultRegistry {
		return dockerHub
	}
	return host
}

// String gives the reference in the form that ParseReference reads.
func (r Reference) String() string {
	if r.Transport == Path {
		return r.Path
	}
	if r.Transport != Registry {
		s := string(r.Transport) + ":" + r.Path
		if r.Name != "" {
			s += ":" + r.Name
		}
		return s
	}
	s := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Host is the registry's host[:port], "" for local images.
func (r Reference) Host() string { return r.Registry }

// identifier is what a registry is asked for: the digest when there is one.
func (r Reference) identifier() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}
