package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fitout/testdata/images"
	"fitout/testdata/nodes"
)

// What an image names its files does not steer the terminal of the person who
// looks into it.
func TestNamesInAnImageDoNotReachTheTerminalAsCommands(t *testing.T) {
	img, err := images.Of(v1.Config{},
		images.File{Name: "lib/modules/6.1\x1b[2J/x.ko", Data: []byte("no module")},
		images.File{Name: "licenses/\x1b]0;title\a", Data: []byte("terms")})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag("x:1")
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(file, tag, img))
	root := nodes.Build(t)
	for _, args := range [][]string{{"image", "inspect", file}, {"why", file}, {"why", "x/\x1b[2J:1"}} {
		r := call(t, append([]string{"--root", root}, args...)...)
		require.NotContains(t, r.out+r.err, "\x1b")
		require.NotContains(t, r.out+r.err, "\a")
	}
	r := call(t, "--root", root, "image", "inspect", file)
	require.Contains(t, r.out, "6.1^[[2J")
	require.Equal(t, 0, r.code, r.err)
}
