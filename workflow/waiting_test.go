package workflow_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/testdata/hosts"
	"fitout/workflow"
)

// oneKernel answers debugfs for an OS image that has the running kernel.
type oneKernel struct{}

func (oneKernel) Run(_ context.Context, argv ...string) ([]byte, error) {
	if strings.HasPrefix(argv[2], "ls -p ") {
		return []byte("/12/040755/0/0/" + hosts.KernelA + "//\n"), nil
	}
	return []byte("Inode: 13   Type: regular"), nil
}

func (oneKernel) Look(string) bool { return true }

// An upgrade's image waits for the next boot, and its hook put nothing into it.
func TestStatusAndCheckLookIntoTheImageThatWaits(t *testing.T) {
	const snapshots = "/run/initramfs/elemental-state/.snapshots"
	n := hostops.At(hosts.Write(t, hosts.Elemental2(), hosts.Files{
		"/sys/dev/block/259:1/loop/backing_file": "/.snapshots/1/snapshot.img\n",
		snapshots + "/1/snapshot.img":            "", snapshots + "/2/snapshot.img": "", snapshots + "/active": "->2/snapshot.img",
	}), nil)
	n.Exec = oneKernel{}
	require.NoError(t, n.MkdirAll("/sys/bus/pci/devices", 0o755))
	e := &workflow.Engine{Node: n, Catalog: &catalog.Catalog{}}
	kept := &host.Keep{State: e.StateDir(), Kept: host.Kept{Driver: host.Driver{Name: "e1000e"}, When: "persist"}}
	require.NoError(t, kept.Prepare(t.Context(), n))
	require.NoError(t, kept.Do(t.Context(), n, host.Quiet{}))

	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, st.Lacks, 1)
	require.Equal(t, "e1000e "+hosts.KernelA, st.Lacks[0].Driver+" "+st.Lacks[0].Kernel)
	require.Contains(t, strings.Join(st.Why, "; "), "that image LACKS e1000e")
	c, err := e.CheckKernel(t.Context(), "", "")
	require.NoError(t, err)
	require.Equal(t, st.Lacks, c.Lacks)
	require.False(t, c.OK)
}
