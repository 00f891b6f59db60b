package kmod_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/kmod"
)

// loadFixture loads mii and e100, with e100 holding mii and driving a card.
func loadFixture(t testing.TB, n *hostops.Node) {
	t.Helper()
	addDevice(t, n, "0000:00:04.0", e100Card)
	_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", ""), fileOf(t, n, "e100", "debug=3")}})
	require.NoError(t, err)
	require.Equal(t, "e100", boundTo(n, "0000:00:04.0"))
	put(t, n, "/proc/modules", "e100 45056 0 - Live 0x0 \nmii 20480 1 e100, Live 0x0 \n")
}

func TestUnloadTakesUsersFirstAndUndoBringsAllBack(t *testing.T) {
	n := newNode(t)
	loadFixture(t, n)
	gone := &kmod.UnloadModules{Names: []string{"mii", "e100"}}
	out, err := run(t, n, gone)
	require.NoError(t, err)
	require.Equal(t, []string{"e100 is unloaded", "mii is unloaded"}, out.lines)
	require.Empty(t, loadedNames(t, n))
	require.Empty(t, boundTo(n, "0000:00:04.0"))

	again := reread(t, gone)
	require.Equal(t, []string{"mii"}, again.Removed[0].Needs)
	require.Equal(t, []string{"debug=3"}, again.Removed[0].Params)
	require.Equal(t, []kmod.Binding{{Address: "0000:00:04.0", Driver: "e100"}}, again.Removed[0].Devices)
	undo(t, n, again)
	require.Equal(t, []string{"e100", "mii"}, loadedNames(t, n))
	require.Equal(t, "e100", boundTo(n, "0000:00:04.0"))
	value, err := n.ReadString("/sys/module/e100/parameters/debug")
	require.NoError(t, err)
	require.Equal(t, "3", value)
}

func TestHolderNotOnTheListIsNamedNotRemoved(t *testing.T) {
	n := newNode(t)
	put(t, n, "/proc/modules", "irdma 1 0 - Live 0x0\nice 1 1 irdma, Live 0x0\n")
	err := (&kmod.UnloadModules{Names: []string{"ice"}}).Prepare(context.Background(), n)
	var used *kmod.InUse
	require.ErrorAs(t, err, &used)
	require.Equal(t, []string{"irdma"}, used.Foreign)
	require.ErrorContains(t, err, "unloading ice: it is used by [irdma]")

	both := &kmod.UnloadModules{Names: []string{"ice", "irdma"}}
	require.NoError(t, both.Prepare(context.Background(), n))
	require.Equal(t, "unload irdma, ice", both.Describe().Title)
}

func TestUnloadOfOneNameLeavesTheLongerName(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"falco", "falco_probe"} {
		put(t, n, "/sys/module/"+name+"/initstate", "live\n")
		put(t, n, "/sys/module/"+name+"/refcnt", "0\n")
	}
	put(t, n, "/proc/modules", "falco 1 0 - Live 0x0\nfalco_probe 1 0 - Live 0x0\n")
	_, err := run(t, n, &kmod.UnloadModules{Names: []string{"falco"}})
	require.NoError(t, err)
	require.Equal(t, []string{"falco_probe"}, loadedNames(t, n))
}

func TestModuleInUseIsNamedWithItsCount(t *testing.T) {
	n := newNode(t)
	put(t, n, "/sys/module/nvidia/initstate", "live\n")
	put(t, n, "/sys/module/nvidia/refcnt", "236\n")
	put(t, n, "/proc/modules", "nvidia 1 236 - Live 0x0\n")
	_, err := run(t, n, &kmod.UnloadModules{Names: []string{"nvidia"}})
	var used *kmod.InUse
	require.ErrorAs(t, err, &used)
	require.Equal(t, 236, used.Usage.RefCount)
	require.Equal(t, []string{"nvidia"}, loadedNames(t, n))
}

// lyingKernel says that it unloaded a module and does not.
type lyingKernel struct {
	hostops.Kernel
	errno unix.Errno
}

func (k lyingKernel) UnloadModule(string) error {
	if k.errno != 0 {
		return k.errno
	}
	return nil
}

func TestUnloadThatReturnsZeroWithoutEffect(t *testing.T) {
	n := newNode(t)
	loadFixture(t, n)
	n.Kernel = lyingKernel{n.Kernel, 0}
	_, err := run(t, n, &kmod.UnloadModules{Names: []string{"e100"}})
	require.ErrorContains(t, err, "unloading e100: the kernel said yes, and it is still there (state Live, 0 references, used by [])")
}

// clingingKernel keeps the call that unloads until the test ends.
type clingingKernel struct {
	hostops.Kernel
	release chan struct{}
}

func (k clingingKernel) UnloadModule(string) error { <-k.release; return nil }

func TestUnloadThatNeverReturnsIsNamed(t *testing.T) {
	n := newNode(t)
	loadFixture(t, n)
	k := clingingKernel{n.Kernel, make(chan struct{})}
	defer close(k.release)
	n.Kernel = k
	_, err := run(t, n, &kmod.UnloadModules{Names: []string{"e100"}, Limit: 50 * time.Millisecond})
	var left interface{ Hung() bool }
	require.ErrorAs(t, err, &left)
	require.True(t, left.Hung())
	require.ErrorContains(t, err, "unloading e100: its exit code has not come back after 50ms")
}

func TestUnloadNotPermittedSaysWhy(t *testing.T) {
	n := newNode(t)
	loadFixture(t, n)
	n.Kernel = lyingKernel{n.Kernel, unix.EPERM}
	put(t, n, "/proc/sys/kernel/modules_disabled", "1\n")
	_, err := run(t, n, &kmod.UnloadModules{Names: []string{"e100"}})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "kernel.modules_disabled=1")
}

func TestModuleWithoutFileCannotComeBackAndIsNamed(t *testing.T) {
	n := newNode(t)
	put(t, n, "/sys/module/vendor/initstate", "live\n")
	put(t, n, "/sys/module/vendor/refcnt", "0\n")
	put(t, n, "/proc/modules", "vendor 1 0 - Live 0x0\n")
	gone := &kmod.UnloadModules{Names: []string{"vendor"}}
	_, err := run(t, n, gone)
	require.NoError(t, err)
	err = gone.Undo(context.Background(), n, &recorder{})
	require.ErrorContains(t, err, "loading vendor again: the running kernel's own tree has no such module")
}

func TestUnloadOfWhatIsNotLoadedIsDone(t *testing.T) {
	n := newNode(t)
	done, err := (&kmod.UnloadModules{Names: []string{"nouveau"}}).Done(context.Background(), n)
	require.NoError(t, err)
	require.True(t, done)
}

func TestFirmwarePathIsSetWithoutNewlineAndClearedByOneNULByte(t *testing.T) {
	const param = "/sys/module/firmware_class/parameters/path"
	n := newNode(t)
	put(t, n, param, "\n")
	set := &kmod.SetFirmwarePath{Dir: "/run/fitout/firmware"}
	_, err := run(t, n, set)
	require.NoError(t, err)
	b, err := n.ReadFile(param)
	require.NoError(t, err)
	require.Equal(t, "/run/fitout/firmware", string(b))
	undo(t, n, reread(t, set))
	b, err = n.ReadFile(param)
	require.NoError(t, err)
	require.Equal(t, "\x00", string(b))
	now, err := kmod.FirmwarePath(n)
	require.NoError(t, err)
	require.Empty(t, now)
}

func TestForeignFirmwarePathIsNotOverwritten(t *testing.T) {
	const param = "/sys/module/firmware_class/parameters/path"
	n := newNode(t)
	put(t, n, param, "/var/lib/firmware/vendor-a\n")
	_, err := run(t, n, &kmod.SetFirmwarePath{Dir: "/run/fitout/firmware"})
	var taken *kmod.FirmwarePathTaken
	require.ErrorAs(t, err, &taken)
	require.Equal(t, "/var/lib/firmware/vendor-a", taken.Value)

	merged := &kmod.SetFirmwarePath{Dir: "/run/fitout/fw", Merged: "/var/lib/firmware/vendor-a"}
	_, err = run(t, n, merged)
	require.NoError(t, err)
	undo(t, n, reread(t, merged))
	now, err := kmod.FirmwarePath(n)
	require.NoError(t, err)
	require.Equal(t, "/var/lib/firmware/vendor-a", now)

	// A value that somebody set since stays.
	_, err = run(t, n, merged)
	require.NoError(t, err)
	put(t, n, param, "/somebody/else\n")
	out := undo(t, n, merged)
	require.Contains(t, out.text(), "was changed to /somebody/else since")
}

func TestFirmwarePathTheKernelCannotTake(t *testing.T) {
	n := newNode(t)
	put(t, n, "/sys/module/firmware_class/parameters/path", "\n")
	for _, dir := range []string{"", "/a\n", "/" + string(make([]byte, 300))} {
		require.Error(t, (&kmod.SetFirmwarePath{Dir: dir}).Prepare(context.Background(), n))
	}
}
