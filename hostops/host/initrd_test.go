package host

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"fitout/testdata/hosts"
)

// cpio is a "newc" archive of empty files, with its trailer and padding.
func cpio(names ...string) []byte {
	var b bytes.Buffer
	for _, name := range append(names, "TRAILER!!!") {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 1, 0o100644, 0, 0, 1, 0, 0, 0, 0, 0, 0, len(name)+1, 0)
		b.WriteString(name + "\x00")
		for b.Len()%4 != 0 {
			b.WriteByte(0)
		}
	}
	for b.Len()%512 != 0 {
		b.WriteByte(0)
	}
	return b.Bytes()
}

func TestInTreeModuleInTheInitramfsIsFound(t *testing.T) {
	main := cpio("usr/lib/modules/"+kernelA+"/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz", "usr/lib/modules/x/snd-hda-intel.ko", "etc/modprobe.d/nouveau.conf")
	early := cpio("kernel/x86/microcode/GenuineIntel.bin")
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write(main)
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(&zs)
	require.NoError(t, err)
	_, _ = z.Write(main)
	require.NoError(t, z.Close())
	for name, content := range map[string][]byte{
		"plain": main, "microcode then gzip": slices.Concat(early, gz.Bytes()), "microcode then zstd": slices.Concat(early, zs.Bytes()),
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t, hosts.Debian(), map[string]string{"/boot/initrd.img-" + kernelA: string(content)})
			found, file, err := InInitrd(n, Kernel{Release: kernelA, OSRoot: "/", Dir: "/lib/modules/" + kernelA}, []string{"nouveau", "snd_hda_intel", "e100"})
			require.NoError(t, err)
			require.Equal(t, []string{"nouveau", "snd_hda_intel"}, found)
			require.Equal(t, "/boot/initrd.img-"+kernelA, file)
		})
	}
	n := node(t, hosts.Debian(), map[string]string{"/boot/initrd.img-" + kernelA: "\x02\x21\x4c\x18lz4"})
	_, _, err = InInitrd(n, Kernel{Release: kernelA, OSRoot: "/"}, []string{"nouveau"})
	require.ErrorIs(t, err, ErrPacking, "could not look is not nothing found")
	n = node(t, hosts.Debian(), map[string]string{"/boot/initrd.img-" + kernelA: string(main[:200])})
	_, _, err = InInitrd(n, Kernel{Release: kernelA, OSRoot: "/"}, []string{"nouveau"})
	require.ErrorContains(t, err, "cut short")
}

func TestInitramfsOfTheRealCpioProgramIsRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/lib/modules/k", 0o755))
	require.NoError(t, os.WriteFile(dir+"/lib/modules/k/e100.ko", bytes.Repeat([]byte("x"), 12345), 0o644))
	if _, err := exec.LookPath("cpio"); err != nil {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "img"), cpio("lib/modules/k/e100.ko"), 0o644))
	} else {
		out, err := exec.Command("sh", "-c", "cd "+dir+" && find lib | cpio -o -H newc > img").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	img, err := os.ReadFile(dir + "/img")
	require.NoError(t, err)
	n := node(t, hosts.Debian(), map[string]string{"/boot/initrd.img-k": string(img)})
	found, _, err := InInitrd(n, Kernel{Release: "k", OSRoot: "/"}, []string{"e100"})
	require.NoError(t, err)
	require.Equal(t, []string{"e100"}, found)
}

func TestBootTakesOverFromTheInTreeDriverWhereNothingRestsOnIt(t *testing.T) {
	loaded := map[string]string{"/sys/module/eepro100/initstate": "live\n", "/sys/module/eepro100/refcnt": "0\n",
		"/proc/modules": "eepro100 1 0 - Live 0x0\n"}
	dev := "/sys/bus/pci/devices/0000:03:00.0"
	for _, c := range []struct {
		name  string
		extra map[string]string
		state string
		says  string
	}{
		{"interface down", map[string]string{dev + "/net/eth0/flags": "0x1002\n"}, "loaded", "taken over from eepro100"},
		{"interface up", map[string]string{dev + "/net/eth0/flags": "0x1003\n"}, "in-tree", "its interface eth0 is up"},
		{"another card of the in-tree driver is a disk", hosts.Merge(card2("eepro100"), map[string]string{"/sys/bus/pci/devices/0000:04:00.0/modalias": "pci:v00001000d00000001sv00000000sd00000000bc01sc07i00\n"}), "in-tree", "storage controller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := node(t, hosts.Debian(), card("eepro100"), loaded, c.extra)
			f := family(t, n)
			d := e100(t, n, kernelA)
			d.Replaces = []string{"eepro100"}
			apply(t, n, mustPersist(t, f, d))
			r, _ := HookBoot(context.Background(), n, f.Layout())
			require.Equal(t, c.state, r.Drivers[0].State, r.Drivers[0].Detail)
			require.Contains(t, r.Drivers[0].Detail, c.says)
		})
	}
}

// card2 is a second card on the same driver.
func card2(driver string) map[string]string {
	dev := "/sys/bus/pci/devices/0000:04:00.0"
	return map[string]string{dev + "/driver": "->../../drivers/" + driver}
}

func TestInTreeBuildOfTheSameNameIsTold(t *testing.T) {
	n, f, _, _ := gated(t, hosts.Merge(hosts.Debian(), card("e100"), map[string]string{
		"/sys/module/e100/initstate": "live\n", "/sys/module/e100/refcnt": "0\n", "/sys/module/e100/notes/.note.gnu.build-id": "\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00in-tree-build-of-e100",
		"/proc/modules": "e100 1 0 - Live 0x0\n",
		"/sys/bus/pci/devices/0000:03:00.0/net/eth0/flags": "0x1003\n",
	}))
	r, err := HookBoot(context.Background(), n, f.Layout())
	require.Error(t, err)
	require.Equal(t, "in-tree", r.Drivers[0].State)
	require.NoError(t, n.WriteFile("/sys/bus/pci/devices/0000:03:00.0/net/eth0/flags", []byte("0x1002\n"), 0o644))
	r, err = HookBoot(context.Background(), n, f.Layout())
	require.NoError(t, err)
	require.Equal(t, "loaded", r.Drivers[0].State)
	require.False(t, n.Exists(motdPath))
}
