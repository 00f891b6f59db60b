package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// Seen where the runner was killed before the file was put in place.
func TestUndoSweepsAwayAFileThatNeverCameToItsPlace(t *testing.T) {
	n := node(t, hosts.Debian())
	a := &WriteFiles{Files: []TextFile{{Path: "/etc/modprobe.d/fitout-d.conf", Content: "options d x=1\n", Mode: 0o644}}}
	require.NoError(t, a.Prepare(t.Context(), n))
	const left = "/etc/modprobe.d/.fitout-fitout-d.conf.tmp"
	require.NoError(t, n.WriteFile(left, []byte("options"), 0o600))
	undo(t, n, []hostops.Action{a})
	require.False(t, n.Exists(left))
}
