package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

const (
	kernelA = "6.1.0-57-amd64"
	kernelB = "6.1.0-55-amd64"
	kernelC = "6.1.0-54-amd64" // has no build in these tests
)

// rootMount is a node on one writable disk.
const rootMount = "24 1 259:1 / / rw,relatime - ext4 /dev/sda1 rw\n"

// node builds a node from files: path → content; a content that begins with
// "->" is a link.
func node(t testing.TB, parts ...map[string]string) *hostops.Node {
	t.Helper()
	root := tempRoot(t)
	write := func(p, content string) {
		real := filepath.Join(root, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(real), 0o755))
		if target, ok := strings.CutPrefix(content, "->"); ok {
			require.NoError(t, os.Symlink(target, real))
			return
		}
		require.NoError(t, os.WriteFile(real, []byte(content), 0o644))
	}
	for _, files := range append([]map[string]string{base()}, parts...) {
		names := make([]string, 0, len(files))
		for p := range files {
			names = append(names, p)
		}
		sort.Strings(names)
		for _, p := range names {
			_ = os.Remove(filepath.Join(root, p))
			write(p, files[p])
		}
	}
	return hostops.At(root, nil)
}

// base is what every node has: a running kernel with its lists.
func base() map[string]string {
	return merge(kernel("/lib/modules", kernelA), map[string]string{
		"/proc/sys/kernel/osrelease":                 kernelA + "\n",
		"/proc/sys/kernel/random/boot_id":            "5a4f2f6e-6a54-4a55-8f4a-4f1f1d2c7e10\n",
		"/proc/modules":                              "",
		"/proc/cmdline":                              "root=/dev/sda1 ro quiet\n",
		"/proc/self/mountinfo":                       rootMount,
		"/sys/module/firmware_class/parameters/path": "\n",
		"/dev/kmsg":                                  "",
		"/etc/modprobe.d/site.conf":                  "options snd_hda_intel power_save=1\n",
		"/run/utmp":                                  "",
	})
}

// kernel is a release's own directory, as depmod leaves it.
func kernel(dir, rel string) map[string]string {
	d := dir + "/" + rel + "/"
	return map[string]string{
		d + "modules.dep":             "kernel/lib/crc.ko:\nkernel/drivers/net/mii.ko: kernel/lib/crc.ko\nkernel/drivers/net/ethernet/intel/e100.ko: kernel/drivers/net/mii.ko kernel/lib/crc.ko\n",
		d + "modules.alias":           "alias pci:v00008086d00001229sv*sd*bc02sc00i* e100\n",
		d + "modules.builtin":         "kernel/drivers/pci/pcie/pcieportdrv.ko\n",
		d + "modules.builtin.modinfo": "",
		d + "modules.order":           "kernel/drivers/net/mii.ko\n",
		d + "kernel/keep":             "",
	}
}

// tempRoot is a directory of the test, in memory where that can be: every
// write of fitout's is synced, and a test makes thousands.
func tempRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fitout-host-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func merge(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// The families, as the facts describe them.
func debianNode() map[string]string {
	return map[string]string{
		"/etc/os-release":                                       "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"/var/lib/dpkg/status":                                  "",
		"/usr/bin/dpkg":                                         "",
		"/lib/systemd/systemd":                                  "",
		"/boot/vmlinuz-" + kernelA:                              "",
		"/etc/kernel/postinst.d/initramfs-tools":                "#!/bin/sh\n",
		"/etc/systemd/system/sysinit.target.wants/keep.service": "->../keep.service",
	}
}

const elementalMounts = rootMount +
	"30 24 8:2 / /oem rw,relatime - ext4 /dev/sda2 rw\n" +
	"31 24 8:5 / /run/elemental/persistent rw,relatime - ext4 /dev/sda5 rw\n" +
	"32 24 0:40 / /etc rw,relatime - overlay overlay rw,lowerdir=/etc,upperdir=/run/elemental/overlay/etc/upper,workdir=/w\n" +
	"33 24 0:21 / /run rw,nosuid - tmpfs tmpfs rw\n"

func elemental2Node() map[string]string {
	return map[string]string{
		"/etc/os-release":               "ID=sl-micro\nPRETTY_NAME=\"SL Micro 6.0\"\nIMAGE_TAG=2.1\n",
		"/run/elemental/active_mode":    "",
		"/run/cos/active_mode":          "", // v2 makes it too
		"/proc/self/mountinfo":          elementalMounts,
		"/oem/90_custom.yaml":           "name: site\nstages:\n  boot:\n  - name: hostname\n    hostname: n1\n",
		"/run/elemental/persistent/x":   "",
		"/usr/lib/systemd/systemd":      "",
		"/etc/systemd/system/a.wants/b": "->../b",
	}
}

func harvesterNode() map[string]string {
	return map[string]string{
		"/etc/os-release":             "ID=sle-micro-rancher\nVARIANT=\"Harvester\"\nPRETTY_NAME=\"Harvester v1.6.0\"\n",
		"/etc/harvester-release.yaml": "harvester: v1.6.0\n",
		"/run/cos/active_mode":        "",
		"/proc/cmdline":               "cos-img/filename=/cOS/active.img rd.neednet=1\n",
		"/proc/self/mountinfo": rootMount +
			"30 24 8:2 / /oem rw,relatime - ext4 /dev/sda2 rw\n" +
			"31 24 8:5 /.state/var-lib-third-party.bind /var/lib/third-party rw - ext4 /dev/sda5 rw\n",
		"/oem/90_custom.yaml":       "name: Harvester\nstages:\n  rootfs:\n  - commands:\n    - echo hi\n",
		"/var/lib/third-party/keep": "",
		"/usr/lib/systemd/systemd":  "",
	}
}

const (
	sumA = "1111111111111111111111111111111111111111111111111111111111111111"
	sumB = "2222222222222222222222222222222222222222222222222222222222222222"
)

// ostreeNode is booted from sumA; kernelB's deployment is on disk.
func ostreeNode(staged bool) map[string]string {
	deploy := func(sum string) string { return "/sysroot/ostree/deploy/fcos/deploy/" + sum + ".0" }
	out := merge(
		kernel("/usr/lib/modules", kernelA),
		kernel(deploy(sumA)+"/usr/lib/modules", kernelA),
		kernel(deploy(sumB)+"/usr/lib/modules", kernelB),
		map[string]string{
			"/etc/os-release":                    "ID=fedora\nVARIANT_ID=coreos\nPRETTY_NAME=\"Fedora CoreOS 43\"\n",
			"/run/ostree-booted":                 "",
			"/usr/bin/rpm-ostree":                "",
			"/usr/libexec/zincati":               "",
			"/usr/lib/systemd/systemd":           "",
			"/ostree":                            "->sysroot/ostree",
			"/sysroot/ostree/boot.1/fcos/aaaa/0": "->../../../deploy/fcos/deploy/" + sumA + ".0",
			"/proc/cmdline":                      "ostree=/ostree/boot.1/fcos/aaaa/0 rw\n",
			"/boot/loader/entries/ostree-1.conf": "title Fedora CoreOS\nversion 2\noptions ostree=/ostree/boot.1/fcos/aaaa/0 rw\n",
			deploy(sumA) + "/usr/lib/modules/" + kernelA + "/vmlinuz": "",
			deploy(sumB) + "/usr/lib/modules/" + kernelB + "/vmlinuz": "",
			deploy(sumB) + "/usr/lib/modules/6.99-orphan/leftover":    "",
			"/usr/lib/systemd/system/ostree-finalize-staged.service":  "[Service]\nExecStop=/usr/bin/ostree admin finalize-staged\n",
		})
	if staged {
		// A GVariant a{sv}; what matters is that it names the checksum.
		out[StagedDeployment] = "target\x00checksum\x00" + sumB + "\x00"
	}
	return out
}

// testModules is where real Debian modules lie.
const testModules = "../../testdata/modules"

// e100 is a two-module driver with firmware, builds for the kernels given, its
// files already in the node's store.
func e100(t testing.TB, n *hostops.Node, kernels ...string) Driver {
	t.Helper()
	d := Driver{Name: "intel-e100", Version: "3.5", Digest: "sha256:aa", Builds: map[string]Build{},
		Load: []string{"mii", "e100"}, Parameters: map[string][]string{"e100": {"debug=3"}},
		Replaces: []string{"e100"}, OnMissing: "stop", Devices: []string{"8086:1229"}}
	for _, rel := range kernels {
		dir := "/run/store/" + rel
		b := Build{Release: rel, Dir: dir, FirmwareDir: dir + "/fw", Firmware: []string{"e100/d101m_ucode.bin"}}
		for _, m := range []string{"mii", "e100"} {
			content, err := os.ReadFile(filepath.Join(testModules, kernelA, m+".ko"))
			require.NoError(t, err)
			b.Modules = append(b.Modules, "opt/lib/modules/"+m+".ko")
			require.NoError(t, n.WriteFile(dir+"/opt/lib/modules/"+m+".ko", content, 0o644))
		}
		require.NoError(t, n.WriteFile(dir+"/fw/e100/d101m_ucode.bin", []byte("ucode"), 0o644))
		d.Builds[rel] = b
	}
	return d
}

// dummy is a one-module driver without devices.
func dummy(t testing.TB, n *hostops.Node, name string, kernels ...string) Driver {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testModules, kernelA, "dummy.ko"))
	require.NoError(t, err)
	d := Driver{Name: name, Builds: map[string]Build{}, Load: []string{"dummy"}, OnMissing: "stop"}
	for _, rel := range kernels {
		dir := "/run/store2/" + rel
		require.NoError(t, n.WriteFile(dir+"/dummy.ko", content, 0o644))
		d.Builds[rel] = Build{Release: rel, Dir: dir, Modules: []string{"dummy.ko"}}
	}
	return d
}

// family detects, with a small program to install.
func family(t testing.TB, n *hostops.Node) Family {
	t.Helper()
	require.NoError(t, n.WriteFile("/run/store/fitout", []byte("#!/bin/true\n"), 0o755))
	return Detect(n).Using("/run/store/fitout", "1.0")
}

// lines collects what actions say.
type lines struct{ text []string }

func (l *lines) Line(s string)         { l.text = append(l.text, s) }
func (l *lines) Progress(int64, int64) {}

// apply does what the runner does, with a journal in between: every action is
// written as JSON after Prepare and after Do, and read back.
func apply(t testing.TB, n *hostops.Node, actions []hostops.Action) []hostops.Action {
	t.Helper()
	ctx := context.Background()
	var done []hostops.Action
	for _, a := range actions {
		ok, err := a.Done(ctx, n)
		require.NoError(t, err, a.Kind())
		if ok {
			continue
		}
		require.NoError(t, a.Prepare(ctx, n), a.Kind())
		a = reread(t, a)
		require.NoError(t, a.Do(ctx, n, &lines{}), a.Kind())
		ok, err = a.Done(ctx, n)
		require.NoError(t, err)
		require.True(t, ok, "%s is not done after Do", a.Kind())
		done = append(done, reread(t, a))
	}
	return done
}

func reread(t testing.TB, a hostops.Action) hostops.Action {
	t.Helper()
	b, err := json.Marshal(a)
	require.NoError(t, err)
	for _, make := range Actions() {
		if c := make(); c.Kind() == a.Kind() {
			require.NoError(t, json.Unmarshal(b, c))
			return c
		}
	}
	t.Fatalf("no action of kind %s", a.Kind())
	return nil
}

func undo(t testing.TB, n *hostops.Node, actions []hostops.Action) {
	t.Helper()
	for i := len(actions) - 1; i >= 0; i-- {
		require.NoError(t, actions[i].Undo(context.Background(), n, &lines{}), actions[i].Kind())
	}
}

// fingerprint is every file, link and directory of a node with its content,
// but for what logs and the store hold.
func fingerprint(t testing.TB, n *hostops.Node) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(n.Root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, n.Root)
		if strings.HasPrefix(rel, "/run/store") || rel == "/dev/kmsg" {
			return nil
		}
		line := rel + " " + d.Type().String()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			line += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %s", hashBytes(b)[:12])
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// stateOf makes the state directory, as fitout's own journal has by then.
func stateOf(t testing.TB, n *hostops.Node, f Family) string {
	t.Helper()
	require.NoError(t, n.WriteFile(f.Layout().State+"/runs/1", nil, 0o644))
	return f.Layout().State
}
