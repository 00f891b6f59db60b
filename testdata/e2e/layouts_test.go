package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// An image of every layout that vendors use drives its device on one machine,
// one after the other, and leaves it again; those that cannot be used say why
// and what to do instead.
func TestEveryLayoutDrivesItsDevice(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	layouts, err := images.Layouts(stock)
	require.NoError(t, err)
	refused, err := images.RefusedLayouts(stock)
	require.NoError(t, err)
	registry, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	var entries []images.Entry
	for i, l := range layouts {
		img, err := l.Image()
		require.NoError(t, err)
		require.NoError(t, registry.Push(img, fmt.Sprintf("layouts/%d:1", i)))
		entries = append(entries, images.Entry{Name: fmt.Sprintf("layout-%d", i), Title: l.Name, Modules: []string{l.Driver},
			Reference: fmt.Sprintf("%s/layouts/%d:1", images.GuestHost, i), DirName: l.DirName, Firmware: l.Firmware})
	}
	for i, r := range refused {
		img, err := r.Image()
		require.NoError(t, err)
		require.NoError(t, registry.Push(img, fmt.Sprintf("refused/%d:1", i)))
	}
	files := registry.Files()
	files["/etc/fitout/catalog.d/layouts.yaml"] = images.Catalog(entries...)
	machine := start(t, vm.Config{
		Kernel: stock, RemoveModules: []string{"nvme"}, Devices: []string{"edu,addr=05.0", "nvme,serial=one,addr=06.0"},
		Registry: registry.Addr, Files: files,
	})
	slot := map[string]string{images.EduID: "05.0", nvmeID: "06.0"}

	for i, l := range layouts {
		t.Run(l.Name, func(t *testing.T) {
			n := machine.on(t)
			var doc struct {
				Layout string
				Notes  []string
			}
			n.json(&doc, fmt.Sprintf("fitout image inspect --json %s/layouts/%d:1", images.GuestHost, i))
			require.Equal(t, l.Recognised, doc.Layout)

			a := answer{id: l.Device, driver: fmt.Sprintf("layout-%d", i), when: "load-now"}
			if l.Other {
				out := n.apply(5, a)
				require.Contains(t, out, "kabi-match", "another release is a risk to be named")
				a.risks = "kabi-match"
			}
			n.apply(0, a)
			require.Equal(t, l.Driver, n.driver(slot[l.Device]))
			n.exits(0, fmt.Sprintf("fitout remove layout-%d --yes", i))
			require.Equal(t, "", n.driver(slot[l.Device]))
			require.False(t, n.loaded(l.Driver))
		})
	}
	t.Run("the layouts that are refused", func(t *testing.T) {
		n := machine.on(t)
		before := n.state()
		for i, r := range refused {
			code := 6
			if r.Says[0] == '3' {
				code = 4 // nothing is known of it, so nothing is forbidden
			}
			out := n.apply(code, answer{id: images.EduID, image: fmt.Sprintf("%s/refused/%d:1", images.GuestHost, i), when: "load-now"})
			flat := strings.Join(strings.Fields(out), " ")
			require.Contains(t, flat, r.Says, r.Name)
			require.Contains(t, flat, r.Cure, r.Name)
		}
		require.Equal(t, before, n.state())
	})
}
