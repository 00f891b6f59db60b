package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/node"
)

// On the machine the test runs on: whatever is found is a PCI function that is
// there, with a way to it.
func TestLifelinesOfThisMachine(t *testing.T) {
	n := hostops.Live(nil)
	lines, err := node.Lifelines(n)
	require.NoError(t, err)
	for _, l := range lines {
		t.Log(l.Kind, l.Path)
		require.True(t, n.Exists("/sys/bus/pci/devices/"+l.Address), l.Path)
		require.Contains(t, l.Path, " on "+l.Address)
	}
}
