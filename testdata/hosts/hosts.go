// Package hosts builds small nodes of each family of operating systems, as
// files below a directory, ready for hostops.At or --root. The marks are those
// that the projects' own sources and running systems show.
package hosts

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernels of the nodes: A runs, B is another one.
const (
	KernelA = "6.1.0-57-amd64"
	KernelB = "6.1.0-55-amd64"
)

// Files are a node's files: path → content. A content that begins with "->" is
// a link.
type Files = map[string]string

// RootMount is the mount table of a node on one writable disk.
const RootMount = "24 1 259:1 / / rw,relatime - ext4 /dev/sda1 rw\n"

// Write makes a node of files in a directory of the test and returns it; later
// parts win.
func Write(t testing.TB, parts ...Files) string {
	t.Helper()
	root := TempRoot(t)
	write := func(p, content string) {
		real := filepath.Join(root, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(real), 0o755))
		if target, ok := strings.CutPrefix(content, "->"); ok {
			require.NoError(t, os.Symlink(target, real))
			return
		}
		require.NoError(t, os.WriteFile(real, []byte(content), 0o644))
	}
	for _, files := range append([]Files{Base()}, parts...) {
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
	return root
}

// Base is what every node has: a running kernel with its lists.
func Base() Files {
	return Merge(Kernel("/lib/modules", KernelA), Files{
		"/proc/sys/kernel/osrelease":                 KernelA + "\n",
		"/proc/sys/kernel/random/boot_id":            "5a4f2f6e-6a54-4a55-8f4a-4f1f1d2c7e10\n",
		"/proc/modules":                              "",
		"/proc/cmdline":                              "root=/dev/sda1 ro quiet\n",
		"/proc/self/mountinfo":                       RootMount,
		"/sys/module/firmware_class/parameters/path": "\n",
		"/dev/kmsg":                                  "",
		"/etc/modprobe.d/site.conf":                  "options snd_hda_intel power_save=1\n",
		"/run/utmp":                                  "",
	})
}

// Kernel is a release's own directory, as depmod leaves it.
func Kernel(dir, rel string) Files {
	d := dir + "/" + rel + "/"
	return Files{
		d + "modules.dep":             "kernel/lib/crc.ko:\nkernel/drivers/net/mii.ko: kernel/lib/crc.ko\nkernel/drivers/net/ethernet/intel/e100.ko: kernel/drivers/net/mii.ko kernel/lib/crc.ko\n",
		d + "modules.alias":           "alias pci:v00008086d00001229sv*sd*bc02sc00i* e100\n",
		d + "modules.builtin":         "kernel/drivers/pci/pcie/pcieportdrv.ko\n",
		d + "modules.builtin.modinfo": "",
		d + "modules.order":           "kernel/drivers/net/mii.ko\n",
		d + "kernel/keep":             "",
	}
}

// TempRoot is a directory of the test, in memory where that can be: every
// write of fitout's is synced, and a test makes thousands.
func TempRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fitout-host-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Merge joins files; later ones win.
func Merge(maps ...Files) Files {
	out := Files{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// Debian is a Debian 12 with dpkg and systemd.
func Debian() Files {
	return Files{
		"/etc/os-release":                                       "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"/var/lib/dpkg/status":                                  "",
		"/usr/bin/dpkg":                                         "",
		"/lib/systemd/systemd":                                  "",
		"/boot/vmlinuz-" + KernelA:                              "",
		"/etc/kernel/postinst.d/initramfs-tools":                "#!/bin/sh\n",
		"/etc/systemd/system/sysinit.target.wants/keep.service": "->../keep.service",
	}
}

// elementalMounts: /oem and the persistent partition are mounted, /etc is lost.
const elementalMounts = RootMount +
	"30 24 8:2 / /oem rw,relatime - ext4 /dev/sda2 rw\n" +
	"31 24 8:5 / /run/elemental/persistent rw,relatime - ext4 /dev/sda5 rw\n" +
	"32 24 0:40 / /etc rw,relatime - overlay overlay rw,lowerdir=/etc,upperdir=/run/elemental/overlay/etc/upper,workdir=/w\n" +
	"33 24 0:21 / /run rw,nosuid - tmpfs tmpfs rw\n"

// Elemental2 is a Rancher Elemental node with toolkit v2.
func Elemental2() Files {
	return Files{
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

// Harvester is a Harvester node, toolkit v1.1.
func Harvester() Files {
	return Files{
		"/etc/os-release":             "ID=sle-micro-rancher\nVARIANT=\"Harvester\"\nPRETTY_NAME=\"Harvester v1.6.0\"\n",
		"/etc/harvester-release.yaml": "harvester: v1.6.0\n",
		"/run/cos/active_mode":        "",
		"/proc/cmdline":               "cos-img/filename=/cOS/active.img rd.neednet=1\n",
		"/proc/self/mountinfo": RootMount +
			"30 24 8:2 / /oem rw,relatime - ext4 /dev/sda2 rw\n" +
			"31 24 8:5 /.state/var-lib-third-party.bind /var/lib/third-party rw - ext4 /dev/sda5 rw\n",
		"/oem/90_custom.yaml":       "name: Harvester\nstages:\n  rootfs:\n  - commands:\n    - echo hi\n",
		"/var/lib/third-party/keep": "",
		"/usr/lib/systemd/systemd":  "",
	}
}

// The checksums of the two deployments.
const (
	SumA = "1111111111111111111111111111111111111111111111111111111111111111"
	SumB = "2222222222222222222222222222222222222222222222222222222222222222"
)

// OSTree is booted from SumA; KernelB's deployment is on disk.
func OSTree(staged bool) Files {
	deploy := func(sum string) string { return "/sysroot/ostree/deploy/fcos/deploy/" + sum + ".0" }
	out := Merge(
		Kernel("/usr/lib/modules", KernelA),
		Kernel(deploy(SumA)+"/usr/lib/modules", KernelA),
		Kernel(deploy(SumB)+"/usr/lib/modules", KernelB),
		Files{
			"/etc/os-release":                    "ID=fedora\nVARIANT_ID=coreos\nPRETTY_NAME=\"Fedora CoreOS 43\"\n",
			"/run/ostree-booted":                 "",
			"/usr/bin/rpm-ostree":                "",
			"/usr/libexec/zincati":               "",
			"/usr/lib/systemd/systemd":           "",
			"/ostree":                            "->sysroot/ostree",
			"/sysroot/ostree/boot.1/fcos/aaaa/0": "->../../../deploy/fcos/deploy/" + SumA + ".0",
			"/proc/cmdline":                      "ostree=/ostree/boot.1/fcos/aaaa/0 rw\n",
			"/boot/loader/entries/ostree-1.conf": "title Fedora CoreOS\nversion 2\noptions ostree=/ostree/boot.1/fcos/aaaa/0 rw\n",
			deploy(SumA) + "/usr/lib/modules/" + KernelA + "/vmlinuz": "",
			deploy(SumB) + "/usr/lib/modules/" + KernelB + "/vmlinuz": "",
			deploy(SumB) + "/usr/lib/modules/6.99-orphan/leftover":    "",
			"/usr/lib/systemd/system/ostree-finalize-staged.service":  "[Service]\nExecStop=/usr/bin/ostree admin finalize-staged\n",
		})
	if staged {
		// A GVariant a{sv}, of which the names are here.
		out["/run/ostree/staged-deployment"] = "target\x00name\x00" + SumB + ".0\x00merge-deployment\x00name\x00" + SumA + ".0\x00"
	}
	return out
}
