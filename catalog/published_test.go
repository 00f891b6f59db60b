package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
)

func TestTagsAreFilteredByWhatTheMappingsGive(t *testing.T) {
	d := Driver{Name: "x", Images: []Mapping{
		{Kernel: `^6\.1\.0-\d+-amd64$`, Reference: "r.example:5000/d/x:3.8-${KERNEL_FULL_VERSION}-${OS_TAG}"},
		{Kernel: `^6\.12\..*$`, Reference: "r.example:5000/d/x:4.0-$KERNEL_FULL_VERSION"},
		{Kernel: `^5\.`, Reference: "r.example:5000/d/old:${KERNEL_XYZ}"},
		{Literal: "7.0.0-1-amd64", Reference: "r.example:5000/d/x:all"},
	}}
	v := Vars{OSTag: "debian12", Machine: "x86_64"}
	repositories := d.Repositories("6.1.0-99-amd64", v)
	require.Len(t, repositories, 2)
	var got []Published
	for _, r := range repositories {
		got = append(got, d.Published(r, []string{
			"3.8-6.1.0-54-amd64-debian12", "3.8-6.1.0-57-amd64-debian12",
			"3.8-6.1.0-57-amd64-rhel9",       // another OS
			"3.8-6.1.0-57-rt-amd64-debian12", // a kernel that the mapping is not for
			"4.0-6.12.117_deb12-amd64",       // '+' in the tag's form
			"3.9-6.1.0-57-amd64-debian12",    // another version of the driver
			"6.1.0", "all", "latest",
		}, "6.1.0-99-amd64", v)...)
	}
	require.Equal(t, []Published{
		{"6.1.0-54-amd64", "r.example:5000/d/x:3.8-6.1.0-54-amd64-debian12"},
		{"6.1.0-57-amd64", "r.example:5000/d/x:3.8-6.1.0-57-amd64-debian12"},
		{"6.12.117_deb12-amd64", "r.example:5000/d/x:4.0-6.12.117_deb12-amd64"},
	}, got)
	none := d.Published(image.Reference{Transport: image.Registry, Registry: "other.example", Repository: "d/x"}, []string{"all"}, "6.1.0-99-amd64", v)
	require.Empty(t, none)
}
