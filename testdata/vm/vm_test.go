package vm_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// The machine is what the tests on it take for granted: one boot, many claims.
func TestMachine(t *testing.T) {
	t.Parallel()
	kernel, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "from the host") }))
	defer server.Close()
	stick := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(stick, "note"), []byte("on the stick"), 0o644))

	m := vm.Start(t, vm.Config{
		Kernel:        kernel,
		RemoveModules: []string{"e1000e", "nvme"},
		Devices:       []string{"e1000e,addr=05.0", "vmxnet3,addr=06.0", "nvme,addr=07.0,serial=one"},
		Files: map[string]string{
			"/etc/modules-load.d/test.conf": "dummy\n",
			"/etc/local.d/test.start":       "#!/bin/sh\necho started >/run/started\n",
		},
		Media:    map[string]string{"stick": stick},
		Registry: strings.TrimPrefix(server.URL, "http://"),
	})
	is := func(want, cmd string) {
		t.Helper()
		out, code := m.Run(cmd)
		require.Equal(t, 0, code, "%s: %s", cmd, out)
		require.Equal(t, want, strings.TrimSpace(out), cmd)
	}

	out, code := m.Run("uname -r; echo oops >&2; exit 7")
	require.Equal(t, kernel.Release+"\noops\n", out)
	require.Equal(t, 7, code)

	is("", "readlink /sys/bus/pci/devices/0000:00:05.0/driver || true")
	is("", "readlink /sys/bus/pci/devices/0000:00:07.0/driver || true")
	is("vmxnet3", "basename $(readlink /sys/bus/pci/devices/0000:00:06.0/driver)")
	is("", "modprobe -R $(cat /sys/bus/pci/devices/0000:00:05.0/modalias) 2>/dev/null || true")
	is("dummy", "lsmod | awk '$1 == \"dummy\" { print $1 }'")
	is("started", "cat /run/started")
	is("on the stick", "cat /media/stick/note")
	for range 2 {
		is("from the host", "wget -q -O - http://registry.local:5000/")
	}
	out, code = m.Run("touch /usr/lib/modules/x")
	require.NotEqual(t, 0, code)
	require.Contains(t, out, "Read-only file system")

	require.NoError(t, m.Console.WaitFor("machine#", time.Minute))
	require.NoError(t, m.Console.Type("echo $TERM-$((6 * 7))"+vm.Enter))
	require.NoError(t, m.Console.WaitFor("vt220-42", time.Minute))

	is("", "echo kept >/etc/kept; echo kept >/var/kept; echo kept >/root/kept")
	before, _ := m.Run("cat /proc/sys/kernel/random/boot_id")
	require.NoError(t, m.Reboot())
	after, _ := m.Run("cat /proc/sys/kernel/random/boot_id")
	require.NotEqual(t, before, after)
	is("kept\nkept\nkept", "cat /etc/kept /var/kept /root/kept")

	is("", "echo synced >/var/synced; sync /var/synced")
	require.NoError(t, m.Reset())
	is("synced", "cat /var/synced")
	require.NoError(t, m.PowerOff())
	t.Logf("boots: %v", m.Boots)
}

func TestMachineBootsTheOtherKernelThatIsInstalled(t *testing.T) {
	t.Parallel()
	stock, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	plus, err := debian.Newest(debian.Plus)
	require.NoError(t, err)
	m := vm.Start(t, vm.Config{Kernel: plus, AlsoInstalled: []debian.Kernel{stock}, RemoveModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=05.0"}})
	out, _ := m.Run("uname -r; cd /; LC_ALL=C ls -d boot/* lib/modules/*")
	require.Equal(t, []string{plus.Release,
		"boot/config-" + stock.Release, "boot/config-" + plus.Release, "boot/vmlinuz-" + stock.Release, "boot/vmlinuz-" + plus.Release,
		"lib/modules/" + stock.Release, "lib/modules/" + plus.Release}, strings.Fields(out))
	require.NoError(t, m.Boot(stock))
	out, _ = m.Run("uname -r")
	require.Equal(t, stock.Release+"\n", out)
	t.Logf("boots: %v", m.Boots)
}

func TestWaitForTellsWhatTheScreenShows(t *testing.T) {
	kernel, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	m, err := vm.New(vm.Config{Kernel: kernel})
	require.NoError(t, err)
	defer m.Close()
	err = m.Console.WaitFor("anything", 50*time.Millisecond)
	require.ErrorContains(t, err, `the screen did not show "anything" within 50ms`)
	require.ErrorContains(t, m.Console.Type("x"), "the machine is not started")
}

func TestFilesOfTheMachineLieOnThePersistentDisk(t *testing.T) {
	_, err := vm.New(vm.Config{Files: map[string]string{"/usr/lib/x": ""}})
	require.ErrorContains(t, err, "only /etc, /var and /root are on the persistent disk")
}
