package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// A kernel with a "+" in its release, which no image tag can have, and with
// modules that are .ko.xz files; beside it another kernel that may boot, for
// which the driver is kept as well.
func TestKernelReleaseWithPlusAndXZModules(t *testing.T) {
	t.Parallel()
	plus, stock := kernel(t, debian.Plus), kernel(t, debian.Stock)
	require.Contains(t, plus.Release, "+")
	registry, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	tag := strings.ReplaceAll(plus.Release, "+", "_")
	build(t, images.Spec{Kernels: []debian.Kernel{plus}, Modules: []string{"e1000e"}}).push(registry, "drivers/e1000e:"+tag)
	build(t, images.Spec{Kernels: []debian.Kernel{stock}, Modules: []string{"e1000e"}}).push(registry, "drivers/e1000e:"+stock.Release)

	files := registry.Files()
	files["/etc/fitout/catalog.d/test.yaml"] = images.Catalog(images.Entry{
		Name: "e1000e-image", Title: "Intel PRO/1000 PCIe", Modules: []string{"e1000e"}, Match: []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: images.GuestHost + "/drivers/e1000e:${KERNEL_FULL_VERSION}", Licence: "gpl",
	})
	n := start(t, vm.Config{
		Kernel: plus, AlsoInstalled: []debian.Kernel{stock}, RemoveModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=0a.0"},
		Registry: registry.Addr, Files: files,
	})
	n.apply(0, answer{id: e1000eID, driver: "e1000e-image", when: "load-now+persist", licence: "gpl"})
	require.Equal(t, "e1000e", n.driver("0a.0"))
	for _, k := range []debian.Kernel{plus, stock} {
		n.ok("ls /var/lib/fitout/tree/lib/modules/" + k.Release + "/updates/e1000e-image/")
	}
	n.ok("sync")

	require.NoError(t, n.Boot(stock))
	require.Equal(t, stock.Release, n.ok("uname -r"))
	require.Equal(t, "e1000e", n.driver("0a.0"))
	require.NoError(t, n.Boot(plus))
	require.Equal(t, "e1000e", n.driver("0a.0"))
}
