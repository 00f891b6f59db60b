package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// Taking a driver away disturbs a node's work as putting one in does.
func TestRemovalAndUnloadWeighMaintenance(t *testing.T) {
	e := engineOn(t)
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100")
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, _ := execute(t, e, p)
	require.Equal(t, 0, code)
	away := map[string]func(context.Context, string) (*plan.Plan, error){"remove": e.PlanRemove, "unload": e.PlanUnload}

	require.NoError(t, e.Node.MkdirAll("/var/lib/rancher/rke2/agent", 0o755))
	for name, lay := range away {
		t.Run(name+" on a cluster's node that nobody can ask about", func(t *testing.T) {
			used, err := lay(t.Context(), "e100")
			require.NoError(t, err)
			require.Equal(t, []string{"not-in-maintenance"}, used.Missing)
		})
	}
	t.Run("the commands to enter maintenance are said", func(t *testing.T) {
		a.Devices[0].Image.Reference = driverImage(t, nodes.Release, nodes.Release, "e100", "mii")
		again, err := e.Plan(t.Context(), a, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"not-in-maintenance"}, again.Missing)
		require.Contains(t, fmt.Sprint(again.Findings), "to enter it: kubectl cordon NODE")
	})
	require.NoError(t, e.Node.WriteFile("/proc/4711/cmdline", []byte("elemental\x00upgrade\x00"), 0o444))
	for name, lay := range away {
		t.Run(name+" while the system is being upgraded", func(t *testing.T) {
			_, err := lay(t.Context(), "e100")
			var stop *workflow.Error
			require.ErrorAs(t, err, &stop)
			require.Equal(t, []any{workflow.ExitForbidden, "upgrade-running"}, []any{stop.Exit, stop.Code})
		})
	}
}

// A guest has the card: the kernel waits until it lets go, so no accepted risk
// takes it away.
func TestCardOfARunningGuestIsNotTakenAway(t *testing.T) {
	e := engineOn(t)
	dev, err := e.Node.Readlink("/sys/bus/pci/devices/" + card.Address)
	require.NoError(t, err)
	dir := "/sys/bus/pci/devices/" + dev
	require.NoError(t, e.Node.MkdirAll("/sys/bus/pci/drivers/vfio-pci", 0o755))
	require.NoError(t, e.Node.MkdirAll("/sys/kernel/iommu_groups/7", 0o755))
	require.NoError(t, e.Node.Symlink("../../../bus/pci/drivers/vfio-pci", dir+"/driver"))
	require.NoError(t, e.Node.Symlink("../../../kernel/iommu_groups/7", dir+"/iommu_group"))
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100")

	left, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	require.Empty(t, left.Steps, "a card that is passed through is left alone: %v", left.Skipped)

	a.AcceptRisks = append(a.AcceptRisks, "passed-through", "in-use")
	_, err = e.Plan(t.Context(), a, nil)
	require.NoError(t, err, "nobody has it")

	require.NoError(t, e.Node.WriteFile("/proc/901/comm", []byte("qemu-system-x86\n"), 0o444))
	require.NoError(t, e.Node.WriteFile("/proc/901/maps", nil, 0o444))
	require.NoError(t, e.Node.Symlink("/dev/vfio/7", "/proc/901/fd/12"))
	_, err = e.Plan(t.Context(), a, nil)
	var stop *workflow.Error
	require.True(t, errors.As(err, &stop), "%v", err)
	require.Equal(t, workflow.ExitForbidden, stop.Exit)
	require.Contains(t, stop.Message, "pid 901 qemu-system-x86 has /dev/vfio/7 open")
}
