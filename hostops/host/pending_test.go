package host

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// hostPrograms runs this machine's programs for a node of files: the paths that it
// gets are this machine's.
type hostPrograms struct{}

func (hostPrograms) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
}

func (hostPrograms) Look(name string) bool { _, err := exec.LookPath(name); return err == nil }

// deb makes a package of those files.
func deb(t *testing.T, to, name string, files ...string) {
	t.Helper()
	n := hostops.At(t.TempDir(), nil)
	require.NoError(t, n.WriteFile("/DEBIAN/control", []byte("Package: "+name+"\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@example.com>\nInstalled-Size: 10\nDescription: x\n"), 0o644))
	for _, f := range files {
		require.NoError(t, n.WriteFile(f, []byte("x"), 0o644))
	}
	out, err := exec.Command("dpkg-deb", "-Znone", "-b", n.Root, to).CombinedOutput()
	require.NoError(t, err, string(out))
}

// Whoever calls dpkg, its command line says which packages it is to unpack.
func TestPendingKernelIsFoundOnTheCommandLineOfDpkg(t *testing.T) {
	image := "/lib/modules/" + kernelB + "/kernel/x.ko"
	for name, c := range map[string]struct {
		args  []string
		comm  string
		packs map[string][]string // file → package, files
		found bool
	}{
		"dpkg -i with a name of one's own": {[]string{"dpkg", "-i", "kernel.deb"}, "(dpkg)",
			map[string][]string{"/root/kernel.deb": {"linux-image-" + kernelB, image}}, true},
		"apt, some packages": {[]string{"/usr/bin/dpkg", "--status-fd", "20", "--unpack", "/var/cache/apt/archives/other.deb", "/var/cache/apt/archives/k.deb"}, "(dpkg)",
			map[string][]string{"/var/cache/apt/archives/other.deb": {"linux-image-6.1.0-99-amd64", "/lib/modules/6.1.0-99-amd64/x"}, "/var/cache/apt/archives/k.deb": {"linux-image-" + kernelB, image}}, true},
		"apt, a directory of packages": {[]string{"/usr/bin/dpkg", "--unpack", "--recursive", "/tmp/apt-dpkg-install-x"}, "(dpkg (x) y)",
			map[string][]string{"/tmp/apt-dpkg-install-x/0-k.deb": {"linux-image-" + kernelB, image}}, true},
		"modules in a package of their own": {[]string{"dpkg", "-i", "/root/a.deb", "/root/b.deb"}, "(dpkg)",
			map[string][]string{"/root/a.deb": {"linux-image-" + kernelB, "/boot/vmlinuz-" + kernelB}, "/root/b.deb": {"linux-modules-" + kernelB, image}}, true},
		"another kernel's package": {[]string{"dpkg", "-i", "/root/k.deb"}, "(dpkg)",
			map[string][]string{"/root/k.deb": {"linux-image-6.1.0-99-amd64", image}}, false},
		"a package that is damaged": {[]string{"dpkg", "-i", "/root/k.deb"}, "(dpkg)", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t, hosts.Debian(), hosts.Files{
				"/proc/30/cmdline": "run-parts\x00", "/proc/30/stat": "30 (run-parts) S 20 1",
				"/proc/20/cmdline": "/bin/sh\x00-e\x00/var/lib/dpkg/tmp.ci/preinst\x00", "/proc/20/stat": "20 (preinst) S 10 1",
				"/proc/10/cmdline": strings.Join(c.args, "\x00") + "\x00", "/proc/10/stat": "10 " + c.comm + " S 1 1", "/proc/10/cwd": "->/root",
				"/root/k.deb": "no package", ordinaryState + "/pending/leftover": "x",
			})
			n.Exec = hostPrograms{}
			for file, content := range c.packs {
				require.NoError(t, n.WriteFile(file, nil, 0o644))
				deb(t, n.Path(file), content[0], content[1:]...)
			}
			k, done, err := PendingKernel(t.Context(), n, ordinaryState, kernelB, 30)
			if c.found {
				require.NoError(t, err)
				require.True(t, n.Exists(filepath.Join(k.Dir, "kernel/x.ko")))
				done()
			} else {
				require.ErrorContains(t, err, kernelB)
			}
			require.False(t, n.Exists(ordinaryState+"/pending"), "nothing of it stays")

			// Asked by hand meanwhile, it does not touch what a gate has laid out.
			require.NoError(t, n.WriteFile(ordinaryState+"/pending/x", nil, 0o644))
			_, _, err = PendingKernel(t.Context(), n, ordinaryState, kernelB, 1)
			require.ErrorContains(t, err, "no process above 1 is a dpkg")
			require.True(t, n.Exists(ordinaryState+"/pending/x"))
		})
	}
}
