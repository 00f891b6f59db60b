package rpmrepo

import (
	"compress/gzip"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/rpmpack"
	"github.com/stretchr/testify/require"
)

const (
	fedora  = "6.17.4-200.fc43.x86_64"
	fedora2 = "6.17.8-200.fc43.x86_64"
)

func driver(kernel, content string) Package {
	return Package{Name: "kmod-fitout-e1000e", Version: "3.8.4-1 (oem)", Kernel: kernel, Arch: "x86_64", Licence: "GPL v2", Summary: `e1000e for <"it" & more>`,
		Files: map[string][]byte{
			"/usr/lib/modules/" + kernel + "/extra/fitout/e1000e/e1000e.ko": []byte(content),
			"/usr/lib/firmware/updates/e1000e/x.bin":                        []byte("ucode"),
		}}
}

// repository writes one to a directory of the test.
func repository(t *testing.T, packages ...Package) string {
	t.Helper()
	dir := t.TempDir()
	w := NewWriter(func(name string, content []byte) error {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), content, 0o644)
	})
	for _, p := range packages {
		require.NoError(t, w.Add(p))
	}
	require.NoError(t, w.Close())
	return dir
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// Read with the rpm of the machine.
func TestPackageIsBoundToItsKernel(t *testing.T) {
	p := driver(fedora, "module")
	file := filepath.Join(repository(t, p), p.Filename())
	require.Equal(t, "kernel-core-uname-r = "+fedora, strings.TrimSpace(output(t, "rpm", "-qp", "--requires", file)))
	require.Equal(t, []string{"/usr/lib/firmware/updates/e1000e/x.bin", "/usr/lib/modules/" + fedora + "/extra/fitout/e1000e/e1000e.ko"},
		strings.Fields(output(t, "rpm", "-qp", "--list", file)))
	require.Contains(t, output(t, "rpm", "-qp", "--scripts", file), "depmod -a "+fedora)
	require.Contains(t, output(t, "rpm", "-K", file), "digests OK")
	info := output(t, "rpm", "-qp", "--qf", "%{name}|%{version}|%{release}|%{arch}|%{license}", file)
	require.Regexp(t, `^kmod-fitout-e1000e\|3\.8\.4_1_oem_\|6\.17\.4_200\.fc43\.x86_64\.[0-9a-f]{8}\|x86_64\|GPL v2$`, info)
}

func TestOtherContentIsAnotherPackage(t *testing.T) {
	require.Equal(t, driver(fedora, "a").Filename(), driver(fedora, "a").Filename())
	require.NotEqual(t, driver(fedora, "a").Filename(), driver(fedora, "b").Filename())
	one, err := driver(fedora, "a").bytes()
	require.NoError(t, err)
	two, err := driver(fedora, "a").bytes()
	require.NoError(t, err)
	require.Equal(t, one, two, "the same files give the same bytes")
}

func TestKernelThatWouldBeAScriptIsRefused(t *testing.T) {
	w := NewWriter(func(string, []byte) error { return nil })
	for _, kernel := range []string{"", "6.1; rm -r /", "$(id)", "a b", "-h"} {
		require.ErrorContains(t, w.Add(driver(kernel, "x")), "no kernel release", "%q", kernel)
	}
}

// installroot is a system that has one kernel's package and nothing else.
func installroot(t *testing.T, kernel string) string {
	t.Helper()
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{Name: "kernel-core", Version: "6", Release: "1", Arch: "x86_64", Epoch: rpmpack.NoEpoch})
	require.NoError(t, err)
	require.NoError(t, r.Provides.Set(capability+" = "+kernel))
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, "kernel.rpm"))
	require.NoError(t, err)
	require.NoError(t, r.Write(f))
	require.NoError(t, f.Close())
	output(t, "rpm", "--root", root, "--justdb", "--nodeps", "-i", f.Name())
	return root
}

// The solver and the metadata reader are those that rpm-ostree uses too.
func TestSolverChoosesTheBuildOfTheKernelOrRefuses(t *testing.T) {
	older, newer := driver(fedora, "a"), driver(fedora2, "b")
	repo := repository(t, older, newer)
	ask := func(kernel string) (string, error) {
		root := installroot(t, kernel)
		out, err := exec.Command("dnf", "--installroot", root, "--releasever", "43", "--forcearch", "x86_64", "--setopt=reposdir="+t.TempDir(),
			"--setopt=cachedir="+t.TempDir(), "--setopt=logdir="+t.TempDir(), "--repofrompath", "fitout,file://"+repo, "--nogpgcheck", "-y",
			"--setopt=install_weak_deps=0", "--setopt=tsflags=noscripts,justdb", "install", "kmod-fitout-e1000e").CombinedOutput()
		have := output(t, "rpm", "--root", root, "-qa", "--qf", "%{name}-%{version}-%{release}.%{arch}.rpm\n")
		return string(out) + have, err
	}
	for kernel, want := range map[string]Package{fedora: older, fedora2: newer} {
		said, err := ask(kernel)
		require.NoError(t, err, said)
		require.Contains(t, said, "\n"+want.Filename()+"\n")
	}
	said, err := ask("6.18.1-200.fc43.x86_64")
	require.Error(t, err, said)
	require.Contains(t, said, "nothing provides kernel-core-uname-r = "+fedora)
}

// A licence as some vendor wrote it, in an encoding of its own.
func TestMetadataIsXMLWhateverAModuleSays(t *testing.T) {
	p := driver(fedora, "a")
	p.Licence = "Propri\xe9taire\x01 & <more>"
	repo := repository(t, p)
	parts, err := filepath.Glob(repo + "/repodata/*-primary.xml.gz")
	require.NoError(t, err)
	require.Len(t, parts, 1)
	f, err := os.Open(parts[0])
	require.NoError(t, err)
	defer f.Close()
	plain, err := gzip.NewReader(f)
	require.NoError(t, err)
	var primary struct {
		Licence string `xml:"package>format>license"`
	}
	require.NoError(t, xml.NewDecoder(plain).Decode(&primary))
	require.Equal(t, "Propri\ufffdtaire\ufffd & <more>", primary.Licence)
}

func TestHeadersLieWhereTheMetadataSays(t *testing.T) {
	p := driver(fedora, strings.Repeat("module", 5000))
	b, err := p.bytes()
	require.NoError(t, err)
	start, end := headerRange(b)
	for _, at := range []int{96, start} {
		require.Equal(t, []byte{0x8e, 0xad, 0xe8, 0x01}, b[at:at+4], "a header begins at %d", at)
	}
	require.Equal(t, []byte{0x28, 0xb5, 0x2f, 0xfd}, b[end:end+4], "the payload follows, zstd")
}
