package host

import (
	"context"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/elemental"
	"fitout/testdata/hosts"
)

// upgradeTo upgrades a node to an image with one kernel, by its toolkit, which
// ends well whatever the hook does.
func upgradeTo(t *testing.T, n *hostops.Node, kernel string) {
	t.Helper()
	image := newImage(t, kernel)
	out, err := exec.Command("mke2fs", "-q", "-t", "ext2", "-d", image, n.Root+"/new.img", "128M").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = n.Exec.Run(t.Context(), "elemental", "upgrade", "--system", "file:///new.img")
	require.NoError(t, err, "%s", out)
	require.NoError(t, n.Remove("/new.img"))
}

func TestLossThatTheToolkitHidIsToldBeforeTheReboot(t *testing.T) {
	for name, c := range map[string]struct {
		kernel string
		before func(t *testing.T, n *hostops.Node, state string)
		lacks  bool // in the image
		lost   bool // nor in the tree
	}{
		"all is well":                     {kernelB, nil, false, false},
		"the hook found no build":         {kernelC, nil, true, true},
		"the hook was not run":            {kernelC, noProgram, true, true},
		"nor is there a record of it":     {kernelC, func(t *testing.T, n *hostops.Node, state string) { noProgram(t, n, state); noRecord(t, n, state) }, true, true},
		"the record is of an earlier one": {kernelC, func(t *testing.T, n *hostops.Node, state string) { noProgram(t, n, state); earlierRecord(t, n, state) }, true, true},
		"the hook failed half way":        {kernelB, spoiltBuild, true, true},
		"not run, and in the tree":        {kernelB, noProgram, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, _, a := rebuildable(t)
			if c.before != nil {
				c.before(t, n, a.State)
			}
			upgradeTo(t, n, c.kernel)
			lacks, err := WaitingLacks(t.Context(), n, a.State, elementalKernels(t.Context(), n, runningKernel(n)))
			require.NoError(t, err)
			err = HookImageWaiting(t.Context(), n, a.State, time.Minute, time.Second)
			motd, _ := n.ReadString(motdPath)
			if !c.lacks {
				require.Empty(t, lacks)
				require.NoError(t, err)
				require.Empty(t, motd)
				return
			}
			require.Len(t, lacks, 1)
			require.Equal(t, "intel-e100 "+c.kernel, lacks[0].Driver+" "+lacks[0].Kernel)
			require.Equal(t, c.lost, !lacks[0].Kept)
			if !c.lost {
				require.NoError(t, err)
				require.Empty(t, ReadBlocked(n, a.State))
				return
			}
			require.ErrorContains(t, err, c.kernel)
			require.Contains(t, motd, c.kernel)
			require.Contains(t, motd, "look before you reboot")
			require.Len(t, ReadBlocked(n, a.State), 1)

			// What is told clears itself when the next boot is safe again.
			require.NoError(t, n.Symlink("1/snapshot.img", images2+"/active"))
			_, _ = HookBoot(t.Context(), n, Detect(n).Layout())
			require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte(kernelB+"\n"), 0o644))
			_, _ = HookBoot(t.Context(), n, Detect(n).Layout())
			require.Empty(t, ReadBlocked(n, a.State))
		})
	}
}

func noProgram(t *testing.T, n *hostops.Node, state string) {
	require.NoError(t, n.RemoveAll(path.Join(state, "bin")))
}

func noRecord(t *testing.T, n *hostops.Node, state string) {
	require.NoError(t, n.RemoveAll(path.Join(state, "upgrade")))
}

func earlierRecord(t *testing.T, n *hostops.Node, state string) {
	require.NoError(t, writeRecord(n, upgradePath(state, "intel-e100"), UpgradeResult{Driver: "intel-e100", Kernels: []UpgradeKernel{{Release: kernelC, Verdict: "ok"}}}))
}

func spoiltBuild(t *testing.T, n *hostops.Node, state string) {
	require.NoError(t, n.WriteFile(path.Join(treeDir(state), "lib/modules", kernelB, "updates/intel-e100/e100.ko"), []byte("x"), 0o644))
}

// Toolkit v1 has other names for its images; with a broken file in /oem it runs
// no hook at all.
func TestImageOfTheOlderToolkitIsLookedInto(t *testing.T) {
	n := node(t, hosts.Harvester(), hosts.Files{"/sys/dev/block/259:1/loop/backing_file": "/cOS/passive.img\n"})
	image := elemental.NewRoot(t, kernelC)
	m := elemental.NewMachine(t, n.Root, image)
	_, state := persisted(t, n, "os-image", e100(t, n, kernelA, kernelB))
	n.Exec = m
	require.NoError(t, n.MkdirAll(images1, 0o755))
	require.NoError(t, os.Rename(m.Active(t), n.Root+images1+"/active.img"))
	require.True(t, ImageWaiting(n))
	err := HookImageWaiting(t.Context(), n, state, time.Minute, time.Second)
	require.ErrorContains(t, err, kernelC)
	motd, _ := n.ReadString(motdPath)
	require.Contains(t, motd, "intel-e100")
}

func TestWatchOnImagesRunsAfterABootThatMadeEtcAnew(t *testing.T) {
	n, f, _, _ := gated(t, hosts.Merge(hosts.Elemental2(), hosts.Files{"/run/systemd/system/x": ""}))
	watch := f.Layout().UnitDir + "/fitout-staged.path"
	text, err := n.ReadString(watch)
	require.NoError(t, err)
	require.Contains(t, text, "PathChanged="+images2+"\n")
	require.NoError(t, n.RemoveAll(f.Layout().UnitDir))
	s := &starts{}
	n.Exec = s
	_, _ = HookBoot(t.Context(), n, f.Layout())
	require.True(t, n.Exists(watch))
	require.Contains(t, s.said, "systemctl start --no-block fitout-staged.path")
}

// starts plays systemctl and remembers what it was told.
type starts struct{ said []string }

func (s *starts) Look(string) bool { return true }

func (s *starts) Run(_ context.Context, argv ...string) ([]byte, error) {
	s.said = append(s.said, strings.Join(argv, " "))
	return nil, nil
}
