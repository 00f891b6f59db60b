package catalog

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
)

const el9 = "ID=\"rhel\"\nVERSION_ID=\"9.4\"\n"

func one(kernel, reference string) Driver {
	return Driver{Name: "d", Images: []Mapping{{Kernel: kernel, Reference: reference}}}
}

// The release is legal in a directory's name and not in a tag.
func TestAPlusInTheReleaseIsWrittenAsTheTagNeedsIt(t *testing.T) {
	for _, c := range []struct{ template, release, want, why string }{
		{"r.example/d:${KERNEL_FULL_VERSION}", "5.14.0-427.18.1.el9_4.x86_64+rt", "r.example/d:5.14.0-427.18.1.el9_4.x86_64_rt",
			"KERNEL_FULL_VERSION = 5.14.0-427.18.1.el9_4.x86_64_rt (the tag's form of 5.14.0-427.18.1.el9_4.x86_64+rt)"},
		{"r.example/d:1-$KERNEL_FULL_VERSION", "5.14.0-284.41.1.el9_2.aarch64+64k", "r.example/d:1-5.14.0-284.41.1.el9_2.aarch64_64k", "(the tag's form of"},
		{"r.example/d:${KERNEL_VERSION}", "5.10.133+", "r.example/d:5.10.133", "(the tag's form of 5.10.133+)"},
		{"r.example/d:${KERNEL_FULL_VERSION}", "6.12.117+deb12-amd64", "r.example/d:6.12.117_deb12-amd64", "images[0]"},
		{"r.example/d:${KERNEL_FULL_VERSION}", "5.10.60-v7l_charlie1++", "r.example/d:5.10.60-v7l_charlie1_", "images[0]"},
		{"oci:/srv/drivers/${KERNEL_FULL_VERSION}:${KERNEL_FULL_VERSION}", "6.12.117+deb12-amd64", "oci:/srv/drivers/6.12.117+deb12-amd64:6.12.117_deb12-amd64", "images[0]"},
		{"oci-archive:/srv/${KERNEL_FULL_VERSION}.tar", "5.10.133+", "oci-archive:/srv/5.10.133+.tar", "images[0]"},
		{"/srv/${KERNEL_FULL_VERSION}.tar", "6.12.117+deb12-amd64", "/srv/6.12.117+deb12-amd64.tar", "images[0]"},
		{"r.example:5000/d:${KERNEL_X}-${KERNEL_Y}-${KERNEL_Z}-${KERNEL_XYZ}", "6.0.15-300.fc37.x86_64", "r.example:5000/d:6-0-15-6.0.15", "KERNEL_XYZ = 6.0.15"},
		{"r.example/d:${ARCH}-$OS_TAG", "6.1.0-57-amd64", "r.example/d:arm64-rhel9", "OS_TAG = rhel9 (from /etc/os-release, the minor version left out)"},
	} {
		d := one("", c.template)
		d.Images[0].Kernel = ".*"
		got, why, err := d.Resolve(c.release, Vars{OSRelease: el9, Machine: "aarch64"})
		require.NoError(t, err, c.template)
		require.Equal(t, c.want, got)
		require.Contains(t, why, c.why)
		require.Contains(t, why, "images[0] .* matches "+c.release, "the release itself is shown too")
	}
}

func TestTheFirstMappingThatMatchesWins(t *testing.T) {
	d := Driver{Name: "d", Images: []Mapping{
		{Literal: "6.1.0-57-amd64", Reference: "r.example/d:exact"},
		{Literal: "5.10.133", Reference: "r.example/d:trimmed"},
		{Kernel: `^6\.1\.`, Reference: "r.example/d:six-one"},
		{Kernel: `^6\.1\.0-54-amd64$`, Reference: "r.example/d:never"},
		{Kernel: `14`, Reference: "r.example/d:unanchored"},
		{Kernel: `^5\.10\.200$`, Reference: "r.example/d:plus"},
	}}
	for release, want := range map[string]string{
		"6.1.0-57-amd64": "exact", "6.1.0-54-amd64": "six-one", "6.5.14-200.fc39": "unanchored", "5.10.133+": "trimmed", "5.10.200+": "plus",
	} {
		got, _, err := d.Resolve(release, Vars{})
		require.NoError(t, err)
		require.Equal(t, "r.example/d:"+want, got)
	}
	_, _, err := d.Resolve("6.12.0-1-default", Vars{})
	var none *NoMappingError
	require.ErrorAs(t, err, &none)
	require.Len(t, none.Patterns, 6)
	require.ErrorContains(t, err, `d has no image for kernel 6.12.0-1-default: none of its patterns matches (6.1.0-57-amd64, `)
}

// A real-time, 64k or cloud kernel is not the plain one of the same version.
func TestFlavourSuffixesAreNotDropped(t *testing.T) {
	d := one(`^5\.14\.0-427\.18\.1\.el9_4\.x86_64$`, "r.example/d:1")
	for _, release := range []string{"5.14.0-427.18.1.el9_4.x86_64+rt", "5.14.0-427.18.1.el9_4.x86_64+64k", "5.14.0-427.18.1.el9_4.x86_64+debug"} {
		_, _, err := d.Resolve(release, Vars{})
		var none *NoMappingError
		require.ErrorAs(t, err, &none)
	}
	_, _, err := d.Resolve("5.14.0-427.18.1.el9_4.x86_64", Vars{})
	require.NoError(t, err)
}

// No reference with an empty part is ever made.
func TestAVariableWithoutAValueIsAnErrorByItsName(t *testing.T) {
	for _, c := range []struct {
		template, release, want string
		vars                    Vars
	}{
		{"r.example/d:${OS_TAG}", "6.1.0-57-amd64", "${OS_TAG} is empty: /etc/os-release has no ID; set osTag in the answers file", Vars{}},
		{"r.example/d:${OS_TAG}", "6.1.0-57-amd64", "${OS_TAG} is empty: /etc/os-release has no VERSION_ID", Vars{OSRelease: "ID=arch\n"}},
		{"r.example/d:${OS_TAG}", "6.1.0-57-amd64", "has no ID", Vars{OSRelease: "ID=\"\"\nVERSION_ID=1\n"}},
		{"r.example/d:${ARCH}", "6.1.0-57-amd64", "${ARCH} is empty: the machine's architecture is not known", Vars{}},
		{"r.example/d:${KERNEL_Z}", "6.1-custom", "", Vars{}},
		{"r.example/d:${KERNEL_Z}", "6.1", "${KERNEL_Z} is empty: the kernel release 6.1 has fewer than three parts", Vars{}},
		{"r.example/d:${KERNEL_FULL_VERSION}", "", "the kernel release is not known", Vars{}},
	} {
		d := one(".*", c.template)
		ref, _, err := d.Resolve(c.release, c.vars)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		var empty *EmptyVariableError
		require.ErrorAs(t, err, &empty, c.want)
		require.ErrorContains(t, err, c.want)
		require.Empty(t, ref)
	}
}

func TestWhatIsNoReferenceIsSaidBeforeAnyRequest(t *testing.T) {
	d := one(".*", "r.example/d:${OS_TAG}")
	_, _, err := d.Resolve("6.1.0-57-amd64", Vars{OSTag: "a b"})
	require.ErrorContains(t, err, `has the character ' ', which no reference can hold`)
	_, _, err = d.Resolve("6.1.0-57-amd64", Vars{OSTag: "a:b"})
	var bad *image.Error
	require.ErrorAs(t, err, &bad)
	for _, template := range []string{"r.example/d:${NO_SUCH}", "r.example/d:$", "r.example/d:${KERNEL_X", "r.example/d:${KERNEL_X:-1}", "r.example/d:$$KERNEL_X"} {
		d := one(".*", template)
		_, _, err := d.Resolve("6.1.0-57-amd64", Vars{})
		var unknown *UnknownVariableError
		require.ErrorAs(t, err, &unknown, template)
	}
}

func TestTheOSPartOfATagIsShownAndCanBeGiven(t *testing.T) {
	for _, c := range []struct{ osRelease, given, release, tag, why string }{
		{"ID=ubuntu\nVERSION_ID=\"22.04\"\n", "", "5.15.0-118-generic", "ubuntu22.04", "(from /etc/os-release)"},
		{"ID=scos\nVERSION_ID=4.18\n", "", "5.14.0-531.el9.x86_64", "scos4.18", "(from /etc/os-release)"},
		{"ID=scos\nVERSION_ID=4.18\n", "rhcos4.18", "5.14.0-531.el9.x86_64", "rhcos4.18", "(given as osTag)"},
		{"ID='rocky'\nVERSION_ID='9.4'\n", "", "5.14.0-427.18.1.el9_4.x86_64", "rocky9", "the minor version left out"},
		{"ID=sl-micro\nVERSION_ID=6.2\n", "", "6.12.0-160000.29-default", "sles16.0", "(os-release says sl-micro6.2, the kernel is that of sles16.0)"},
		{"ID=sl-micro\nVERSION_ID=6.1\n", "", "6.4.0-36-default", "sl-micro6.1", "(from /etc/os-release)"},
		{"NAME=x\nID=sles\nVERSION_ID=15.7\n", "", "6.4.0-150700.51-default", "sles15.7", "(from /etc/os-release)"},
	} {
		d := one(".*", "r.example/d:${OS_TAG}")
		ref, why, err := d.Resolve(c.release, Vars{OSRelease: c.osRelease, OSTag: c.given})
		require.NoError(t, err)
		require.Equal(t, "r.example/d:"+c.tag, ref)
		require.Contains(t, why, "OS_TAG = "+c.tag+" (")
		require.Contains(t, why, c.why)
	}
}

// A driver keyed by OS version would not be offered under the next patch
// release, which ships the same kernel.
func TestTheSameKernelUnderTwoOSVersionsResolvesAlike(t *testing.T) {
	d := one(`^6\.12\.33-production\+truenas$`, "r.example/d:1-${KERNEL_FULL_VERSION}")
	var all []string
	for _, version := range []string{"25.10.2", "25.10.3"} {
		ref, _, err := d.Resolve("6.12.33-production+truenas", Vars{OSRelease: "ID=truenas\nVERSION_ID=" + version + "\n"})
		require.NoError(t, err)
		all = append(all, ref)
	}
	require.Equal(t, []string{"r.example/d:1-6.12.33-production_truenas", "r.example/d:1-6.12.33-production_truenas"}, all)
}

var tagGrammar = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

func FuzzResolve(f *testing.F) {
	f.Add("^6", "r.example/d:${KERNEL_FULL_VERSION}", "6.1.0-57-amd64+", el9)
	f.Add("", "oci:/d/$KERNEL_X:${OS_TAG}", "6.1", "")
	f.Fuzz(func(t *testing.T, kernel, reference, release, osRelease string) {
		d := one(kernel, reference)
		ref, _, err := d.Resolve(release, Vars{OSRelease: osRelease, Machine: "x86_64"})
		if err != nil {
			return
		}
		_, err = image.ParseReference(ref)
		require.NoError(t, err)
		_, bad := illegal(ref)
		require.False(t, bad, ref)
	})
}

func TestEveryKnownReleaseHasALegalTagForm(t *testing.T) {
	for _, r := range releases {
		require.Regexp(t, tagGrammar, tagRelease(r))
		require.NotEmpty(t, matchRelease(r))
	}
}
