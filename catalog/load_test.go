package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/assets"
	"fitout/catalog/strict"
)

// head begins a catalog file; tests append drivers.
const head = "apiVersion: fitout/v1\nkind: Catalog\ndate: 2026-11-28\ndrivers:\n"

func entry(name, reference string) string {
	return "- name: " + name + "\n  modules: [m]\n  images: [{kernel: '^6\\..*-amd64$', reference: '" + reference + "'}]\n"
}

func TestTheBuiltInCatalogIsInOrder(t *testing.T) {
	problems, err := Check(embeddedName, assets.Catalog)
	require.NoError(t, err)
	require.Empty(t, problems)

	c, err := Default()
	require.NoError(t, err)
	require.NotEmpty(t, c.Drivers)
	for _, d := range c.Drivers {
		resolved := 0
		for _, release := range releases {
			ref, why, err := d.Resolve(release, Vars{OSRelease: "ID=rhel\nVERSION_ID=9.4\n", Machine: "x86_64"})
			var none *NoMappingError
			if errors.As(err, &none) {
				continue
			}
			require.NoError(t, err, "%s %s", d.Name, release)
			require.NotEmpty(t, ref)
			require.NotEmpty(t, why)
			resolved++
		}
		require.Positive(t, resolved, d.Name)
		require.True(t, d.Unverified, "%s was not compared with its registry", d.Name)
	}
}

func TestTheBuiltInCatalogGivesThePublishedReferences(t *testing.T) {
	c, err := Default()
	require.NoError(t, err)
	for _, x := range []struct{ driver, release, os, want string }{
		{"suse-nvidia-open", "6.4.0-150700.53.6-default", "", "registry.suse.com/third-party/nvidia/driver:580-6.4.0-150700.53.6-default-sles15.7"},
		{"suse-nvidia-open", "6.12.0-160000.29-64kb", "", "registry.suse.com/third-party/nvidia/driver:595-6.12.0-160000.29-64kb-sles16.0"},
		{"suse-nvidia-open", "6.12.0-160000.5-default", "", ""}, // before SUSE's first signed build
		{"suse-nvidia-open", "6.4.0-150700.20.6-azure", "", ""},
		{"suse-nvidia-proprietary", "6.12.0-160000.29-default", "", ""},
		{"nvidia-rhel", "5.14.0-284.54.1.el9_2.aarch64+64k", "ID=rhcos\nVERSION_ID=4.15\n", "nvcr.io/nvidia/driver:570.211.01-5.14.0-284.54.1.el9_2.aarch64_64k-rhcos4.15"},
		{"nvidia-rhel", "5.14.0-427.18.1.el9_4.x86_64", "ID=rocky\nVERSION_ID=9.4\n", "nvcr.io/nvidia/driver:570.211.01-5.14.0-427.18.1.el9_4.x86_64-rocky9"},
		{"ublue-nvidia-open", "6.14.9-300.fc42.x86_64", "", "ghcr.io/ublue-os/akmods-nvidia-open:coreos-stable-42-6.14.9-300.fc42.x86_64"},
	} {
		d, ok := c.Driver(x.driver)
		require.True(t, ok, x.driver)
		got, _, err := d.Resolve(x.release, Vars{OSRelease: x.os, Machine: "aarch64"})
		require.Equal(t, x.want == "", err != nil, "%s: %v", x.release, err)
		require.Equal(t, x.want, got)
	}
}

func TestADropInReplacesAnEntryOfTheSameName(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
		return p
	}
	write("catalog.d/20-b.yaml", head+entry("mine", "r.example/second:1"))
	write("catalog.d/10-a.yaml", head+entry("mine", "r.example/first:1")+entry("other", "r.example/other:1"))
	write("catalog.d/README", "not a catalog")
	write("catalog.d/.10-a.yaml.swp.yaml", "not a catalog")
	file := write("given.yaml", "apiVersion: fitout/v1\nkind: Catalog\ndate: 2031-01-01\ndrivers:\n"+entry("suse-nvidia-open", "r.example/third:1"))

	c, err := Load(filepath.Join(dir, "catalog.d"), file)
	require.NoError(t, err)
	d, _ := c.Driver("mine")
	require.Equal(t, "r.example/second:1", d.Images[0].Reference)
	require.Equal(t, filepath.Join(dir, "catalog.d/20-b.yaml"), d.Source)
	d, _ = c.Driver("suse-nvidia-open")
	require.Equal(t, "r.example/third:1", d.Images[0].Reference)
	_, ok := c.Driver("other")
	require.True(t, ok)
	require.Equal(t, "2031-01-01", c.Date)
	require.Len(t, c.Sources, 4)

	plain, err := Load(filepath.Join(dir, "no-such.d"), "")
	require.NoError(t, err)
	require.Equal(t, []string{embeddedName}, plain.Sources)

	for _, missing := range []string{"no-such.yaml", "no-such"} {
		_, err = Load(filepath.Join(dir, missing))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestEveryBrokenDropInIsReportedNotTheFirstAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("kind: Catalogue\n"), 0o644))
	}
	_, err := Load(dir)
	var invalid *strict.Errors
	require.ErrorAs(t, err, &invalid)
	require.ErrorContains(t, err, "a.yaml:1:7: kind must be Catalog")
	require.ErrorContains(t, err, "b.yaml:1:7: kind must be Catalog")
	require.ErrorContains(t, err, `the key "drivers" is missing`)
}

func TestRulesOfACatalogFile(t *testing.T) {
	const file = `apiVersion: fitout/v2
kind: Catalog
date: yesterday
drivers:
- name: "Mine!"
  match: ["v00008086*", "pci:v00008086d000010d3sv*sd*bc02sc00i00*"]
  modules: [e1000e, "../x"]
  images:
  - {kernel: '^6(', reference: 'r.example/a:1'}
  - {kernel: a, literal: b, reference: 'r.example/a:1'}
  - {reference: 'r.example/a:1'}
  - {kernel: a, reference: 'r.example/a:${KERNEL_RELEASE}'}
  - {kernel: a, reference: 'r.example/a b:1'}
  - {kernel: a, reference: 'r.example/UPPER:1'}
  - {kernel: a, refernce: x}
  licence: {id: x}
- {name: twice, modules: [m], images: []}
- {name: twice, modules: [m], images: [{literal: a, reference: 'r.example/a:1'}]}
`
	_, err := Read("c.yaml", []byte(file))
	for _, want := range []string{
		`c.yaml:1:13: apiVersion must be fitout/v1, not "fitout/v2"`,
		`c.yaml:3:7: date must be a day like 2026-11-28, not "yesterday"`,
		`c.yaml:5:9: a driver's name is made of lower-case letters`,
		`c.yaml:6:11: the glob "v00008086*" does not begin with a bus`,
		`10d3 is in lower case`,
		`c.yaml:7:21: "../x" is no module name`,
		`c.yaml:9:14: the pattern "^6(" cannot be read: missing closing )`,
		`c.yaml:10:40: an image needs either a pattern (kernel) or an exact release (literal)`,
		`c.yaml:11:17: an image needs either`,
		`c.yaml:12:28: the reference "r.example/a:${KERNEL_RELEASE}" uses "${KERNEL_RELEASE}", which is no variable; there are KERNEL_FULL_VERSION`,
		`c.yaml:13:28: the reference "r.example/a b:1" has the character ' '`,
		`c.yaml:14:28: image reference "r.example/UPPER:1"`,
		`c.yaml:15:17: unknown key "refernce" under drivers[0].images[6] (did you mean "reference"?)`,
		`c.yaml:15:5: the key "reference" is missing under drivers[0].images[6]`,
		`c.yaml:16:12: a licence needs the path of its text`,
		`c.yaml:17:39: a driver needs at least one image`,
		`c.yaml:18:10: the driver "twice" is there twice, drivers[1] has the same name`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, err.(*strict.Errors).Problems, 17)
}
