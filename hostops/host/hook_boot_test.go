package host

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// card is a device of e100's alias list, in a slot.
func card(driver string) map[string]string {
	dev := "/sys/bus/pci/devices/0000:03:00.0"
	out := map[string]string{dev + "/modalias": "pci:v00008086d00001229sv00008086sd00000000bc02sc00i00\n"}
	if driver != "" {
		out["/sys/bus/pci/drivers/"+driver+"/x"] = ""
		out[dev+"/driver"] = "->../../drivers/" + driver
	}
	return out
}

func boot(t *testing.T, n *hostops.Node) (*BootResult, error) {
	t.Helper()
	return HookBoot(context.Background(), n, Detect(n).Layout())
}

func TestBootLoadsWhatIsKeptAndSaysSo(t *testing.T) {
	for name, files := range everyKeeper() {
		t.Run(name, func(t *testing.T) {
			n, _, state, _ := gated(t, hosts.Merge(files, card("")))
			r, err := boot(t, n)
			require.NoError(t, err)
			require.Equal(t, []BootDriver{{Name: "intel-e100", State: "loaded"}}, r.Drivers)
			require.True(t, n.Exists("/sys/module/e100/initstate"))
			link, err := n.Readlink("/sys/bus/pci/devices/0000:03:00.0/driver")
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(link, "/e100"))
			again, err := boot(t, n)
			require.NoError(t, err)
			require.Equal(t, r.Drivers, again.Drivers)
			stored, err := ReadBoot(n, state)
			require.NoError(t, err)
			require.Equal(t, kernelA, stored.Kernel)
			require.False(t, n.Exists(motdPath))
		})
	}
}

// Whoever was unpacking something when the node went down cannot clear it away.
func TestBootSweepsWhatAKilledProcessWasUnpacking(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Merge(hosts.Debian(), hosts.Files{"/proc/sys/kernel/random/boot_id": "one"}))
	pending, working := path.Join(state, pendingDir, "lib/x.ko"), path.Join(WorkDir(state), "os-1/x.ko")
	leave := func() {
		for _, f := range []string{pending, working} {
			require.NoError(t, n.WriteFile(f, []byte("x"), 0o644))
		}
	}
	leave()
	_, err := boot(t, n)
	require.NoError(t, err)
	require.False(t, n.Exists(path.Join(state, pendingDir)))
	require.False(t, n.Exists(WorkDir(state)))

	leave() // the hook is run again, and somebody is at work
	_, err = boot(t, n)
	require.NoError(t, err)
	require.True(t, n.Exists(working))
}

func TestBootWithoutTheDeviceLoadsNothing(t *testing.T) {
	n, _, _, _ := gated(t, hosts.Debian())
	r, err := boot(t, n)
	require.NoError(t, err)
	require.Equal(t, "no-device", r.Drivers[0].State)
	require.False(t, n.Exists("/sys/module/e100"))
}

func TestUpgradePastTheGateIsNoticedAtTheNextBoot(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Merge(hosts.Debian(), hosts.Kernel("/lib/modules", kernelC), card("")))
	require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte(kernelC+"\n"), 0o644))
	r, err := boot(t, n)
	require.ErrorContains(t, err, kernelC)
	require.False(t, n.Exists(treeDir(state)+"/lib/modules/"+kernelC), "an index of nothing would outlive the removal")
	require.Equal(t, "no-build", r.Drivers[0].State)
	motd, err := n.ReadString(motdPath)
	require.NoError(t, err)
	require.Contains(t, motd, "intel-e100 is not in use on kernel "+kernelC)

	require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte(kernelA+"\n"), 0o644))
	_, err = boot(t, n)
	require.NoError(t, err)
	require.False(t, n.Exists(motdPath), "it clears itself")
}

func TestInTreeDriverThatWonInTheInitrdIsNamed(t *testing.T) {
	n, _, _, _ := gated(t, hosts.Merge(hosts.Debian(), card("nouveau")))
	r, err := boot(t, n)
	require.Error(t, err)
	require.Equal(t, "in-tree", r.Drivers[0].State)
	require.Contains(t, r.Drivers[0].Detail, "0000:03:00.0 is bound to nouveau")
}

func TestPassedThroughDeviceIsNobodysFault(t *testing.T) {
	n, _, _, _ := gated(t, hosts.Merge(hosts.Debian(), card("vfio-pci")))
	_, err := boot(t, n)
	require.NoError(t, err)
}

func TestRollbackOfEtcDoesNotRollBackTheGate(t *testing.T) {
	n, f, _, _ := gated(t, hosts.Debian())
	gate := "/etc/kernel/preinst.d/fitout"
	require.NoError(t, n.Remove(gate))
	require.NoError(t, n.Remove("/etc/modprobe.d/fitout-intel-e100.conf"))
	armed, _ := GateState(n, f.Facts())
	require.False(t, armed)
	r, err := boot(t, n)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{gate, "/etc/modprobe.d/fitout-intel-e100.conf"}, r.Restored)
	armed, _ = GateState(n, f.Facts())
	require.True(t, armed)
	st, err := n.Stat(gate)
	require.NoError(t, err)
	require.Equal(t, "-rwxr-xr-x", st.Mode().String())
}

func TestBootPutsModprobeFilesWhereEtcIsNotKept(t *testing.T) {
	n, _, _, _ := gated(t, hosts.Elemental2())
	require.False(t, n.Exists("/etc/modprobe.d/fitout-intel-e100.conf"))
	_, err := boot(t, n)
	require.NoError(t, err)
	require.True(t, n.Exists("/run/modprobe.d/fitout-intel-e100.conf"))
}

func TestIndexOfAKernelInstalledLaterIsMadeAnew(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	actions, err := f.Persist(e100(t, n, kernelA, kernelB), "auto") // kernelB is not installed
	require.NoError(t, err)
	apply(t, n, actions)
	dep := func() string {
		text, err := n.ReadString(f.Layout().releaseDir(kernelB) + "/modules.dep")
		require.NoError(t, err)
		return text
	}
	require.NotContains(t, dep(), "kernel/")
	for p, content := range hosts.Kernel("/lib/modules", kernelB) {
		require.NoError(t, n.WriteFile(p, []byte(content), 0o644))
	}
	require.NoError(t, HookKernelPostinst(context.Background(), n, f.Layout().State, kernelB))
	require.Contains(t, dep(), "kernel/lib/crc.ko")
	require.NoError(t, HookKernelPostinst(context.Background(), n, f.Layout().State, kernelC), "no driver has a build: nothing to do")
}
