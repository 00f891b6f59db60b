package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/hosts"
)

// r8125 is an out-of-tree driver whose device an in-tree one of another name
// drives too.
func r8125() (Layout, Driver, modinfo) {
	return Layout{State: "/var/lib/fitout", ModprobeD: etcModprobe, UnitDir: "/etc/systemd/system", Apart: true},
		Driver{Name: "realtek-r8125", Version: "9.013", Load: []string{"r8125"}, Replaces: []string{"r8169"},
			Parameters: map[string][]string{"r8125": {"aspm=0", "name=a b"}},
			Builds:     map[string]Build{kernelA: {Modules: []string{"r8125.ko"}}}},
		modinfo{aliases: map[string][]string{"r8125": {"pci:v000010ECd00008125sv*sd*bc*sc*i*"}},
			pre: map[string][]string{"r8125": {"crc32", "mii", "crc32"}}, post: map[string][]string{}, firmware: true}
}

func TestModprobeFileOfADriver(t *testing.T) {
	l, d, m := r8125()
	text := confText(l, d, m)
	for _, want := range []string{
		"alias pci:v000010ECd00008125sv*sd*bc*sc*i* r8125\n",
		"softdep r8125 pre: crc32 mii\n", // one line: modprobe takes the first and ignores others
		"options r8125 aspm=0 name=\"a b\"\n",
		"printf %s /var/lib/fitout/firmware > /sys/module/firmware_class/parameters/path",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, "softdep "))
	require.NotContains(t, text, "blacklist")
	require.NotContains(t, text, "allow_unsupported_modules")
	d.AllowUnsupported, d.Version = true, "1.0\ninstall e100 /bin/false"
	require.NotContains(t, confText(l, d, m), "\ninstall e100 /bin/false")
	require.Contains(t, confText(l, d, m), "\nallow_unsupported_modules 1\n")
	for _, line := range strings.Split(text, "\n") {
		require.False(t, strings.HasSuffix(line, `\`), "kmod would join the next line")
	}
}

// runInstall runs an install line of the file as modprobe does: through the
// shell, with its own options filled in. Programs and paths are stand-ins that
// write down how they were called.
func runInstall(t *testing.T, text, mod, release string, loads bool) (calls string, exit int) {
	t.Helper()
	dir := t.TempDir()
	command := ""
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "install "+mod+" "); ok {
			command = rest
		}
	}
	require.NotEmpty(t, command)
	for from, to := range map[string]string{
		"$CMDLINE_OPTS": "debug=1", "/sbin/modprobe": dir + "/modprobe", "/var/lib/fitout": dir + "/state",
		"/sys/module/firmware_class/parameters/path": dir + "/path", "/dev/kmsg": dir + "/kmsg",
		"/etc/systemd/system": dir + "/units",
	} {
		command = strings.ReplaceAll(command, from, to)
	}
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\ncase \"$*\" in *state*) exit 0;; esac\n"
	if !loads {
		script = "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\ncase \"$*\" in *state*) exit 1;; esac\n"
	}
	require.NoError(t, os.WriteFile(dir+"/modprobe", []byte(script), 0o755))
	require.NoError(t, os.WriteFile(dir+"/uname", []byte("#!/bin/sh\necho "+release+"\n"), 0o755))
	tree := dir + "/state/tree/lib/modules/" + kernelA + "/updates/realtek-r8125"
	if release == unmounted || release == initramfs {
		// The mount is played by moving the directory to its place.
		require.NoError(t, os.MkdirAll(dir+"/disk/tree/lib/modules/unmounted/updates/realtek-r8125", 0o755))
	} else {
		require.NoError(t, os.MkdirAll(tree, 0o755))
	}
	if release == unmounted {
		require.NoError(t, os.MkdirAll(dir+"/units", 0o755))
		require.NoError(t, os.WriteFile(dir+"/units/"+bootUnit, nil, 0o644))
	}
	// What is waited for comes about while it is slept.
	require.NoError(t, os.WriteFile(dir+"/sleep", []byte("#!/bin/sh\necho sleep $@ >> "+dir+"/calls\nmv "+dir+"/disk "+dir+"/state\n"), 0o755))
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err, string(out))
		exit = err.(*exec.ExitError).ExitCode()
	}
	b, _ := os.ReadFile(dir + "/calls") // none: nothing was called
	if p, err := os.ReadFile(filepath.Join(dir, "path")); err == nil {
		require.NotContains(t, string(p), "\n", "the kernel would take it as part of the path")
	}
	return strings.ReplaceAll(string(b), dir, ""), exit
}

func TestInTreeDriverIsReplacedOnlyWhereABuildExists(t *testing.T) {
	l, d, m := r8125()
	text := confText(l, d, m)
	for _, c := range []struct {
		name, mod, kernel string
		loads             bool
		want              string
	}{
		{"vendor driver, kernel with a build", "r8125", kernelA, true, "-d /state/tree --ignore-install r8125 debug=1\n"},
		{"vendor driver, second kernel without one", "r8125", kernelC, true, "--ignore-install r8169\n"},
		{"vendor driver does not load", "r8125", kernelA, false, "-d /state/tree --ignore-install r8125 debug=1\n--ignore-install r8169\n"},
		{"in-tree driver, kernel with a build: the vendor's goes first", "r8169", kernelA, true, "-q r8125\n--ignore-install r8169 debug=1\n"},
		{"in-tree driver, second kernel", "r8169", kernelC, true, "--ignore-install r8169 debug=1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls, exit := runInstall(t, text, c.mod, c.kernel, c.loads)
			require.Equal(t, c.want, calls)
			require.Zero(t, exit)
		})
	}
}

// The two moments at which the state directory is not there: before its mount,
// on the real root, and in an initramfs with a copy of the file.
const (
	unmounted = "unmounted"
	initramfs = "initramfs"
)

func TestColdplugBeforeTheMountWaitsForTheTree(t *testing.T) {
	l, d, m := r8125()
	text := confText(l, d, m)
	calls, exit := runInstall(t, text, "r8125", unmounted, true)
	require.Equal(t, "sleep 1\n-d /state/tree --ignore-install r8125 debug=1\n", calls, "it was mounted meanwhile")
	require.Zero(t, exit)
}

func TestCopyInTheInitramfsTakesTheInTreeDriverAtOnce(t *testing.T) {
	l, d, m := r8125()
	d.Replaces = []string{"r8125"}
	calls, _ := runInstall(t, confText(l, d, m), "r8125", initramfs, true)
	require.Equal(t, "--ignore-install r8125 debug=1\n", calls, "a root disk's driver must not be held back")
}

func TestDriverOfTheInTreeNameFallsBackToTheInTreeOne(t *testing.T) {
	l, d, m := r8125()
	d.Replaces = []string{"r8125"}
	calls, _ := runInstall(t, confText(l, d, m), "r8125", kernelC, true)
	require.Equal(t, "--ignore-install r8125 debug=1\n", calls)
}

func TestRealModprobeTakesTheDriverFromTheTree(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
	// The machine's own modprobe reads the file and says what it would run.
	out, err := exec.Command("/usr/sbin/modprobe", "-n", "-v", "-S", kernelA, "-C", n.Root+"/etc/modprobe.d", "-d", n.Root+f.Layout().State+"/tree", "pci:v00008086d00001229sv00000000sd00000000bc02sc00i00").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "modprobe -d /var/lib/fitout/tree --ignore-install e100")
}
