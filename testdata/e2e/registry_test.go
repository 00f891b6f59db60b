package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// catalog is what the machines of this file have in /etc/fitout/catalog.d.
func catalog() string {
	return images.Catalog(images.Entry{
		Name: "e1000e-image", Title: "Intel PRO/1000 PCIe, out of tree", Modules: []string{"e1000e"},
		Match:     []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: images.GuestHost + "/drivers/e1000e:3.8.7", Licence: "gpl",
	}, images.Entry{
		// pcc_cpufreq is loaded last, and finds on no such machine what it is for.
		Name: "half", Title: "A driver whose second module does not start here", Modules: []string{"pcc_cpufreq", "e1000e"},
		Match:     []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: images.GuestHost + "/drivers/half:1",
	})
}

// fill pushes the images.
func fill(t *testing.T, registry *images.Registry) {
	t.Helper()
	stock := kernel(t, debian.Stock)
	kernels := []debian.Kernel{stock}
	build(t, images.Spec{
		Kernels: []debian.Kernel{stock, kernel(t, debian.Plus)}, Modules: []string{"e1000e"}, PerKernel: true,
	}).push(registry, "drivers/e1000e:3.8.7")
	build(t, images.Spec{Kernels: kernels, Modules: []string{"nvme"}, Dir: images.Plain}).push(registry, "drivers/nvme:alone")
	mislabelled(t, stock, kernel(t, debian.RT), "e1000e").push(registry, "drivers/e1000e:rt")
	mislabelled(t, stock, kernel(t, debian.Cloud), "vmxnet3").push(registry, "drivers/vmxnet3:cloud")
	build(t, images.Spec{Kernels: kernels, Modules: []string{"e1000e", "pcc_cpufreq"}, Licence: "none"}).push(registry, "drivers/half:1")
}

// One machine for the wizard and all that comes before and after; what it wrote
// is then used on a second one.
func TestWizardThenTheSameAnswersElsewhere(t *testing.T) {
	t.Parallel()
	registry, err := images.ServeDebian(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	fill(t, registry)
	files := registry.Files()
	files["/etc/fitout/catalog.d/test.yaml"] = catalog()
	first := start(t, vm.Config{
		Kernel: kernel(t, debian.Stock), RemoveModules: []string{"e1000e", "nvme", "vmxnet3"},
		Devices:  []string{"e1000e,addr=05.0", "vmxnet3,addr=07.0"},
		Registry: registry.Addr, Files: files,
	})

	t.Run("modules of a preempt_rt kernel are refused by vermagic", func(t *testing.T) {
		n := first.on(t)
		before := n.state()
		out := n.apply(6, answer{id: e1000eID, image: images.GuestHost + "/drivers/e1000e:rt", when: "load-now"})
		require.Contains(t, out, "preempt_rt")
		require.Equal(t, before, n.state())
	})
	t.Run("modules of a cloud kernel are refused by a symbol's version", func(t *testing.T) {
		n := first.on(t)
		before := n.state()
		out := n.apply(6, answer{id: vmxnet3ID, image: images.GuestHost + "/drivers/vmxnet3:cloud", when: "load-now"})
		require.Contains(t, out, "module_layout")
		require.Equal(t, before, n.state())
	})
	t.Run("a load that fails half way is undone", func(t *testing.T) {
		n := first.on(t)
		before := n.state()
		out := n.apply(7, answer{id: e1000eID, driver: "half", when: "load-now"})
		require.Contains(t, out, "pcc_cpufreq")
		require.False(t, n.loaded("e1000e"))
		require.Equal(t, "", n.driver("05.0"))
		require.Equal(t, before, n.state())
		require.Equal(t, "", n.ok("find /run/fitout -type f -path '*tree*' 2>/dev/null || true"))
	})

	var saved string
	t.Run("the wizard loads and keeps the driver", func(t *testing.T) { saved = walkWizard(first.on(t)) })
	if saved == "" {
		t.Fatal("the wizard left no answers file; what follows needs it")
	}
	t.Run("after a reboot the card is bound without fitout", func(t *testing.T) {
		n := first.on(t)
		require.NoError(t, n.Reboot())
		require.Equal(t, "e1000e", n.driver("05.0"))
		st := n.status()
		require.Len(t, st.Drivers, 1)
		require.True(t, st.Drivers[0].Loaded)
		require.Empty(t, st.Drivers[0].Drift)
		require.False(t, st.RebootNeeded)
	})
	t.Run("remove takes all of it away", func(t *testing.T) {
		n := first.on(t)
		n.exits(0, "fitout remove e1000e-image --yes")
		require.Equal(t, "", n.driver("05.0"))
		require.False(t, n.loaded("e1000e"))
		require.Equal(t, "", n.ok("ls /etc/modprobe.d; find /var/lib/fitout/tree /var/lib/fitout/bin -type f 2>/dev/null || true"))
		require.Empty(t, n.status().Drivers)
		require.NoError(t, n.Reboot())
		require.Equal(t, "", n.driver("05.0"))
	})
	require.NoError(t, first.PowerOff())

	second := start(t, vm.Config{
		Kernel: kernel(t, debian.Stock), RemoveModules: []string{"e1000e", "nvme", "vmxnet3"},
		Devices:  []string{"e1000e,addr=0b.0", "nvme,serial=two,addr=05.0"},
		Registry: registry.Addr, Files: files,
	})
	t.Run("the saved answers do the same with the card in another slot", func(t *testing.T) {
		n := second.on(t)
		n.write("/root/saved.yaml", saved)
		began := time.Now()
		n.exits(0, "fitout --answers-file /root/saved.yaml")
		t.Logf("answers file to bound card: %.1f s", time.Since(began).Seconds())
		require.Equal(t, "e1000e", n.driver("0b.0"))
		require.Equal(t, "", n.driver("05.0"), "the second card was not asked for")
		out := n.exits(0, "fitout --answers-file /root/saved.yaml")
		require.Contains(t, out, "Nothing to do")
	})
	t.Run("a dependency that only the host has is loaded from it", func(t *testing.T) {
		n := second.on(t)
		require.False(t, n.loaded("nvme_core"))
		n.apply(0, answer{id: nvmeID, image: images.GuestHost + "/drivers/nvme:alone", when: "load-now", licence: "nvme"})
		require.Equal(t, "nvme", n.driver("05.0"))
		require.True(t, n.loaded("nvme_core"))
	})
}

// status is what the tests read of fitout status --json.
type status struct {
	Drivers []struct {
		Name         string
		Loaded       bool
		Drift        []string
		RebootNeeded bool
	}
	RebootNeeded bool
}

func (n node) status() (st status) {
	n.t.Helper()
	n.json(&st, "fitout status --json")
	return st
}
