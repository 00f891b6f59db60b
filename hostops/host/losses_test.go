package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// bound is a card with the driver of the OS.
func bound(slot, modalias, driver, net string) map[string]string {
	dev := "/sys/bus/pci/devices/" + slot
	out := map[string]string{dev + "/modalias": modalias + "\n", "/sys/bus/pci/drivers/" + driver + "/x": "", dev + "/driver": "->../../drivers/" + driver}
	if net != "" {
		out[dev+"/net/"+net+"/x"] = ""
	}
	return out
}

func TestNextKernelThatDropsADriverTheNodeLivesOnIsStopped(t *testing.T) {
	qlcnic := "pci:v00001077d00008020sv00001077sd00000207bc02sc00i00"
	files := hosts.Merge(hosts.OSTree(true),
		bound("0000:01:00.0", qlcnic, "qlcnic", "mgmt-br"),
		bound("0000:02:00.0", "pci:v00008086d00001229sv00000000sd00000000bc02sc00i00", "e100", ""),
		bound("0000:00:1c.0", "pci:v00008086d0000A33Csv00000000sd00000000bc06sc04i00", "pcieport", ""),
		bound("0000:03:00.0", "pci:v000010DEd00001EB8sv00000000sd00000000bc03sc02i00", "vfio-pci", ""),
		map[string]string{"/usr/lib/modules/" + kernelA + "/modules.alias": "alias pci:v00001077d00008020sv*sd*bc*sc*i* qlcnic\nalias pci:v00008086d00001229sv*sd*bc02sc00i* e100\n"})
	n := node(t, files)
	k := stagedKernel(n)
	require.NotNil(t, k)
	got := Losses(n, *k, nil)
	require.Equal(t, []Miss{{Driver: "qlcnic", Devices: []string{"0000:01:00.0"},
		Reason: "the device is bound to it now, and no module of " + kernelB + " drives it; it carries mgmt-br"}}, got)

	// Nothing of fitout's is persisted, and the gate refuses all the same.
	err := HookOstreeFinalize(context.Background(), n, ordinaryState, GateOptions{})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "mgmt-br")

	kept := []Kept{{Driver: Driver{Name: "q", Builds: map[string]Build{kernelB: {}}, Aliases: map[string][]string{"qlcnic": {"pci:v00001077d00008020sv*sd*bc*sc*i*"}}}}}
	require.Empty(t, Losses(n, *k, kept), "a kept driver takes it over")
	require.Empty(t, Losses(n, Kernel{Release: "6.9"}, nil), "a kernel that is not unpacked says nothing")
}

func TestBuiltInDriverOfTheNextKernelIsNoLoss(t *testing.T) {
	alias := "pci:v00001B36d00000010sv*sd*bc01sc08i02*"
	n := node(t, hosts.OSTree(true), bound("0000:01:00.0", "pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", "nvme", ""),
		map[string]string{"/usr/lib/modules/" + kernelA + "/modules.alias": "alias " + alias + " nvme\n"})
	k := stagedKernel(n)
	require.Len(t, Losses(n, *k, nil), 1)
	require.NoError(t, n.WriteFile(k.Dir+"/modules.builtin.modinfo", []byte("nvme.alias="+alias+"\x00nvme.license=GPL\x00"), 0o644))
	require.Empty(t, Losses(n, *k, nil))
}

func TestStrictIsFoundWhereItReaches(t *testing.T) {
	strictRelease := map[string]string{"/etc/os-release": "ID=x\nVARIANT=\"Harvester\"\nSTRICT=true\n"}
	config := map[string]string{"/etc/elemental/config.d/a.yaml": "strict: true\n"}
	for name, c := range map[string]struct {
		files []map[string]string
		want  string
	}{
		"v2 by config.d":                       {[]map[string]string{hosts.Elemental2(), config}, "config.d/a.yaml"},
		"v2 by default":                        {[]map[string]string{hosts.Elemental2()}, ""},
		"harvester ignores /etc/elemental":     {[]map[string]string{hosts.Harvester(), config}, ""},
		"harvester by os-release":              {[]map[string]string{hosts.Harvester(), strictRelease}, "STRICT=true"},
		"v2, a configuration that is not YAML": {[]map[string]string{hosts.Elemental2(), {"/etc/elemental/config.yaml": "{"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := Detect(node(t, c.files...)).Facts()
			last := f.Evidence[len(f.Evidence)-1]
			if c.want == "" {
				require.NotContains(t, last, "hook failures stop")
				return
			}
			require.Contains(t, last, c.want)
			require.Equal(t, BlocksFinalize, f.Gate)
		})
	}
}

// TestPassiveImageIsReadWithoutMounting makes a real ext4 image and reads its
// kernels with the machine's own debugfs.
func TestPassiveImageIsReadWithoutMounting(t *testing.T) {
	dir := t.TempDir()
	tree := dir + "/tree/usr/lib/modules/"
	require.NoError(t, os.MkdirAll(tree+"6.4.0-36-default", 0o755))
	require.NoError(t, os.MkdirAll(tree+"6.9-orphan", 0o755))
	require.NoError(t, os.WriteFile(tree+"6.4.0-36-default/modules.dep", []byte("kernel/a.ko:\n"), 0o644))
	img := filepath.Join(dir, "passive.img")
	out, err := exec.Command("/usr/sbin/mkfs.ext4", "-q", "-d", dir+"/tree", img, "8M").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, []string{"6.4.0-36-default"}, imageKernels(context.Background(), hostops.Live(nil), img))
}
