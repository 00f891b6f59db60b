package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/elemental"
	"fitout/testdata/hosts"
)

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
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			f, state := persisted(t, n, "auto", e100(t, n, kernelA, kernelB), dummy(t, n, "other", kernelB))
			require.True(t, f.Facts().OSImage)
			root := newImage(t, kernelB)
			for round := range 2 { // the second upgrade changes nothing
				exit, out := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
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

// newImage is the root of a new OS image with one kernel, in which the hook's
// program can run.
func newImage(t *testing.T, kernel string) string {
	t.Helper()
	root := elemental.NewRoot(t, kernel)
	copyLibs(t, root)
	return root
}

// copyLibs: the hook program of these tests is a test binary, which may need
// the machine's libc; fitout itself is static.
func copyLibs(t *testing.T, root string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	elemental.CopyProgram(t, root, exe, "/unused/test-program")
	require.NoError(t, os.RemoveAll(root+"/unused"))
}

func TestUpgradeHookThatMissesABuildSaysSoItself(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			_, state := persisted(t, n, "auto", e100(t, n, kernelA))
			root := newImage(t, kernelC)
			exit, _ := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", false)
			require.Zero(t, exit, "the toolkit goes on")
			exit, _ = form.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
			require.NotZero(t, exit, "strict stops here")
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
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			d := e100(t, n, kernelA)
			d.OnMissing = "continue"
			_, state := persisted(t, n, "auto", d)
			root := newImage(t, kernelC)
			exit, out := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
			require.Zero(t, exit, out)
			r, err := ReadUpgrade(n, state, "intel-e100")
			require.NoError(t, err)
			require.Equal(t, "missing", r.Kernels[0].Verdict, "loudly")
		})
	}
}

func TestReinstallAndResetBringTheDriverToo(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			persisted(t, n, "os-image", e100(t, n, kernelB))
			for _, stage := range []string{"after-install-chroot", "after-reset-chroot"} {
				root := newImage(t, kernelB)
				exit, out := form.Upgrade(t, n.Root, root, stage, true)
				require.Zero(t, exit, out)
				require.FileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/intel-e100/e100.ko")
			}
		})
	}
}

func TestPayloadOutOfReachFailsTheHookLoudly(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			persisted(t, n, "auto", e100(t, n, kernelB))
			root := elemental.NewRoot(t, kernelB)
			lost := form
			lost.Seen = "/somewhere/else"
			exit, out := lost.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
			require.NotZero(t, exit, out)
			require.NoFileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/intel-e100/e100.ko")
		})
	}
}

func TestSideTreeDriverIsOnlyCheckedInTheChroot(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			_, state := persisted(t, n, "side-tree", e100(t, n, kernelB))
			root := newImage(t, kernelB)
			exit, out := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
			require.Zero(t, exit, out)
			require.NoDirExists(t, root+"/lib/modules/"+kernelB+"/updates")
			r, err := ReadUpgrade(n, state, "intel-e100")
			require.NoError(t, err)
			require.Equal(t, "in-tree-dir", r.Kernels[0].Verdict)
		})
	}
}

func TestBootStageGivesModprobeItsFileBeforeColdplug(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			persisted(t, n, "auto", e100(t, n, kernelA))
			root := elemental.NewRoot(t, kernelA)
			for _, tool := range []string{"/bin/cp", "/bin/mkdir"} {
				elemental.CopyProgram(t, root, tool, tool)
			}
			form.Seen = form.State // no chroot at boot
			exit, out := form.Upgrade(t, n.Root, root, "initramfs", true)
			require.Zero(t, exit, out)
			conf, err := os.ReadFile(root + "/run/modprobe.d/fitout-intel-e100.conf")
			require.NoError(t, err)
			require.Contains(t, string(conf), "alias pci:v00008086d00001229sv")
		})
	}
}

func TestBrokenNeighbourStopsTheWriteOnlyWhereItDisablesAll(t *testing.T) {
	broken := map[string]string{"/oem/50_broken.yaml": "name: x\nstages:\n  boot:\n  - commands:\n    - echo a: b: c\n"}
	for _, form := range elemental.Forms() {
		n := node(t, form.Files, broken)
		f := family(t, n)
		actions, err := f.Persist(e100(t, n, kernelA), "auto")
		require.NoError(t, err)
		hook := hooksOf(actions)[0]
		before := fingerprint(t, n)
		err = hook.Prepare(context.Background(), n)
		if form.Version == "v2" {
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
		"oem is not the mounted partition": {map[string]string{"/proc/self/mountinfo": hosts.RootMount + "31 24 8:5 / /run/elemental/persistent rw - ext4 /dev/sda5 rw\n"}, "/oem is not a mounted partition"},
		"oem lies in memory":               {map[string]string{"/proc/self/mountinfo": hosts.RootMount + "30 24 0:3 / /oem rw - tmpfs t rw\n"}, "/oem is not a mounted partition"},
		"another file has the name":        {map[string]string{"/oem/10_copy.yaml": "name: \"fitout: intel-e100\"\nstages: {}\n"}, "/oem/10_copy.yaml has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(t, hosts.Elemental2(), c.files)
			actions, err := family(t, n).Persist(e100(t, n, kernelA), "auto")
			require.NoError(t, err)
			require.ErrorContains(t, hooksOf(actions)[0].Prepare(context.Background(), n), c.want)
		})
	}
}

func TestOnlyFilesTheExecutorReadsAreJudged(t *testing.T) {
	n := node(t, hosts.Elemental2(), map[string]string{
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
	for _, form := range elemental.Forms() {
		n := node(t, form.Files)
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
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n, _, state, d := gated(t, form.Files)
			actions, err := family(t, n).Persist(e100(t, n, kernelA, kernelB), "auto")
			require.NoError(t, err)
			apply(t, n, actions)
			settings, err := n.ReadFile(keptPath(state, d.Name))
			require.NoError(t, err)

			// The new image boots another kernel; only the persistent partitions
			// are the same.
			next := node(t, form.Files, hosts.Kernel("/lib/modules", kernelB), card(""))
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

func TestBrokenNeighbourThatComesLaterDisablesAllOfV1(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			_, state := persisted(t, n, "auto", e100(t, n, kernelB))
			require.NoError(t, n.WriteFile("/oem/99_later.yaml", []byte("name: x\nstages:\n  boot:\n  - commands:\n    - echo a: b\n"), 0o644))
			root := newImage(t, kernelB)
			exit, out := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", false)
			require.Zero(t, exit, out)
			_, err := ReadUpgrade(n, state, "intel-e100")
			if form.Version == "v1" {
				require.ErrorIs(t, err, os.ErrNotExist, "no hook ran, and no record says it did")
				return
			}
			require.NoError(t, err)
			require.FileExists(t, root+"/lib/modules/"+kernelB+"/updates/fitout/intel-e100/e100.ko")
		})
	}
}

func TestPowerCutInTheHookIsMadeGoodByTheNextRun(t *testing.T) {
	for _, form := range elemental.Forms() {
		t.Run(form.Name, func(t *testing.T) {
			n := node(t, form.Files)
			persisted(t, n, "auto", e100(t, n, kernelB))
			root := newImage(t, kernelB)
			// What a cut leaves: half a module under a temporary name, an empty index.
			half := root + "/lib/modules/" + kernelB + "/updates/fitout/intel-e100"
			require.NoError(t, os.MkdirAll(half, 0o755))
			require.NoError(t, os.WriteFile(half+"/.fitout-1.tmp", []byte("\x7fELF"), 0o644))
			require.NoError(t, os.WriteFile(half+"/e100.ko", nil, 0o644))
			require.NoError(t, os.WriteFile(root+"/lib/modules/"+kernelB+"/modules.dep", nil, 0o644))
			exit, out := form.Upgrade(t, n.Root, root, "after-upgrade-chroot", true)
			require.Zero(t, exit, out)
			dep, err := os.ReadFile(root + "/lib/modules/" + kernelB + "/modules.dep")
			require.NoError(t, err)
			require.Contains(t, string(dep), "updates/fitout/intel-e100/e100.ko: updates/fitout/intel-e100/mii.ko")
		})
	}
}
