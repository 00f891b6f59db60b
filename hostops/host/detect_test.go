package host

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/hosts"
)

func TestEveryFamilyIsToldByItsMarks(t *testing.T) {
	mounts := func(lines string) map[string]string { return map[string]string{"/proc/self/mountinfo": lines} }
	for _, c := range []struct {
		name, family string
		files        map[string]string
		refused      string // part of the refusal
		sideTree     bool
		gate         Strength
	}{
		{"debian", "debian", hosts.Debian(), "", true, BlocksInstall},
		{"elemental v2 also makes v1's mode file", "elemental-v2", hosts.Elemental2(), "", true, Advisory},
		{"elemental v1", "elemental-v1", map[string]string{"/run/cos/active_mode": "", "/run/cos/cos-layout.env": ""}, "", true, Advisory},
		{"harvester", "harvester", hosts.Harvester(), "", true, BlocksFinalize},
		{"live image of v2", "elemental-v2", map[string]string{"/run/elemental/live_mode": ""}, "live system", false, NoGate},
		{"recovery of v1", "elemental-v1", map[string]string{"/run/cos/recovery_mode": ""}, "recovery system", false, NoGate},
		{"live by the command line", "elemental-v2", map[string]string{"/proc/cmdline": "elemental.disable cdroot"}, "live system", false, NoGate},
		{"ostree", "ostree", hosts.OSTree(false), "", true, BlocksFinalize},
		{"rhcos is owned by its operator", "ostree", hosts.Merge(hosts.OSTree(false), map[string]string{"/etc/os-release": "ID=rhcos\n"}), "", true, Advisory},
		{"talos", "talos", map[string]string{"/etc/os-release": "ID=talos\n"}, "talosctl upgrade", false, NoGate},
		{"ubuntu core has dpkg's marks too", "ubuntu-core", hosts.Merge(hosts.Debian(), map[string]string{"/etc/os-release": "ID=ubuntu-core\n"}), "snap install", false, NoGate},
		{"flatcar", "flatcar", map[string]string{"/etc/os-release": "ID=flatcar\n"}, "", true, NoGate},
		{"microos", "transactional", hosts.Merge(map[string]string{"/usr/sbin/tukit": "", "/etc/os-release": "ID=opensuse-microos\n"},
			mounts("24 1 0:30 /@/.snapshots/5/snapshot / ro - btrfs /dev/sda2 ro\n")), "", true, NoGate},
		{"tumbleweed has tukit and no snapshot root", "rpm", map[string]string{"/usr/sbin/tukit": "", "/etc/os-release": "ID=opensuse-tumbleweed\n", "/usr/bin/rpm": "", "/usr/lib/sysimage/rpm/x": ""}, "", true, NoGate},
		{"sysext", "sysext", hosts.Merge(map[string]string{"/usr/bin/systemd-sysext": ""}, mounts(hosts.RootMount+"25 24 8:3 / /usr ro - ext4 /dev/sda3 ro\n")), "", true, NoGate},
		{"unknown, everything kept", "generic", map[string]string{"/etc/os-release": "ID=buildroot\n"}, "", true, NoGate},
		{"unknown, in memory", "generic", mounts("1 1 0:2 / / rw - rootfs rootfs rw\n"), "", false, NoGate},
		{"unknown, squashfs with kept overlays", "generic", mounts("24 1 7:0 / / ro - squashfs /dev/vda ro\n25 24 8:1 / /keep rw - ext4 /dev/vdb rw\n" +
			"26 24 0:9 / /etc rw - overlay o rw,lowerdir=/etc,upperdir=/keep/etc,workdir=/keep/w\n27 24 8:1 /var /var rw - ext4 /dev/vdb rw\n"), "", true, NoGate},
		{"unknown, overlays on tmpfs", "generic", mounts("24 1 7:0 / / ro - squashfs /dev/vda ro\n25 24 0:9 / /run rw - tmpfs t rw\n" +
			"26 24 0:9 / /etc rw - overlay o rw,lowerdir=/etc,upperdir=/run/o/etc,workdir=/run/w\n27 24 8:1 /var /var rw - ext4 /dev/vdb rw\n"), "", false, NoGate},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := node(t, c.files)
			f := Detect(n).Facts()
			require.Equal(t, c.family, f.Family)
			require.NotEmpty(t, f.Evidence)
			require.Equal(t, c.sideTree, f.SideTree)
			require.Equal(t, c.gate, f.Gate)
			if c.refused == "" {
				require.Empty(t, f.Refusal)
				require.True(t, f.LoadNow)
			} else {
				require.Contains(t, f.Refusal, c.refused)
				require.False(t, f.LoadNow)
			}
			for way := range f.Price {
				require.NotEmpty(t, f.Price[way], way)
			}
		})
	}
}

func TestARefusedFamilyGivesNoActions(t *testing.T) {
	n := node(t, map[string]string{"/etc/os-release": "ID=talos\n"})
	_, err := Detect(n).Persist(dummy(t, n, "dummy", kernelA), "auto")
	var no *Unsupported
	require.ErrorAs(t, err, &no)
	require.Contains(t, err.Error(), "talosctl")
}

func TestAHostThatKeepsNothingSaysWhy(t *testing.T) {
	n := node(t, map[string]string{"/proc/self/mountinfo": "1 1 0:2 / / rw - rootfs rootfs rw\n"})
	f := Detect(n)
	_, err := f.AtBoot(dummy(t, n, "dummy", kernelA))
	require.ErrorContains(t, err, "lost at every reboot")
	require.True(t, f.Facts().LoadNow)
}

func TestPriceSaysWhetherAnUpgradeIsStopped(t *testing.T) {
	for files, want := range map[*map[string]string]string{
		ptr(hosts.Elemental2()): "ignores hook failures unless strict",
		ptr(hosts.Harvester()):  "held before it begins",
		ptr(hosts.Debian()):     "refused before it is unpacked",
		ptr(map[string]string{"/etc/os-release": "ID=flatcar\n"}): "oem-postinst",
	} {
		f := Detect(node(t, *files)).Facts()
		require.Contains(t, strings.Join(f.Price["side-tree"], "\n"), want)
	}
}

func ptr[T any](v T) *T { return &v }

func TestOrphanDirectoriesAreNoKernels(t *testing.T) {
	n := node(t, hosts.Debian(), hosts.Kernel("/lib/modules", kernelB), map[string]string{
		"/boot/vmlinuz-" + kernelB:                   "",
		"/lib/modules/6.1.0-99-amd64/.fresh-install": "", // what a refused package leaves
		"/boot/vmlinuz-6.1.0-98-amd64":               "", // an image without modules
	})
	got, err := Detect(n).Kernels(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Kernel{
		{Release: kernelA, OSRoot: "/", Dir: "/lib/modules/" + kernelA, Roles: []Role{Running, Next}},
		{Release: kernelB, OSRoot: "/", Dir: "/lib/modules/" + kernelB, Roles: []Role{Fallback}},
	}, got)
}

func TestTheInstalledNewerKernelIsNextNotTheRunning(t *testing.T) {
	n := node(t, hosts.Debian(), hosts.Kernel("/lib/modules", "6.1.0-100-amd64"), map[string]string{"/boot/vmlinuz-6.1.0-100-amd64": ""})
	got, err := Detect(n).Kernels(context.Background())
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []Role{Running, Fallback}, got[0].Roles)
	require.Equal(t, "6.1.0-100-amd64", got[1].Release)
	require.Equal(t, []Role{Next}, got[1].Roles)
}

func TestRunningKernelIsListedThoughItsModulesAreGone(t *testing.T) {
	n := node(t, hosts.Debian())
	require.NoError(t, n.RemoveAll("/lib/modules/"+kernelA))
	got, err := Detect(n).Kernels(context.Background())
	require.NoError(t, err)
	require.Equal(t, kernelA, got[0].Release)
	require.False(t, n.Exists(got[0].Dir))
}

func TestStagedDeploymentIsReadBeforeItIsFinal(t *testing.T) {
	n := node(t, hosts.OSTree(true))
	got, err := Detect(n).Kernels(context.Background())
	require.NoError(t, err)
	require.Len(t, got, 2, "the orphan directory is no kernel")
	require.Equal(t, []Role{Running}, got[0].Roles)
	require.Equal(t, kernelB, got[1].Release)
	require.Equal(t, []Role{Staged}, got[1].Roles)
	require.Equal(t, "/ostree/deploy/fcos/deploy/"+hosts.SumB+".0", sysrootless(got[1].OSRoot))

	n = node(t, hosts.OSTree(false))
	got, err = Detect(n).Kernels(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Role{Running, Next}, got[0].Roles)
	require.Equal(t, []Role{Fallback}, got[1].Roles)
}

// sysrootless undoes what the recorded node's link /ostree -> sysroot/ostree
// does to a glob.
func sysrootless(p string) string { return strings.TrimPrefix(p, "/sysroot") }

func TestReleasesAreOrderedAsTheBootLoaderDoes(t *testing.T) {
	ordered := []string{"5.10.0-9", "6.1.0-9-amd64", "6.1.0-57-amd64", "6.1.0-100-amd64", "6.2.0-rc1", "6.2.0", "6.12.117+deb12-amd64"}
	for i := range ordered {
		for j := range ordered {
			got := CompareReleases(ordered[i], ordered[j])
			require.Equal(t, sign(i-j), sign(got), "%s and %s", ordered[i], ordered[j])
		}
	}
}

func sign(i int) int {
	switch {
	case i < 0:
		return -1
	case i > 0:
		return 1
	}
	return 0
}
