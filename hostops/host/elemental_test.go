package host

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// elementalForms are the two toolkits' nodes, with the path under which the
// upgrade's chroot sees the state directory.
var elementalForms = []struct {
	name  string
	files map[string]string
	seen  string
}{
	{"v2", elemental2Node(), elemental2},
	{"v1 of Harvester, whose pod reaches the host by its first process", harvesterNode(), "/proc/1/root" + harvesterState},
}

// newRoot is an OS image being built: a shell, kmod, a libc, and kernels.
func newRoot(t *testing.T, kernels ...string) string {
	t.Helper()
	root := tempRoot(t)
	for _, tool := range []string{"/bin/sh", "/usr/sbin/depmod"} {
		copyProgram(t, root, tool, tool)
	}
	for _, rel := range kernels {
		for p, content := range kernel("/lib/modules", rel) {
			require.NoError(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
			require.NoError(t, os.WriteFile(root+p, []byte(content), 0o644))
		}
	}
	require.NoError(t, os.MkdirAll(root+"/lib/modules/6.99-orphan", 0o755))
	require.NoError(t, os.MkdirAll(root+"/dev", 0o755))
	require.NoError(t, os.WriteFile(root+"/dev/null", nil, 0o666))
	return root
}

// copyProgram puts a program of this machine and its libraries below root.
func copyProgram(t *testing.T, root, from, to string) {
	t.Helper()
	files := map[string]string{from: to}
	out, _ := exec.Command("ldd", from).Output()
	for _, w := range strings.Fields(string(out)) {
		if strings.HasPrefix(w, "/") {
			files[w] = w
		}
	}
	for src, dst := range files {
		b, err := os.ReadFile(src)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(root+dst), 0o755))
		require.NoError(t, os.WriteFile(root+dst, b, 0o755))
	}
}

// upgrade moves /oem and the state directory to where the chroot sees them,
// runs the stage with the real executor, and moves them back.
func upgrade(t *testing.T, n *hostops.Node, root, state, seen, stage string) (exit int, output string) {
	t.Helper()
	move := func(from, to string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.Rename(from, to))
	}
	move(n.Root+state, root+seen)
	move(n.Root+"/oem", root+"/oem")
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "FITOUT_TEST_CHROOT=" + root, "FITOUT_TEST_STAGE=" + stage}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	require.Empty(t, inside(t, root), "a process was left in the chroot")
	move(root+seen, n.Root+state)
	move(root+"/oem", n.Root+"/oem")
	require.NotEqual(t, 99, cmd.ProcessState.ExitCode(), "these tests need root: %s", out.String())
	return cmd.ProcessState.ExitCode(), out.String()
}

// inside lists processes whose root or working directory is below dir.
func inside(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, what := range []string{"root", "cwd"} {
		links, err := filepath.Glob("/proc/[0-9]*/" + what)
		require.NoError(t, err)
		for _, l := range links {
			if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, dir) {
				out = append(out, l)
			}
		}
	}
	return out
}

// persisted keeps drivers on a node whose installed program is this test's own,
// so that the hook's command runs what fitout runs.
func persisted(t *testing.T, n *hostops.Node, where string, drivers ...Driver) (Family, string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(n.Root+"/run/store", 0o755))
	b, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(n.Root+"/run/store/fitout", b, 0o755))
	f := Detect(n).Using("/run/store/fitout", "test")
	for _, d := range drivers {
		actions, err := f.Persist(d, where)
		require.NoError(t, err)
		apply(t, n, actions)
	}
	return f, f.Layout().State
}

func TestUpgradeHookPutsTheDriverIntoTheNewImage(t *testing.T) {
	for _, form := range elementalForms {
		t.Run(form.name, func(t *testing.T) {
			n := node(t, form.files)
			f, state := persisted(t, n, "auto", e100(t, n, kernelA, kernelB), dummy(t, n, "other", kernelB))
			require.True(t, f.Facts().OSImage)
			root := newRoot(t, kernelB)
			copyLibs(t, root)
			for round := range 2 { // the second upgrade changes nothing
				exit, out := upgrade(t, n, root, state, form.seen, "after-upgrade-chroot")
				require.Zero(t, exit, out)
				dep, err := os.ReadFile(root + "/lib/modules/" + kernelB + "/modules.dep")
				require.NoError(t, err)
				for _, m := range []string{"intel-e100/e100.ko", "intel-e100/mii.ko", "other/dummy.ko"} {
					require.FileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/"+m)
					require.Contains(t, string(dep), "updates/fitout/"+m+":", "round %d", round)
				}
				require.FileExists(t, root+"/lib/firmware/updates/e100/d101m_ucode.bin")
				conf, err := os.ReadFile(root + "/etc/modprobe.d/fitout-image-intel-e100.conf")
				require.NoError(t, err)
				require.Contains(t, string(conf), "options e100 debug=3")
				require.NoDirExists(t, root+"/lib/modules/6.99-orphan/updates")
			}
			r, err := ReadUpgrade(n, state, "intel-e100")
			require.NoError(t, err)
			require.Equal(t, []UpgradeKernel{{Release: kernelB, Verdict: "ok"}}, r.Kernels)
			require.Equal(t, "after-upgrade-chroot", r.Stage)
		})
	}
}

// copyLibs: the hook program of these tests is a test binary, which may need
// the machine's libc; fitout itself is static.
func copyLibs(t *testing.T, root string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	copyProgram(t, root, exe, "/unused/test-program")
	require.NoError(t, os.RemoveAll(root+"/unused"))
}

func TestUpgradeHookThatMissesABuildSaysSoItself(t *testing.T) {
	for _, form := range elementalForms {
		t.Run(form.name, func(t *testing.T) {
			n := node(t, form.files)
			_, state := persisted(t, n, "auto", e100(t, n, kernelA))
			root := newRoot(t, kernelC)
			copyLibs(t, root)
			exit, _ := upgrade(t, n, root, state, form.seen, "after-upgrade-chroot")
			require.NotZero(t, exit, "strict would stop here")
			r, err := ReadUpgrade(n, state, "intel-e100")
			require.NoError(t, err)
			require.Equal(t, "missing", r.Kernels[0].Verdict)
			require.Contains(t, r.Error, kernelC)
			log, err := n.ReadString(state + "/hook.log")
			require.NoError(t, err)
			require.Contains(t, log, "no build")
			require.Len(t, ReadBlocked(n, state), 1, "status says it before the reboot")
			require.NoDirExists(t, root+"/lib/modules/"+kernelC+"/updates")
		})
	}
}

func TestUpgradeGoesOnWhenTheAnswersSaySo(t *testing.T) {
	n := node(t, elemental2Node())
	d := e100(t, n, kernelA)
	d.OnMissing = "continue"
	_, state := persisted(t, n, "auto", d)
	root := newRoot(t, kernelC)
	copyLibs(t, root)
	exit, out := upgrade(t, n, root, state, elemental2, "after-upgrade-chroot")
	require.Zero(t, exit, out)
	r, err := ReadUpgrade(n, state, "intel-e100")
	require.NoError(t, err)
	require.Equal(t, "missing", r.Kernels[0].Verdict, "loudly")
}

func TestReinstallAndResetBringTheDriverToo(t *testing.T) {
	n := node(t, elemental2Node())
	_, state := persisted(t, n, "os-image", e100(t, n, kernelB))
	for _, stage := range []string{"after-install-chroot", "after-reset-chroot"} {
		root := newRoot(t, kernelB)
		copyLibs(t, root)
		exit, out := upgrade(t, n, root, state, elemental2, stage)
		require.Zero(t, exit, out)
		require.FileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/intel-e100/e100.ko")
	}
}

func TestPayloadOutOfReachFailsTheHookLoudly(t *testing.T) {
	n := node(t, elemental2Node())
	_, state := persisted(t, n, "auto", e100(t, n, kernelB))
	root := newRoot(t, kernelB)
	exit, out := upgrade(t, n, root, state, "/somewhere/else", "after-upgrade-chroot")
	require.NotZero(t, exit, out)
	require.NoFileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/intel-e100/e100.ko")
}

func TestSideTreeDriverIsOnlyCheckedInTheChroot(t *testing.T) {
	n := node(t, elemental2Node())
	_, state := persisted(t, n, "side-tree", e100(t, n, kernelB))
	root := newRoot(t, kernelB)
	copyLibs(t, root)
	exit, out := upgrade(t, n, root, state, elemental2, "after-upgrade-chroot")
	require.Zero(t, exit, out)
	require.NoDirExists(t, root+"/lib/modules/"+kernelB+"/updates")
	r, err := ReadUpgrade(n, state, "intel-e100")
	require.NoError(t, err)
	require.Equal(t, "in-tree-dir", r.Kernels[0].Verdict)
}

func TestBootStageGivesModprobeItsFileBeforeColdplug(t *testing.T) {
	n := node(t, elemental2Node())
	_, state := persisted(t, n, "auto", e100(t, n, kernelA))
	root := newRoot(t, kernelA)
	for _, tool := range []string{"/bin/cp", "/bin/mkdir"} {
		copyProgram(t, root, tool, tool)
	}
	exit, out := upgrade(t, n, root, state, elemental2, "initramfs")
	require.Zero(t, exit, out)
	conf, err := os.ReadFile(root + "/run/modprobe.d/fitout-intel-e100.conf")
	require.NoError(t, err)
	require.Contains(t, string(conf), "alias pci:v00008086d00001229sv")
}

func TestBrokenNeighbourStopsTheWriteOnlyWhereItDisablesAll(t *testing.T) {
	broken := map[string]string{"/oem/50_broken.yaml": "name: x\nstages:\n  boot:\n  - commands:\n    - echo a: b: c\n"}
	for _, form := range elementalForms {
		n := node(t, form.files, broken)
		f := family(t, n)
		actions, err := f.Persist(e100(t, n, kernelA), "auto")
		require.NoError(t, err)
		hook := hooksOf(actions)[0]
		before := fingerprint(t, n)
		err = hook.Prepare(context.Background(), n)
		if form.name == "v2" {
			require.NoError(t, err)
			out := &lines{}
			require.NoError(t, hook.Do(context.Background(), n, out))
			require.Contains(t, strings.Join(out.text, "\n"), "50_broken.yaml")
			continue
		}
		require.ErrorContains(t, err, "/oem/50_broken.yaml cannot be read")
		require.Equal(t, before, fingerprint(t, n))
	}
}

func hooksOf(actions []hostops.Action) []*PutHook {
	var out []*PutHook
	for _, a := range actions {
		if h, ok := a.(*PutHook); ok {
			out = append(out, h)
		}
	}
	return out
}

func TestHookIsRefusedWhereNobodyWouldReadIt(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"oem is not the mounted partition": {map[string]string{"/proc/self/mountinfo": rootMount + "31 24 8:5 / /run/elemental/persistent rw - ext4 /dev/sda5 rw\n"}, "/oem is not a mounted partition"},
		"oem lies in memory":               {map[string]string{"/proc/self/mountinfo": rootMount + "30 24 0:3 / /oem rw - tmpfs t rw\n"}, "/oem is not a mounted partition"},
		"another file has the name":        {map[string]string{"/oem/10_copy.yaml": "name: \"fitout: intel-e100\"\nstages: {}\n"}, "/oem/10_copy.yaml has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t, elemental2Node(), c.files)
			actions, err := family(t, n).Persist(e100(t, n, kernelA), "auto")
			require.NoError(t, err)
			require.ErrorContains(t, hooksOf(actions)[0].Prepare(context.Background(), n), c.want)
		})
	}
}

func TestOnlyFilesTheExecutorReadsAreJudged(t *testing.T) {
	n := node(t, elemental2Node(), map[string]string{
		"/oem/a.yaml.tmp": "{", "/oem/b.YAML": "{", "/oem/c.conf": "{", "/oem/grubenv": "{",
		"/oem/.hidden.yaml": "{", "/oem/sub/d.yml": "{", "/oem/bom.yaml": "\xef\xbb\xbfname: x\r\n", "/oem/latin.yaml": "name: \"\xe9\"\n",
		"/oem/cloud.yaml": "#cloud-config\nusers: [a]\n",
	})
	broken, names, err := BrokenHooks(n, "/oem")
	require.NoError(t, err)
	var paths []string
	for _, b := range broken {
		paths = append(paths, b.Path)
	}
	require.Equal(t, []string{"/oem/.hidden.yaml", "/oem/latin.yaml", "/oem/sub/d.yml"}, paths)
	require.Equal(t, "/oem/90_custom.yaml", names["site"])
}

func TestHookFileThatAnExecutorWouldMisread(t *testing.T) {
	file := func(steps ...oemStep) []byte {
		b, _ := hookFile("fitout: x", "c", steps)
		return b
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"template":                {file(oemStep{"boot", "a", "echo {{.Id}}"}), "template"},
		"step name twice":         {file(oemStep{"boot", "a", "true"}, oemStep{"fs", "a", "true"}), "used twice"},
		"longer than an argument": {file(oemStep{"boot", "a", strings.Repeat("x", maxCommand)}), "the limit is"},
		"not UTF-8":               {[]byte("name: \"\xff\"\n"), "UTF-8"},
		"plain scalar with colon": {[]byte("name: x\nstages:\n  boot:\n  - name: a\n    commands:\n    - echo a: b\n"), "unmarshal"},
		"plain boolean":           {[]byte("name: x\nstages:\n  boot:\n  - name: a\n    commands:\n    - yes\n"), "not a quoted string"},
		"modules plugin":          {[]byte("name: x\nstages:\n  boot:\n  - name: a\n    commands: [\"true\"]\n    modules: [e100]\n"), "more than commands"},
		"no stage":                {[]byte("name: x\n"), "needs a name and stages"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, CheckHook(c.text), c.want)
		})
	}
	require.NoError(t, CheckHook(file(oemStep{"boot", "a", `echo "a: b" '#c' & yes`})))
}

func TestHookFilesOfAllFamiliesPassTheCheck(t *testing.T) {
	for _, form := range elementalForms {
		n := node(t, form.files)
		d := e100(t, n, kernelA)
		d.Early = true
		for _, where := range []string{"side-tree", "os-image"} {
			actions, err := family(t, n).Persist(d, where)
			require.NoError(t, err)
			for _, h := range hooksOf(actions) {
				require.NoError(t, CheckHook([]byte(h.Content)))
				require.NotContains(t, h.Content, "uname")
				require.True(t, strings.HasPrefix(filepath.Base(h.Path), "95_fitout_"))
			}
		}
	}
}

func TestWhatIsKeptSurvivesTheOSBeingReplaced(t *testing.T) {
	for _, form := range elementalForms {
		t.Run(form.name, func(t *testing.T) {
			n, _, state, d := gated(t, form.files)
			actions, err := family(t, n).Persist(e100(t, n, kernelA, kernelB), "auto")
			require.NoError(t, err)
			apply(t, n, actions)
			settings, err := n.ReadFile(keptPath(state, d.Name))
			require.NoError(t, err)

			// The new image boots another kernel; only the persistent partitions
			// are the same.
			next := node(t, form.files, kernel("/lib/modules", kernelB), card(""))
			require.NoError(t, next.WriteFile("/proc/sys/kernel/osrelease", []byte(kernelB+"\n"), 0o644))
			for _, kept := range []string{state, "/oem"} {
				require.NoError(t, os.RemoveAll(next.Root+kept))
				require.NoError(t, os.MkdirAll(filepath.Dir(next.Root+kept), 0o755))
				require.NoError(t, os.Rename(n.Root+kept, next.Root+kept))
			}
			r, err := boot(t, next)
			require.NoError(t, err)
			require.Equal(t, "loaded", r.Drivers[0].State)
			same, err := next.ReadFile(keptPath(state, d.Name))
			require.NoError(t, err)
			require.Equal(t, settings, same)
			armed, _ := GateState(next, Detect(next).Facts())
			require.True(t, armed)
		})
	}
}
