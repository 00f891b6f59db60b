package kmod_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
)

// Every action is plain data: written to a journal and read back by another
// process, it can still be undone.
var (
	_ hostops.Action = (*kmod.LoadModules)(nil)
	_ hostops.Action = (*kmod.UnloadModules)(nil)
	_ hostops.Action = (*kmod.SetFirmwarePath)(nil)
	_ hostops.Action = (*kmod.BindDevices)(nil)
)

// reread sends an action through JSON.
func reread[T any](t testing.TB, a *T) *T {
	t.Helper()
	b, err := json.Marshal(a)
	require.NoError(t, err)
	var out T
	require.NoError(t, json.Unmarshal(b, &out))
	return &out
}

// run does what the runner does with an action.
func run(t testing.TB, n *hostops.Node, a hostops.Action) (*recorder, error) {
	t.Helper()
	ctx := context.Background()
	out := &recorder{}
	done, err := a.Done(ctx, n)
	require.NoError(t, err)
	if done {
		return out, nil
	}
	if err := a.Prepare(ctx, n); err != nil {
		return out, err
	}
	if err := a.Do(ctx, n, out); err != nil {
		return out, err
	}
	done, err = a.Done(ctx, n)
	require.NoError(t, err)
	require.True(t, done)
	return out, nil
}

func undo(t testing.TB, n *hostops.Node, a hostops.Action) *recorder {
	t.Helper()
	out := &recorder{}
	require.NoError(t, a.Undo(context.Background(), n, out))
	require.NoError(t, a.Undo(context.Background(), n, out), "a second time changes nothing")
	return out
}

func loadedNames(t testing.TB, n *hostops.Node) []string {
	t.Helper()
	mods, err := kmod.Loaded(n)
	require.NoError(t, err)
	names := []string{}
	for _, m := range mods {
		names = append(names, m.Name)
	}
	return names
}

func boundTo(n *hostops.Node, addr string) string {
	link, err := n.Readlink("/sys/bus/pci/devices/" + addr + "/driver")
	if err != nil {
		return ""
	}
	return path.Base(link)
}

func fileOf(t testing.TB, n *hostops.Node, name, params string) kmod.LoadFile {
	t.Helper()
	p, ok := kmod.OpenTables(n, modulesDir).Path(name)
	require.True(t, ok)
	return kmod.LoadFile{Name: name, Path: p, Params: params}
}

func TestLoadWithDependencyAndUndo(t *testing.T) {
	n := newNode(t)
	addDevice(t, n, "0000:00:04.0", e100Card)
	load := &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", ""), fileOf(t, n, "e100", "debug=3")}}
	_, err := run(t, n, load)
	require.NoError(t, err)
	require.Equal(t, []string{"e100", "mii"}, loadedNames(t, n))
	require.Equal(t, "e100", boundTo(n, "0000:00:04.0"))

	out, err := run(t, n, &kmod.LoadModules{Files: load.Files})
	require.NoError(t, err)
	require.Empty(t, out.lines, "nothing to do")

	undo(t, n, reread(t, load))
	require.Empty(t, loadedNames(t, n))
	require.Empty(t, boundTo(n, "0000:00:04.0"))
}

func TestUndoLeavesWhatWasLoadedBefore(t *testing.T) {
	n := newNode(t)
	_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", "")}})
	require.NoError(t, err)
	load := &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", ""), fileOf(t, n, "e100", "")}}
	out, err := run(t, n, load)
	require.NoError(t, err)
	require.Contains(t, out.text(), "mii is loaded already, this very build")
	undo(t, n, reread(t, load))
	require.Equal(t, []string{"mii"}, loadedNames(t, n))
}

func TestUndoBeforeAnythingWasDone(t *testing.T) {
	n := newNode(t)
	load := &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", "")}}
	undo(t, n, load)
	require.NoError(t, load.Prepare(context.Background(), n))
	undo(t, n, load)
	require.Empty(t, loadedNames(t, n))
}

func TestFilesNotLaidOutYetAreNotLoaded(t *testing.T) {
	n := newNode(t)
	done, err := (&kmod.LoadModules{Files: []kmod.LoadFile{{Name: "x", Path: "/run/fitout/x.ko"}}}).Done(context.Background(), n)
	require.NoError(t, err)
	require.False(t, done)
}

func TestOtherBuildOfTheSameNameIsNotDone(t *testing.T) {
	n := newNode(t)
	_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", "")}})
	require.NoError(t, err)
	put(t, n, "/sys/module/mii/srcversion", "0123456789ABCDEF0123456\n")
	_, err = run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", "")}})
	var r *kmod.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, "loaded-other-version", r.Code)
}

func TestPackedAndMislabelledFilesAreUnpackedForTheKernel(t *testing.T) {
	for name, from := range map[string]string{
		"dummy.ko.xz":  realFiles + "/6.12.117+deb12-amd64/dummy.ko.xz",
		"dummy.ko":     realFiles + "/6.12.117+deb12-amd64/dummy.ko.xz",
		"dummy.ko.zst": realFiles + "/" + release + "/dummy.ko",
	} {
		n := newNode(t)
		putFile(t, n, "/run/fitout/"+name, from)
		k := &tracingKernel{Kernel: n.Kernel}
		n.Kernel = k
		_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{{Name: "dummy", Path: "/run/fitout/" + name}}})
		require.NoError(t, err, name)
		require.Equal(t, []string{"\x7fELF"}, k.magic, name)
	}
}

func TestNoCallIsMadeForFilesThatAreNoModules(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "text": "hello", "cut": "\x7fELF\x02\x01\x01"} {
		n := newNode(t)
		put(t, n, "/run/fitout/a.ko", content)
		k := &tracingKernel{Kernel: n.Kernel}
		n.Kernel = k
		err := (&kmod.LoadModules{Files: []kmod.LoadFile{{Name: "a", Path: "/run/fitout/a.ko"}}}).Prepare(context.Background(), n)
		require.ErrorIs(t, err, module.ErrNotModule, name)
		require.Empty(t, k.magic, name)
	}
}

// tracingKernel notes what is handed to the kernel.
type tracingKernel struct {
	hostops.Kernel
	magic  []string
	params []string
}

func (k *tracingKernel) LoadModule(f *os.File, params string) error {
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil {
		return unix.EINVAL
	}
	k.magic, k.params = append(k.magic, string(magic[:])), append(k.params, params)
	return k.Kernel.LoadModule(f, params)
}

func TestParametersReachTheKernelWhole(t *testing.T) {
	long := strings.Repeat("x", 4096)
	for _, c := range []struct {
		params []string
		want   string
	}{
		{nil, ""},
		{[]string{"debug=3"}, "debug=3"},
		{[]string{"debug=3", "use_io=1"}, "debug=3 use_io=1"},
		{[]string{"NVreg_RegistryDwords=RMIntrLockingMode=1;RmEnable=0"}, "NVreg_RegistryDwords=RMIntrLockingMode=1;RmEnable=0"},
		{[]string{`NVreg_RegistryDwords="a=1;b=2"`}, "NVreg_RegistryDwords=a=1;b=2"},
		{[]string{"IntMode=1,1,2"}, "IntMode=1,1,2"},
		{[]string{"name=two words"}, `name="two words"`},
		{[]string{"flag"}, "flag"},
		{[]string{"x=" + long}, "x=" + long},
	} {
		require.Equal(t, c.want, kmod.JoinParams(c.params))
		n := newNode(t)
		k := &tracingKernel{Kernel: n.Kernel}
		n.Kernel = k
		_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "dummy", kmod.JoinParams(c.params))}})
		require.NoError(t, err)
		require.Equal(t, []string{c.want}, k.params)
	}
}

func TestParameterTheKernelCannotCarry(t *testing.T) {
	require.NoError(t, kmod.CheckParam("a=b c"))
	require.NoError(t, kmod.CheckParam(`a="b c"`))
	for _, p := range []string{"", "=1", `a=b"c`, "a b=1", "a=\x00"} {
		require.Error(t, kmod.CheckParam(p), "%q", p)
	}
}

func TestParameterThatReadsBackOtherwiseIsReported(t *testing.T) {
	n := newNode(t)
	n.Kernel = &clampingKernel{n.Kernel, n}
	out, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "e100", "debug=99 use_io=1 eeprom_bad_csum_allow=0x0")}})
	require.NoError(t, err)
	require.Contains(t, out.text(), `warning: parameter debug of e100 was given as "99" and reads back as "16"`)
	require.NotContains(t, out.text(), "use_io", "1 and Y are the same bool")
	require.NotContains(t, out.text(), "eeprom", "0x0 and 0 are the same number")
}

// clampingKernel shows other parameter values than it was given.
type clampingKernel struct {
	hostops.Kernel
	n *hostops.Node
}

func (k *clampingKernel) LoadModule(f *os.File, params string) error {
	if err := k.Kernel.LoadModule(f, ""); err != nil {
		return err
	}
	for name, value := range map[string]string{"debug": "16", "use_io": "Y", "eeprom_bad_csum_allow": "0"} {
		if err := k.n.WriteFile("/sys/module/e100/parameters/"+name, []byte(value+"\n"), 0o644); err != nil {
			return unix.ENOMEM
		}
	}
	return nil
}

// refusingKernel answers loads of one module with an errno and a line in the
// log, as a kernel does.
type refusingKernel struct {
	hostops.Kernel
	n     *hostops.Node
	name  string
	errno unix.Errno
	line  string
}

func (k *refusingKernel) LoadModule(f *os.File, params string) error {
	if path.Base(f.Name()) != k.name+".ko" {
		return k.Kernel.LoadModule(f, params)
	}
	log, err := os.OpenFile(k.n.Path("/dev/kmsg"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := log.WriteString("4,1,1,-;" + k.line + "\n"); err != nil {
		return err
	}
	return k.errno
}

func TestSecondModuleRefusedIsUndone(t *testing.T) {
	n := newNode(t)
	n.Kernel = &refusingKernel{n.Kernel, n, "e100", unix.EINVAL, "e100: disagrees about version of symbol register_netdev"}
	load := &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "mii", ""), fileOf(t, n, "e100", "")}}
	out, err := run(t, n, load)
	var r *kmod.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, "symbol-crc", r.Code)
	require.Equal(t, []string{"e100: disagrees about version of symbol register_netdev"}, r.Log)
	require.Contains(t, out.text(), "disagrees about version")
	require.Equal(t, []string{"mii"}, loadedNames(t, n))
	undo(t, n, reread(t, load))
	require.Empty(t, loadedNames(t, n))
}

// hangingKernel never comes back from a load.
type hangingKernel struct {
	hostops.Kernel
	release chan struct{}
}

func (k *hangingKernel) LoadModule(*os.File, string) error {
	<-k.release
	return nil
}

func TestLoadCallThatNeverReturnsIsNamed(t *testing.T) {
	n := newNode(t)
	k := &hangingKernel{n.Kernel, make(chan struct{})}
	defer close(k.release)
	n.Kernel = k
	_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "e100", "")}, Limit: 50 * time.Millisecond})
	var r *kmod.Refusal
	require.ErrorAs(t, err, &r)
	require.True(t, r.Hung())
	require.Equal(t, "init-hung", r.Code)
	require.Contains(t, r.Error(), "has not come back after 50ms")
	require.Contains(t, r.Cure, "reboot")
}

func TestHalfLoadedModuleIsNotTouchedAgain(t *testing.T) {
	n := newNode(t)
	put(t, n, "/proc/modules", "e100 28672 1 - Loading 0x0000000000000000 (OE+)\n")
	_, err := run(t, n, &kmod.LoadModules{Files: []kmod.LoadFile{fileOf(t, n, "e100", "")}})
	var r *kmod.Refusal
	require.ErrorAs(t, err, &r)
	require.True(t, r.Hung())
	require.Contains(t, r.Error(), `in the state "Loading"`)
}

// The child's protocol, by the test binary playing fitout.
func TestLoadChildSaysWhatTheKernelAnswered(t *testing.T) {
	if at := os.Getenv("KMOD_TEST_CHILD_ROOT"); at != "" {
		os.Exit(kmod.LoadChild(hostops.At(at, nil)))
	}
	n := newNode(t)
	answer := func(p string) string {
		f, err := n.Open(p)
		require.NoError(t, err)
		defer f.Close()
		cmd := exec.Command(os.Args[0], "-test.run=^TestLoadChildSaysWhatTheKernelAnswered$")
		cmd.Env = append(os.Environ(), "KMOD_TEST_CHILD_ROOT="+n.Root)
		cmd.Stdin, cmd.ExtraFiles = strings.NewReader("debug=3"), []*os.File{f}
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	e100 := fileOf(t, n, "e100", "").Path
	require.Equal(t, `{"errno":0}`, answer(e100))
	require.Equal(t, []string{"e100"}, loadedNames(t, n))
	value, err := n.ReadString("/sys/module/e100/parameters/debug")
	require.NoError(t, err)
	require.Equal(t, "3", value)
	require.Equal(t, `{"errno":17}`, answer(e100), "EEXIST")
	put(t, n, "/proc/cmdline", "quiet\n")
	require.Equal(t, `{"errno":8}`, answer("/proc/cmdline"), "ENOEXEC")
}

func TestLineOfProcModules(t *testing.T) {
	n := newNode(t)
	put(t, n, "/proc/modules", `nvidia_uvm 1146880 4 - Live 0x0000000000000000 (POE)
nvidia 56823808 350 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)
nvidia_modeset 1306624 0 [permanent], Live 0x0000000000000000
`)
	put(t, n, "/sys/module/nvidia/version", "367.35\n")
	put(t, n, "/sys/module/nvidia/srcversion", "ABCDEF\n")
	put(t, n, "/sys/module/nvidia/notes/.note.gnu.build-id", "\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd")
	mods, err := kmod.Loaded(n)
	require.NoError(t, err)
	require.Len(t, mods, 3)
	require.Equal(t, kmod.LoadedModule{Name: "nvidia", Size: 56823808, RefCount: 350, Holders: []string{"nvidia_uvm", "nvidia_modeset"},
		State: "Live", Srcversion: "ABCDEF", Version: "367.35", BuildID: "abcd", Taint: "POE"}, mods[1])
	require.Empty(t, mods[2].Holders)

	use, err := kmod.Users(n, "nvidia")
	require.NoError(t, err)
	require.Equal(t, 348, use.Unexplained)
	require.Equal(t, "nvidia is in use 350 times: module nvidia_uvm (itself in use 4 times), module nvidia_modeset (itself in use 0 times), 348 not explained by modules (open devices, mounts, interfaces that are up)", use.String())
	use, err = kmod.Users(n, "nouveau")
	require.NoError(t, err)
	require.Equal(t, "nouveau is not in use", use.String())
}

func TestProcModulesMissingIsAnError(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.Remove("/proc/modules"))
	_, err := kmod.Loaded(n)
	require.True(t, errors.Is(err, os.ErrNotExist))
}
