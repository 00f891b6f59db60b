package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/testdata/hosts"
	"fitout/workflow"
)

func TestTheFallbackIsNotCheckedInPlaceOfWhatBootsNext(t *testing.T) {
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	// The fallback's directory is the first by name.
	menu := []hosts.Deployment{
		{OSName: "os", Checksum: sum("9"), Staged: true, Kernel: "6.1.0-58-amd64"},
		{OSName: "os", Checksum: sum("5"), Booted: true, Kernel: hosts.KernelA},
		{OSName: "os", Checksum: sum("1"), Kernel: "6.1.0-40-amd64"},
	}
	for _, c := range []struct {
		menu []hosts.Deployment
		next string
	}{{menu, "6.1.0-58-amd64"}, {menu[1:], hosts.KernelA}} {
		n := hostops.At(hosts.Write(t, hosts.Sysroot(c.menu)), nil)
		require.NoError(t, n.MkdirAll("/sys/bus/pci/devices", 0o755))
		e := &workflow.Engine{Node: n, Catalog: &catalog.Catalog{}}
		checked, err := e.CheckKernel(t.Context(), "", "")
		require.NoError(t, err)
		require.Equal(t, c.next, checked.Kernel)
	}
}

func TestNextBootIsTheStagedKernelBeforeTheDefault(t *testing.T) {
	running := host.Kernel{Release: "1", Roles: []host.Role{host.Running}}
	byDefault := host.Kernel{Release: "2", Roles: []host.Role{host.Next}}
	staged := host.Kernel{Release: "3", Roles: []host.Role{host.Staged}}
	fallback := host.Kernel{Release: "4", Roles: []host.Role{host.Fallback}}
	require.Equal(t, staged, host.NextBoot([]host.Kernel{running, byDefault, staged, fallback}))
	require.Equal(t, byDefault, host.NextBoot([]host.Kernel{running, fallback, byDefault}))
	require.Equal(t, running, host.NextBoot([]host.Kernel{running, staged}, host.Blocked{GateResult: host.GateResult{Kernel: "3"}}), "it will not be final")
	require.Equal(t, running, host.NextBoot([]host.Kernel{running, fallback}))
}
