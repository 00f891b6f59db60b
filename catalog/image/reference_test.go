package image

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferencesAreReadAndWrittenAlike(t *testing.T) {
	sum := "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, tc := range []struct {
		in, out string
		want    Reference
	}{
		{"registry.local:5000/drivers/e1000e:3.8", "", Reference{Transport: Registry, Registry: "registry.local:5000", Repository: "drivers/e1000e", Tag: "3.8"}},
		{"localhost/x:1", "", Reference{Transport: Registry, Registry: "localhost", Repository: "x", Tag: "1"}},
		{"[fd00::1]:5000/a/b:1", "", Reference{Transport: Registry, Registry: "[fd00::1]:5000", Repository: "a/b", Tag: "1"}},
		{"10.0.0.5/x", "10.0.0.5/x:latest", Reference{Transport: Registry, Registry: "10.0.0.5", Repository: "x", Tag: "latest"}},
		{"reg.example/x@" + sum, "", Reference{Transport: Registry, Registry: "reg.example", Repository: "x", Digest: sum}},
		{"reg.example:443/x:1@" + sum, "", Reference{Transport: Registry, Registry: "reg.example:443", Repository: "x", Tag: "1", Digest: sum}},
		{"docker://reg.example/x:1", "reg.example/x:1", Reference{Transport: Registry, Registry: "reg.example", Repository: "x", Tag: "1"}},
		{"docker.io/intel/driver:1", "", Reference{Transport: Registry, Registry: "docker.io", Repository: "intel/driver", Tag: "1"}},
		{"docker.io/busybox:1", "docker.io/library/busybox:1", Reference{Transport: Registry, Registry: "docker.io", Repository: "library/busybox", Tag: "1"}},
		{"oci:/media/stick/img", "", Reference{Transport: OCI, Path: "/media/stick/img"}},
		{"oci:dir:tag", "", Reference{Transport: OCI, Path: "dir", Name: "tag"}},
		{"oci-archive:/a b/x.tar:1", "", Reference{Transport: OCIArchive, Path: "/a b/x.tar", Name: "1"}},
		{"docker-archive:x.tar:reg.example:5000/x:1", "", Reference{Transport: DockerArchive, Path: "x.tar", Name: "reg.example:5000/x:1"}},
		{"/media/stick/x.tar", "", Reference{Transport: Path, Path: "/media/stick/x.tar"}},
		{"./layout", "", Reference{Transport: Path, Path: "./layout"}},
	} {
		got, err := ParseReference(tc.in)
		require.NoError(t, err, tc.in)
		require.Equal(t, tc.want, got)
		require.Equal(t, or(tc.out, tc.in), got.String())
		back, err := ParseReference(got.String())
		require.NoError(t, err)
		require.Equal(t, got, back)
	}
	for _, bad := range []string{"", "ubuntu", "drivers/x:1", "oci:", "oci-archive::x", "reg.example/UPPER:1", "reg.example/x@sha256:12", "reg.example/x:bad tag"} {
		_, err := ParseReference(bad)
		require.Equal(t, BadReference, CodeOf(err), bad)
	}
}
