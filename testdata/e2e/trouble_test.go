package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// troubleImage is an image with a module that goes wrong on demand.
func troubleImage(t *testing.T, release string) imageOf {
	t.Helper()
	built, err := debian.Build(release, os.DirFS("trouble"))
	require.NoError(t, err)
	return build(t, images.Spec{Licence: "none", Extra: map[string]string{"opt/lib/modules/" + release + "/extra/trouble.ko": string(built["trouble.ko"])}})
}

// troubled applies the image with the place where it goes wrong.
func (n node) troubled(code int, where, more string) string {
	n.t.Helper()
	n.write("/root/answers.yaml", `apiVersion: fitout/v1
kind: Answers
devices:
  - match: {id: "`+e1000eID+`"}
    image: {reference: "oci-archive:/media/stick/trouble.tar:1"}
    when: load-now
    parameters: {trouble: ["in=`+where+`"]}
acceptRisks: [unsigned-module]
`+more)
	return n.exits(code, "fitout apply -a /root/answers.yaml")
}

// A module's code that crashes or never comes back, in a real kernel: it is named,
// not waited for without end, and the way on is said.
func TestModuleThatCrashesOrHangsIsNamed(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	stick := t.TempDir()
	troubleImage(t, stock.Release).archive(filepath.Join(stick, "trouble.tar"), "1")
	machine := start(t, vm.Config{
		Kernel: stock, OnlyModules: []string{"nvme"}, Devices: []string{"e1000e,addr=05.0"}, Memory: 512, Snapshots: true,
		Media: map[string]string{"stick": stick},
	}, "fingerprint")
	machine.troubled(0, "", "")
	machine.ok("fitout rollback " + machine.lastRun() + " --yes; sync")
	before := machine.fingerprint()
	require.NoError(t, machine.Snapshot("start"))
	begin := func(t *testing.T) node {
		require.NoError(t, machine.Restore("start"))
		return machine.on(t)
	}

	t.Run("its start-up code crashes", func(t *testing.T) {
		n := begin(t)
		out := n.troubled(8, "start", "")
		require.Contains(t, out, "crashed in the kernel")
		require.Contains(t, n.ok("dmesg"), "BUG: kernel NULL pointer dereference")
		require.Contains(t, out, "not undone", "what the kernel keeps of it is named")
		require.NoError(t, n.Reset())
		n.ok("fitout rollback " + n.lastRun() + " --yes")
		require.Equal(t, before, n.fingerprint())
	})
	t.Run("its probe never comes back", func(t *testing.T) {
		n := begin(t)
		out := n.troubled(13, "probe", "limits: {timeout: 20s}\n")
		require.Contains(t, out, "hangs in the kernel; reboot the node")
		require.Contains(t, out, "trouble_probe", "where it hangs")
		require.Contains(t, n.exits(6, "fitout apply -a /root/answers.yaml"), "rollback")
		require.NoError(t, n.Reset())
		n.ok("fitout rollback " + n.lastRun() + " --yes")
		require.Equal(t, before, n.fingerprint())
	})
	t.Run("it never lets go", func(t *testing.T) {
		n := begin(t)
		n.troubled(0, "remove", "")
		out := n.exits(13, "fitout unload "+strings.TrimSpace(n.ok("ls /var/lib/fitout/drivers | sed -n 's/.json$//p'"))+" --yes")
		require.Contains(t, out, "hangs in the kernel; reboot the node")
		require.Contains(t, out, "trouble_remove")
	})
}
