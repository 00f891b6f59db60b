package e2e_test

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

// imageOf is an image that a test has built.
type imageOf struct {
	t *testing.T
	v1.Image
}

func (i imageOf) push(r *images.Registry, repositoryTag string) {
	i.t.Helper()
	require.NoError(i.t, r.Push(i.Image, repositoryTag))
}

func (i imageOf) archive(file, tag string) {
	i.t.Helper()
	require.NoError(i.t, images.WriteOCIArchive(i.Image, file, tag))
}

func (i imageOf) layout(dir, tag string) {
	i.t.Helper()
	require.NoError(i.t, images.WriteLayout(i.Image, dir, tag))
}

// mislabelled is an image that says it is for one kernel, with another's modules.
func mislabelled(t *testing.T, label, real debian.Kernel, modules ...string) imageOf {
	t.Helper()
	return build(t, images.Spec{
		Kernels: []debian.Kernel{real}, As: map[string]string{real.Release: label.Release},
		Modules: modules, Licence: "none",
	})
}
