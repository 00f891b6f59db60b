package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
)

// A kernel or image that is not where it is looked for is told from a fault of the
// program, and the answer says what could have been named.
func TestAKernelOrImageThatIsNotThereEndsWithWhatCouldBeNamed(t *testing.T) {
	root := nodes.Build(t)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "srv/empty"), 0o755))
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"check", "--os-root", "/a", "--os-image", "/b"}, 2, []string{"--os-root", "--os-image", "explain usage"}},
		{[]string{"check", "--os-root", "/srv/empty"}, 4, []string{"below /srv/empty is no kernel\n", "cure: name the directory that holds"}},
		{[]string{"check", "--os-root", "/", "--kernel", "5.1"}, 4, []string{"below / is no kernel 5.1\n", "cure: name one of: " + nodes.Release + "\n"}},
		{[]string{"check", "--kernel", "5.1"}, 4, []string{"cure: name one of: " + nodes.Release + "\n"}},
		{[]string{"image", "inspect", "dir"}, 2, []string{"cure: write HOST[:PORT]/REPOSITORY:TAG", "a file needs a leading ./ or /"}},
		{[]string{"image", "copy", "dir", "oci:x"}, 2, []string{"a file needs a leading ./ or /"}},
		{[]string{"why", "dir"}, 2, []string{"a file needs a leading ./ or /"}},
		{[]string{"why", "x/y:1", "--kernel", "5.1"}, 4, []string{"cure: name one of: " + nodes.Release + "; "}},
	} {
		r := call(t, append([]string{"--root", root}, c.args...)...)
		require.Equal(t, c.code, r.code, r.err)
		for _, s := range c.says {
			require.Contains(t, r.err, s)
		}
	}
}

// The other OS may be named as a person stands before it.
func TestCheckTakesAnOSDirectoryBelowTheWorkingDirectory(t *testing.T) {
	root := nodes.Build(t)
	other := filepath.Join(root, "srv/os/lib/modules", nodes.Release)
	require.NoError(t, os.CopyFS(other, os.DirFS(filepath.Join(root, "lib/modules", nodes.Release))))
	t.Chdir(filepath.Join(root, "srv"))
	for _, name := range []string{"./os", "os", "/srv/os"} {
		r := call(t, "--root", root, "check", "--os-image", name)
		require.Equal(t, 0, r.code, "%s: %s", name, r.err)
	}
}
