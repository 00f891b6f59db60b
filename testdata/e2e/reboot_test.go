package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A driver that is kept and not loaded now comes into use with a restart, which
// is a step of the run: after the boot the run goes on by itself, measures, and
// ends.
func TestPlannedRestartIsAStepOfTheRun(t *testing.T) {
	t.Parallel()
	n := faultsMachine(t)
	n.write("/root/answers.yaml", answer{id: e1000eID, driver: "e1000e-stick", when: "persist", licence: "gpl"}.file()+
		"acceptRisks: [unsigned-module]\nlimits: {reboot: if-needed}\n")
	before := n.fingerprint()
	require.Contains(t, n.ok("fitout plan -a /root/answers.yaml"), "restart the node")
	n.ok("fitout apply -a /root/answers.yaml </dev/null >/root/said 2>&1 &")
	require.NoError(t, n.WaitBoot())

	require.Eventually(t, func() bool {
		out, _ := n.Run("fitout history")
		return strings.Contains(out, "done")
	}, runTime, time.Second, "the run did not go on after the boot")
	require.Contains(t, n.ok("cat /root/said"), "goes on by itself after the boot")
	id := n.ok("ls /var/lib/fitout/runs | grep -v last")
	whole := n.ok("fitout attach " + id)
	require.Contains(t, whole, "rebooting")
	require.Contains(t, whole, "0000:00:05.0 is bound to e1000e")
	require.Contains(t, whole, "run "+id+": done")
	require.Equal(t, "e1000e", n.driver("05.0"))
	require.Empty(t, n.ok("find /etc -name '*go-on*'"), "what called the run at boot is gone")
	st := n.status()
	require.True(t, st.Drivers[0].Loaded)
	require.Empty(t, st.Drivers[0].Drift)
	require.False(t, st.RebootNeeded)

	n.ok("fitout rollback " + id + " --yes")
	now := n.fingerprint()
	require.Equal(t, withoutStore(before), withoutStore(now), "the kernel's own build is back, without another restart")
	require.NoError(t, n.Reboot())
	require.Equal(t, withoutStore(before), withoutStore(n.fingerprint()))
}

// withoutStore is a fingerprint but for the images that were read and what was
// accepted, which stay when a run is undone.
func withoutStore(fingerprint string) string {
	lines := strings.Split(fingerprint, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "/var/lib/fitout") }), "\n")
}
