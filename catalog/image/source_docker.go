package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// dockerSource is an archive as docker save wrote it before version 25. It has
// no manifest digest: the image's id (the digest of its configuration) stands
// in, and layers are verified by the digests of their plain tar alone.
type dockerSource struct {
	localImage
	config    []byte
	configSum v1.Hash
	diffIDs   []v1.Hash
	layers    []string
}

type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func openDocker(local localImage) (source, error) {
	raw, err := local.read("manifest.json")
	if err != nil {
		return nil, err
	}
	var entries []dockerEntry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fail(Corrupt, "reading manifest.json of %s", local.ref.Path).because(err)
	}
	e, err := pickDocker(local.ref, entries)
	if err != nil {
		return nil, err
	}
	s := &dockerSource{localImage: local, layers: e.Layers}
	return s, s.readConfig(e.Config)
}

func pickDocker(ref Reference, entries []dockerEntry) (dockerEntry, error) {
	if n, ok := strings.CutPrefix(ref.Name, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 0 || i >= len(entries) {
			return dockerEntry{}, fail(TagMissing, "%s has no image number %s, it has %d", ref.Path, n, len(entries))
		}
		return entries[i], nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.RepoTags...)
		if ref.Name != "" && matchesName(e.RepoTags, ref.Name) {
			return e, nil
		}
	}
	switch {
	case ref.Name != "":
		return dockerEntry{}, &Error{Code: TagMissing, Tags: names,
			Message: fmt.Sprintf("%s has no image named %q; it has %s", ref.Path, ref.Name, listNames(names))}
	case len(entries) == 0:
		return dockerEntry{}, fail(UnsupportedManifest, "%s holds no image", ref.Path)
	case len(entries) > 1:
		return dockerEntry{}, ambiguous(ref, len(entries), names)
	}
	return entries[0], nil
}

func (s *dockerSource) readConfig(name string) error {
	raw, err := s.read(name)
	if err != nil {
		return err
	}
	sum, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		return fmt.Errorf("hashing %s: %w", name, err)
	}
	// The file is named by its digest; say so when it is another's.
	if base := strings.TrimSuffix(path.Base(name), ".json"); len(base) == 64 && base != sum.Hex {
		return fail(DigestMismatch, "configuration %s of %s has the digest %s", name, s.ref.Path, sum)
	}
	var cf v1.ConfigFile
	if err := json.Unmarshal(raw, &cf); err != nil {
		return fail(Corrupt, "reading %s of %s", name, s.ref.Path).because(err)
	}
	if len(cf.RootFS.DiffIDs) != len(s.layers) {
		return fail(Corrupt, "%s names %d layers but digests of %d", s.ref.Path, len(s.layers), len(cf.RootFS.DiffIDs))
	}
	s.config, s.configSum, s.diffIDs = raw, sum, cf.RootFS.DiffIDs
	return nil
}

// top makes the manifest that the archive lacks.
func (s *dockerSource) top(context.Context) ([]byte, v1.Hash, error) {
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2,
		Config: v1.Descriptor{MediaType: types.DockerConfigJSON, Size: int64(len(s.config)), Digest: s.configSum}}
	for i, l := range s.layers {
		f, size, err := s.files.open(l)
		if err != nil {
			return nil, v1.Hash{}, s.missing(l, err)
		}
		f.Close()
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.DockerUncompressedLayer, Size: size, Digest: s.diffIDs[i]})
	}
	raw, err := json.Marshal(m)
	return raw, s.configSum, err
}

func (s *dockerSource) manifest(context.Context, v1.Descriptor) ([]byte, error) {
	return nil, fail(Corrupt, "%s names a manifest inside a docker archive", s.ref.Path)
}

func (s *dockerSource) blob(_ context.Context, n int, _ v1.Descriptor) (io.ReadCloser, error) {
	if n == configBlob {
		return io.NopCloser(strings.NewReader(string(s.config))), nil
	}
	f, _, err := s.files.open(s.layers[n])
	if err != nil {
		return nil, s.missing(s.layers[n], err)
	}
	return f, nil
}
