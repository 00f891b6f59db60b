package node_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
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

// The disk this machine runs from: its mount is named, and this test as long as
// it has the disk open.
func TestUsersOfThisMachinesDisk(t *testing.T) {
	n := hostops.Live(nil)
	lines, err := node.Lifelines(n)
	require.NoError(t, err)
	for _, l := range lines {
		disk := regexp.MustCompile(`on (\w+) on ` + regexp.QuoteMeta(l.Address) + `$`).FindStringSubmatch(l.Path)
		if l.Kind != "root-disk" || disk == nil || !n.Exists("/dev/"+disk[1]) {
			continue
		}
		f, denied := os.Open("/dev/" + disk[1]) // some sandboxes forbid it to root
		uses, err := node.Users(n, l.Address, nil)
		require.NoError(t, err)
		if denied == nil {
			require.Contains(t, uses, node.Use{Kind: "process", PIDs: []int{os.Getpid()},
				Text: fmt.Sprintf("pid %d node.test has /dev/%s open", os.Getpid(), disk[1])})
			require.NoError(t, f.Close())
		}
		require.True(t, slices.ContainsFunc(uses, func(u node.Use) bool { return u.Kind == "mount" && strings.HasPrefix(u.Text, "/ is mounted") }))
	}
}
