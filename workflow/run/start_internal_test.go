package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// systemd.exec(5): in double quotes, a backslash takes the meaning from ", \,
// ` and $; a line is an assignment.
func TestEnvironmentGoesToTheUnitByAFileAndUnchanged(t *testing.T) {
	got := string(environment([]string{
		`HTTPS_PROXY=http://user:p"a\ss$1` + "`@proxy:3128", "HOME=/root", "=C:=odd", "NOT AN ASSIGNMENT",
		"TWO=lines\nEVIL=1", "INVOCATION_ID=1", "SYSTEMD_EXEC_PID=2", "NOTIFY_SOCKET=/run/x"}))
	require.Equal(t, `HTTPS_PROXY="http://user:p\"a\\ss\$1\`+"`"+`@proxy:3128"`+"\nHOME=\"/root\"\n", got)
}

func TestRunnerOfASimulatedNodeIsNoUnitOfThisMachine(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	require.NoError(t, n.MkdirAll("/run/systemd/system", 0o755))
	require.Nil(t, systemdRun(n, "/var/lib/fitout/runs/2026-1130-01"))
}

func TestOwnerWithoutARecordIsStillALockedError(t *testing.T) {
	require.Equal(t, "another run is in progress on this node", (&LockedError{}).Error())
	hung := (&LockedError{Owner{Run: "2026-1130-01", PID: 7, TTY: "ttyS0", Hung: "load"}}).Error()
	require.True(t, strings.Contains(hung, "started on ttyS0") && strings.Contains(hung, "only a reboot ends it"), hung)
}
