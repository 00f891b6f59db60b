package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// A node with no network at all: the driver comes on a stick.
func TestAirGappedNode(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	stick := t.TempDir()
	kernels := []debian.Kernel{stock}
	build(t, images.Spec{Kernels: kernels, Modules: []string{"nvme", "nvme_core"}}).archive(filepath.Join(stick, "nvme.tar"), "both")
	build(t, images.Spec{Kernels: kernels, Modules: []string{"nvme"}, Licence: "none"}).archive(filepath.Join(stick, "alone.tar"), "alone")
	build(t, images.Spec{Kernels: kernels, Modules: []string{"e1000e"}, Dir: images.UsrLib}).layout(filepath.Join(stick, "layout"), "one")

	n := start(t, vm.Config{
		Kernel:        stock,
		RemoveModules: []string{"e1000e", "nvme", "nvme_core"},
		Devices:       []string{"e1000e,addr=05.0", "nvme,serial=one,addr=06.0"},
		Media:         map[string]string{"stick": stick},
	})

	t.Run("a dependency that is nowhere is refused by name", func(t *testing.T) {
		n := n.on(t)
		before := n.state()
		out := n.apply(6, answer{id: nvmeID, image: "oci-archive:/media/stick/alone.tar:alone", when: "load-now"})
		require.Contains(t, out, "nvme_core")
		require.Equal(t, before, n.state())
	})
	t.Run("a dependency that only the image has is loaded from it", func(t *testing.T) {
		n := n.on(t)
		require.Equal(t, "", n.driver("06.0"))
		n.apply(0, answer{id: nvmeID, image: "oci-archive:/media/stick/nvme.tar:both", when: "load-now", licence: "nvme"})
		require.Equal(t, "nvme", n.driver("06.0"))
		require.True(t, n.loaded("nvme_core"))
	})
	t.Run("an OCI layout on a disk serves", func(t *testing.T) {
		n := n.on(t)
		n.apply(0, answer{id: e1000eID, image: "oci:/media/stick/layout:one", when: "load-now", licence: "e1000e"})
		require.Equal(t, "e1000e", n.driver("05.0"))
	})
}
