package host

import (
	"encoding/json"
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

// rebuildable is a node with toolkit v2 whose active image has the running
// kernel, and a driver kept for the OS image.
func rebuildable(t *testing.T) (*hostops.Node, *elemental.Machine, *RebuildImage) {
	t.Helper()
	n := node(t, hosts.Elemental2(), hosts.Files{"/sys/dev/block/259:1/loop/backing_file": "/.snapshots/1/snapshot.img\n"})
	image := newImage(t, kernelA)
	m := elemental.NewMachine(t, n.Root, image)
	f, _ := persisted(t, n, "os-image", e100(t, n, kernelA, kernelB))
	n.Exec = m
	act, err := f.Rebuild()
	require.NoError(t, err)
	return n, m, act.(*RebuildImage)
}

func TestImageIsBuiltAnewWithTheDriverInIt(t *testing.T) {
	n, m, a := rebuildable(t)
	before := m.Active(t)
	done, err := a.Done(t.Context(), n)
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, a.Prepare(t.Context(), n))
	var out lines
	require.NoError(t, a.Do(t.Context(), n, &out))
	require.Contains(t, strings.Join(out.text, "\n"), "running stage after-upgrade-chroot")
	done, err = a.Done(t.Context(), n)
	require.NoError(t, err)
	require.True(t, done)
	require.NotEqual(t, before, m.Active(t))
	require.FileExists(t, before, "the image of before is the fallback")
	dep, err := exec.Command("debugfs", "-R", "cat /lib/modules/"+kernelA+"/modules.dep", m.Active(t)).Output()
	require.NoError(t, err)
	require.Contains(t, string(dep), "updates/fitout/intel-e100/e100.ko:")

	require.True(t, ImageWaiting(n))
	require.ErrorContains(t, a.Undo(t.Context(), n, Quiet{}), "fallback entry")
	kernels, err := Detect(n).Kernels(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Role{Running, Next}, kernels[0].Roles)
}

// The runner may die: what it started goes on, and the next one waits for it.
func TestImageThatIsBeingBuiltIsWaitedFor(t *testing.T) {
	n, m, a := rebuildable(t)
	require.NoError(t, a.Prepare(t.Context(), n))
	b, err := json.Marshal(a)
	require.NoError(t, err)
	_, err = m.Run(t.Context(), a.argv()...)
	require.NoError(t, err)

	var again RebuildImage
	require.NoError(t, json.Unmarshal(b, &again))
	require.NoError(t, again.Prepare(t.Context(), n))
	require.Equal(t, a.Was, again.Was, "what was measured before the start holds")
	require.NoError(t, again.Do(t.Context(), n, Quiet{}))
	list, err := os.ReadDir(n.Path(images2))
	require.NoError(t, err)
	require.Len(t, list, 3, "one new image, not two")
}

// The toolkit ends with 0 although the hook could do nothing.
func TestImageWithoutTheDriverIsNotTakenForDone(t *testing.T) {
	n, _, a := rebuildable(t)
	require.NoError(t, a.Prepare(t.Context(), n))
	require.NoError(t, n.Remove(path.Join(a.State, "bin/fitout")))
	err := a.Do(t.Context(), n, Quiet{})
	require.ErrorContains(t, err, "NOT complete")
	require.ErrorContains(t, err, "do not reboot into it")
}

func TestImageIsNotBuiltOnLeftoversOfAnUpgrade(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(n *hostops.Node) error
		want  string
	}{
		"stray snapshot": {func(n *hostops.Node) error { return n.WriteFile(images2+"/4/snapshot.img", nil, 0o644) }, "rm -r " + images2 + "/4"},
		"listed snapshot without image": {func(n *hostops.Node) error { return n.Remove(images2 + "/1/snapshot.img") },
			"active image"},
		"working tree mounted": {func(n *hostops.Node) error {
			return n.WriteFile("/proc/self/mountinfo", []byte(hosts.RootMount+"90 24 8:4 / /run/elemental/workingtree rw - ext4 /dev/sda4 rw\n"), 0o644)
		}, "cut short"},
		"hook gone":  {func(n *hostops.Node) error { return n.Remove("/oem/95_fitout_intel-e100.yaml") }, "fitout persist intel-e100"},
		"no debugfs": {func(n *hostops.Node) error { return n.Remove("/usr/sbin/debugfs") }, "no debugfs"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _, a := rebuildable(t)
			require.NoError(t, c.spoil(n))
			require.ErrorContains(t, a.Prepare(t.Context(), n), c.want)
		})
	}
}

func TestImageIsNotBuiltBesideAnotherUpgrade(t *testing.T) {
	n, m, a := rebuildable(t)
	require.NoError(t, n.MkdirAll(path.Dir(upgradeLock), 0o755))
	holder := exec.Command("flock", n.Path(upgradeLock), "sleep", "60")
	require.NoError(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	require.Eventually(t, func() bool { return exec.Command("flock", "-n", n.Path(upgradeLock), "true").Run() != nil }, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, a.Prepare(t.Context(), n))
	require.ErrorContains(t, a.Do(t.Context(), n, Quiet{}), "another upgrade holds")
	require.Equal(t, "1", path.Base(path.Dir(m.Active(t))))
}

// What would become the fallback must be what runs.
func TestUnprovedImageNeverBecomesTheFallback(t *testing.T) {
	n, _, _ := rebuildable(t)
	require.NoError(t, n.WriteFile("/sys/dev/block/259:1/loop/backing_file", []byte("/.snapshots/7/snapshot.img\n"), 0o644)) // booted from the passive one
	_, err := Detect(n).Rebuild()
	var no *Unsupported
	require.ErrorAs(t, err, &no)
	require.ErrorContains(t, err, "is not the active image")
	require.ErrorContains(t, err, "boot it and see that its devices work")
}

func TestHarvesterImageIsNotBuiltByUs(t *testing.T) {
	n := node(t, hosts.Harvester())
	_, err := Detect(n).Rebuild()
	var no *Unsupported
	require.ErrorAs(t, err, &no)
	require.ErrorContains(t, err, "next Harvester upgrade")
}
