package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/elemental"
	"fitout/testdata/hosts"
	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

// e1000eFunction is the card as an Elemental node's sysfs has it.
func e1000eFunction() hosts.Files {
	const dir = "/sys/bus/pci/devices/0000:00:05.0/"
	return hosts.Files{
		dir + "uevent": "PCI_CLASS=20000\nPCI_ID=8086:10D3\nPCI_SUBSYS_ID=8086:0000\nPCI_SLOT_NAME=0000:00:05.0\nMODALIAS=pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00\n",
		dir + "vendor": "0x8086\n", dir + "device": "0x10d3\n", dir + "class": "0x020000\n", dir + "revision": "0x00\n",
		dir + "subsystem_vendor": "0x8086\n", dir + "subsystem_device": "0x0000\n", dir + "driver_override": "(null)\n",
		dir + "modalias":                "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00\n",
		"/sys/bus/pci/drivers_probe":    "",
		"/proc/sys/kernel/hostname":     "node-1\n",
		"/sys/class/net/lo/operstate":   "unknown\n",
		"/sys/block/sda/dev":            "8:0\n",
		"/proc/swaps":                   "Filename\tType\tSize\tUsed\tPriority\n",
		"/sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
		"/proc/self/status":             "CapEff:\t000001ffffffffff\n",
	}
}

// withKernel makes a Debian kernel the one that the node runs: its indexes, its
// image, and those of its modules that tell what it exports.
func withKernel(t *testing.T, root string, k debian.Kernel) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/sys/kernel/osrelease"), []byte(k.Release+"\n"), 0o644))
	dir := filepath.Join(root, "lib/modules")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "boot"), 0o755))
	for _, args := range [][]string{
		{"cp", "-r", "--", k.Modules(), dir},
		{"cp", "--", k.Vmlinuz(), filepath.Join(root, "boot/vmlinuz-"+k.Release)},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	found, err := filepath.Glob(filepath.Join(dir, k.Release, "kernel/drivers/net/ethernet/intel/e1000e/*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, f := range found {
		require.NoError(t, os.Remove(f))
	}
	out, err := exec.Command("depmod", "-b", root, k.Release).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// On Elemental, of both toolkits, the answers file writes the upgrade hook, and
// an upgrade to an image with another kernel, whose stages the real executor
// runs, puts the driver and its index into that image.
func TestElementalUpgradeBringsTheDriver(t *testing.T) {
	stock := kernel(t, debian.Stock)
	older, err := debian.Older(1)
	require.NoError(t, err)
	layout := t.TempDir()
	build(t, images.Spec{Kernels: []debian.Kernel{older, stock}, Modules: []string{"e1000e"}, PerKernel: true}).layout(layout, "1")

	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			root := hosts.Write(t, form.Files, e1000eFunction())
			withKernel(t, root, older)
			file := filepath.Join(t.TempDir(), "answers.yaml")
			a := answer{id: e1000eID, image: "oci:" + layout + ":1", when: "load-now+persist", licence: "gpl"}
			require.NoError(t, os.WriteFile(file, []byte(a.file()), 0o600))

			out, err := exec.Command(fitout, "--root", root, "--answers-file", file).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.FileExists(t, filepath.Join(root, "oem/95_fitout_e1000e.yaml"), "%s", out)

			image := elemental.NewRoot(t, stock.Release)
			code, said := form.Upgrade(t, root, image, "after-upgrade-chroot", true)
			require.Zero(t, code, said)
			found, err := filepath.Glob(filepath.Join(image, "lib/modules", stock.Release, "updates/fitout/e1000e/e1000e.ko"))
			require.NoError(t, err)
			require.Len(t, found, 1, said)
			dep, err := os.ReadFile(filepath.Join(image, "lib/modules", stock.Release, "modules.dep"))
			require.NoError(t, err)
			require.Regexp(t, `updates/fitout/e1000e/e1000e\.ko:`, string(dep))
		})
	}
}
