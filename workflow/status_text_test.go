package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops/host"
	"fitout/workflow"
)

func TestStatusSaysWhatTheNextImageLacksAndWhichHookFailed(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	text := strings.Join((&workflow.Status{
		Lacks: []host.Lack{
			{Driver: "e1000e", Kernel: "6.12.1", Reason: "no build for it was kept"},
			{Driver: "ixgbe", Kernel: "6.12.1", Reason: "not in the image", Kept: true},
		},
		Upgrades: []host.UpgradeResult{{Driver: "igb", Stage: "after-upgrade-chroot", At: at, Error: "the new root has no kernel modules below /lib/modules"}},
	}).Text(), "\n")
	require.Contains(t, text, "THE NEW OS IMAGE LACKS e1000e for kernel 6.12.1: do not reboot")
	require.NotContains(t, text, "LACKS ixgbe")
	require.Contains(t, text, "the new OS image lacks ixgbe for kernel 6.12.1 (not in the image); it will be loaded at boot")
	require.Contains(t, text, "The upgrade hook of igb failed (after-upgrade-chroot, 2026-11-30 12:00): the new root has no kernel modules")
}

func TestStatusSaysWhatTheBootCheckFoundAndWhatIsStillSo(t *testing.T) {
	st := &workflow.Status{
		Boot: &host.BootResult{Kernel: "6.12.1", Damaged: "x.json cannot be read", Drivers: []host.BootDriver{
			{Name: "igb", State: "failed", Detail: "exec format error"}, {Name: "e1000e", State: "no-build"}, {Name: "ixgbe", State: "no-device"}}},
		Drivers: []workflow.DriverStatus{{Name: "igb"}, {Name: "e1000e", Loaded: true}, {Name: "ixgbe"}},
	}
	text := strings.Join(st.Text(), "\n")
	require.Contains(t, text, "AT BOOT: x.json cannot be read")
	require.Contains(t, text, "AT BOOT: igb is not in use on kernel 6.12.1: exec format error")
	require.NotContains(t, text, "e1000e is not in use", "it was loaded since")
	require.NotContains(t, text, "ixgbe is not in use", "its device is not there")
}
