package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// The machine is what the tests on it take for granted.
func TestMachine(t *testing.T) {
	kernel, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	m := vm.Start(t, vm.Config{
		Kernel:        kernel,
		RemoveModules: []string{"e1000e"},
		Devices:       []string{"e1000e,addr=05.0", "vmxnet3,addr=06.0", "edu,addr=07.0"},
		Files:         map[string]string{"/etc/modules-load.d/test.conf": "dummy\n"},
	})
	out, code := m.Run("uname -r; echo oops >&2; exit 7")
	require.Equal(t, kernel.Release+"\noops\n", out)
	require.Equal(t, 7, code)
	require.NoError(t, m.Console.WaitFor("machine#", time.Minute))
	out, _ = m.Run("lsmod; dmesg; for d in /sys/bus/pci/devices/*; do echo $d $(cat $d/vendor $d/device) $(readlink $d/driver); done; mount; uptime; cat /run/modaliases | wc")
	t.Log(out)
}
