package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
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
