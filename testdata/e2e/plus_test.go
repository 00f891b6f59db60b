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
// modules that are .ko.xz files.
func TestKernelReleaseWithPlusAndXZModules(t *testing.T) {
	plus := kernel(t, debian.Plus)
	require.Contains(t, plus.Release, "+")
	registry, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	tag := strings.ReplaceAll(plus.Release, "+", "_")
	build(t, images.Spec{Kernels: []debian.Kernel{plus}, Modules: []string{"e1000e"}}).push(registry, "drivers/e1000e:"+tag)

	files := registry.Files()
	files["/etc/fitout/catalog.d/test.yaml"] = images.Catalog(images.Entry{
		Name: "e1000e-image", Title: "Intel PRO/1000 PCIe", Modules: []string{"e1000e"}, Match: []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: images.GuestHost + "/drivers/e1000e:${KERNEL_FULL_VERSION}", Licence: "gpl",
	})
	n := start(t, vm.Config{
		Kernel: plus, RemoveModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=0a.0"},
		Registry: registry.Addr, Files: files,
	})
	n.apply(0, answer{id: e1000eID, driver: "e1000e-image", when: "load-now+persist", licence: "gpl"})
	require.Equal(t, "e1000e", n.driver("0a.0"))
	n.ok("ls /var/lib/fitout/tree/lib/modules/" + plus.Release + "/updates/e1000e-image/")

	require.NoError(t, n.Reboot())
	require.Equal(t, "e1000e", n.driver("0a.0"))
}
