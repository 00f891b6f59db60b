package kmod_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/kmod"
)

const card = "0000:00:04.0"

// addDriver registers a PCI driver of a module.
func addDriver(t testing.TB, n *hostops.Node, driver, mod string) {
	t.Helper()
	put(t, n, "/sys/bus/pci/drivers/"+driver+"/bind", "")
	require.NoError(t, n.Symlink("../../../../module/"+mod, "/sys/bus/pci/drivers/"+driver+"/module"))
}

func bindTo(t testing.TB, n *hostops.Node, driver string) {
	t.Helper()
	require.NoError(t, n.Symlink("../../../bus/pci/drivers/"+driver, "/sys/devices/pci0000:00/"+card+"/driver"))
}

func TestUnboundDeviceIsGivenToTheDriverByName(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	addDriver(t, n, "ne2k-pci", "ne2k_pci")
	bind := &kmod.BindDevices{Addresses: []string{card}, Driver: "ne2k_pci"}
	out, err := run(t, n, bind)
	require.NoError(t, err)
	require.Equal(t, []string{card + " is bound to ne2k-pci"}, out.lines)
	override, err := n.ReadString("/sys/bus/pci/devices/" + card + "/driver_override")
	require.NoError(t, err)
	require.Empty(t, override, "the override is taken off again")
	undo(t, n, reread(t, bind))
	require.Empty(t, boundTo(n, card))
}

func TestDeviceOfAnotherDriverIsTakenOverAndGivenBack(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	addDriver(t, n, "ne2k-pci", "ne2k_pci")
	addDriver(t, n, "vfio-pci", "vfio_pci")
	bindTo(t, n, "vfio-pci")
	put(t, n, "/sys/bus/pci/devices/"+card+"/driver_override", "vfio-pci\n")
	bind := &kmod.BindDevices{Addresses: []string{card}, Driver: "ne2k_pci"}
	_, err := run(t, n, bind)
	require.NoError(t, err)
	require.Equal(t, "ne2k-pci", boundTo(n, card))
	undo(t, n, reread(t, bind))
	require.Equal(t, "vfio-pci", boundTo(n, card))
	override, err := n.ReadString("/sys/bus/pci/devices/" + card + "/driver_override")
	require.NoError(t, err)
	require.Equal(t, "vfio-pci", override)
}

func TestNoDeviceEndsWithoutADriverThatHadOne(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	addDriver(t, n, "old", "old")
	bindTo(t, n, "old")
	// The module is loaded, and no driver of it ever answers for the device.
	require.NoError(t, n.Symlink("../../../bus/pci/drivers/never", "/sys/module/newdrv/drivers/pci:never"))
	bind := &kmod.BindDevices{Addresses: []string{card}, Driver: "newdrv"}
	_, err := run(t, n, bind)
	require.ErrorContains(t, err, "the driver did not take it")
	require.Equal(t, "old", boundTo(n, card))
}

func TestModuleWithoutAPCIDriver(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	_, err := run(t, n, &kmod.BindDevices{Addresses: []string{card}, Driver: "mii"})
	require.ErrorContains(t, err, "registered no driver for PCI devices")
	require.Empty(t, boundTo(n, card))
}

func TestBindingAlreadyThereIsDone(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	addDriver(t, n, "ne2k-pci", "ne2k_pci")
	bindTo(t, n, "ne2k-pci")
	for _, name := range []string{"ne2k-pci", "ne2k_pci"} {
		done, err := (&kmod.BindDevices{Addresses: []string{card}, Driver: name}).Done(context.Background(), n)
		require.NoError(t, err)
		require.True(t, done)
	}
}

func TestUndoWaitsForTheStepThatUnloadedTheOldDriver(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, card, ne2kCard)
	addDriver(t, n, "ne2k-pci", "ne2k_pci")
	addDriver(t, n, "old", "old")
	bindTo(t, n, "old")
	bind := &kmod.BindDevices{Addresses: []string{card}, Driver: "ne2k-pci"}
	_, err := run(t, n, bind)
	require.NoError(t, err)
	require.NoError(t, n.RemoveAll("/sys/bus/pci/drivers/old"))
	out := undo(t, n, bind)
	require.Contains(t, out.text(), "until old is loaded again")
}

// A pipe that nobody reads holds its writer as a driver's code does that hangs.
func TestDriverThatHangsOverADeviceIsNamedAndNotWaitedForWithoutEnd(t *testing.T) {
	for _, file := range []string{"/sys/bus/pci/drivers_probe", "/sys/bus/pci/drivers/vfio-pci/unbind", "/sys/bus/pci/devices/" + card + "/driver_override"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			for _, addr := range []string{card, "0000:00:05.0"} {
				addDevice(t, n, addr, ne2kCard)
			}
			addDriver(t, n, "ne2k-pci", "ne2k_pci")
			addDriver(t, n, "vfio-pci", "vfio_pci")
			bindTo(t, n, "vfio-pci")
			bind := &kmod.BindDevices{Addresses: []string{card, "0000:00:05.0"}, Driver: "ne2k_pci", Limit: 2 * time.Second}
			require.NoError(t, bind.Prepare(t.Context(), n))
			require.NoError(t, n.Remove(file))
			require.NoError(t, unix.Mkfifo(n.Path(file), 0o600))
			err := bind.Do(t.Context(), n, &recorder{})
			var left interface{ Hung() bool }
			require.ErrorAs(t, err, &left)
			require.True(t, left.Hung())
			require.ErrorContains(t, err, "binding "+card+" to ne2k_pci: writing ")
			require.ErrorContains(t, err, file+" has not come back after 2s")
			require.NotContains(t, err.Error(), "0000:00:05.0", "nothing more is tried")
		})
	}
}

func TestMissingDeviceIsNamed(t *testing.T) {
	err := (&kmod.BindDevices{Addresses: []string{"0000:99:00.0"}, Driver: "x"}).Prepare(context.Background(), newNode(t))
	require.ErrorContains(t, err, "there is no such device")
}
