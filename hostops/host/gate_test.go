package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/elemental"
	"fitout/testdata/hosts"
)

// gated is a node that keeps the e100 driver for kernelA only.
func gated(t *testing.T, files map[string]string) (*hostops.Node, Family, string, Driver) {
	t.Helper()
	n := node(t, files)
	f := family(t, n)
	d := e100(t, n, kernelA)
	apply(t, n, mustPersist(t, f, d))
	return n, f, f.Layout().State, d
}

func ask(n *hostops.Node, state, kernel string, o GateOptions) GateResult {
	kept, _ := ReadKept(n, state)
	if o.Strength == "" {
		o.Strength = BlocksInstall
	}
	return Gate(context.Background(), n, state, Kernel{Release: kernel}, Persisted(kept), o)
}

func TestRefusalIsToldWherePeopleLookAndClearsItself(t *testing.T) {
	n, f, state, d := gated(t, hosts.Debian())
	require.True(t, ask(n, state, kernelA, GateOptions{}).Allow)

	r := ask(n, state, kernelB, GateOptions{})
	require.False(t, r.Allow)
	for _, word := range []string{kernelB, "intel-e100", "8086:1229", "fitout apply", "fitout allow " + kernelB} {
		require.Contains(t, r.Sentence(), word)
	}
	motd, err := n.ReadString(motdPath)
	require.NoError(t, err)
	require.Contains(t, motd, kernelB)
	blocked := ReadBlocked(n, state)
	require.Len(t, blocked, 1)
	require.True(t, blocked[0].Retryable)
	armed, stand := GateState(n, f.Facts())
	require.True(t, armed)
	require.Len(t, stand, 1)

	// An hour later a build arrives: the next attempt passes, nothing is to be
	// cleaned up by hand.
	d2 := e100(t, n, kernelA, kernelB)
	d2.Devices = d.Devices
	apply(t, n, mustPersist(t, f, d2))
	require.True(t, ask(n, state, kernelB, GateOptions{}).Allow)
	require.Empty(t, ReadBlocked(n, state))
	require.False(t, n.Exists(motdPath))
}

func TestSinceIsTheFirstRefusalAndCheckedTheLast(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	n.Now = func() time.Time { return at }
	ask(n, state, kernelB, GateOptions{})
	at = at.Add(time.Hour)
	ask(n, state, kernelB, GateOptions{})
	b := ReadBlocked(n, state)[0]
	require.Equal(t, 12, b.Since.Hour())
	require.Equal(t, 13, b.Checked.Hour())
}

func TestRehearsalChangesNothing(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	require.NoError(t, Allow(n, state, kernelB, "ops"))
	before := fingerprint(t, n)
	require.False(t, ask(n, state, kernelB, GateOptions{Rehearse: true}).Allow)
	require.Equal(t, before, fingerprint(t, n))
}

func TestOverrideLetsOneKernelThroughOnce(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	require.NoError(t, Allow(n, state, kernelB, "ops"))
	require.False(t, ask(n, state, kernelC, GateOptions{}).Allow, "not for another kernel")
	r := ask(n, state, kernelB, GateOptions{})
	require.True(t, r.Allow)
	require.Contains(t, r.Loud, "allowed once")
	require.False(t, ask(n, state, kernelB, GateOptions{}).Allow, "used up")
	require.Error(t, Allow(n, state, "../../etc/x", "ops"))
}

func TestGateAnswersByTheFilesNotByTheRecord(t *testing.T) {
	for name, damage := range map[string]func(n *hostops.Node, dir string) error{
		"module file gone": func(n *hostops.Node, dir string) error { return n.Remove(dir + "/updates/intel-e100/e100.ko") },
		"module file changed": func(n *hostops.Node, dir string) error {
			return n.WriteFile(dir+"/updates/intel-e100/e100.ko", []byte("x"), 0o644)
		},
		"index empty": func(n *hostops.Node, dir string) error { return n.WriteFile(dir+"/modules.dep", nil, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			n, f, state, _ := gated(t, hosts.Debian())
			require.NoError(t, damage(n, f.Layout().releaseDir(kernelA)))
			require.False(t, ask(n, state, kernelA, GateOptions{}).Allow)
		})
	}
}

func TestDamagedRecordIsNotNothingKept(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	require.NoError(t, n.WriteFile(keptPath(state, "intel-e100"), nil, 0o644))
	_, err := ReadKept(n, state)
	require.ErrorContains(t, err, "damaged")
	err = judgeKernel(context.Background(), n, state, Kernel{Release: kernelA}, GateOptions{Strength: BlocksInstall})
	require.ErrorContains(t, err, "refused unchecked", "an enforcing gate refuses")
	err = judgeKernel(context.Background(), n, state, Kernel{Release: kernelA}, GateOptions{Strength: Advisory})
	require.NoError(t, err, "an advisory one shouts")
	require.NoError(t, Allow(n, state, kernelA, "ops"))
	err = judgeKernel(context.Background(), n, state, Kernel{Release: kernelA}, GateOptions{Strength: BlocksInstall})
	require.NoError(t, err, "there is always a way out")
}

func TestDamagedRecordIsReadFromItsPreviousCopy(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Debian())
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA, kernelB)))
	require.NoError(t, n.WriteFile(keptPath(state, "intel-e100"), []byte("{"), 0o644))
	kept, err := ReadKept(n, state)
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestMissingDriverGoesOnLoudlyWhenTheAnswersSaySo(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	d := e100(t, n, kernelA)
	d.OnMissing = "continue"
	apply(t, n, mustPersist(t, f, d))
	r := ask(n, f.Layout().State, kernelB, GateOptions{})
	require.True(t, r.Allow)
	require.NotEmpty(t, r.Loud)
	require.Len(t, r.Misses, 1)
}

func TestAtBootDriverGatesNothing(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	actions, err := f.AtBoot(e100(t, n, kernelA))
	require.NoError(t, err)
	apply(t, n, actions)
	require.True(t, ask(n, f.Layout().State, kernelB, GateOptions{}).Allow)
	require.False(t, n.Exists("/etc/kernel/preinst.d/fitout"))
}

func TestGateCuresFromWhatTheStoreHolds(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Debian())
	build := func(_ context.Context, d Driver, k Kernel) (*Build, error) {
		b := e100(t, n, k.Release).Builds[k.Release]
		return &b, nil
	}
	r := ask(n, state, kernelB, GateOptions{Build: build})
	require.True(t, r.Allow)
	require.Equal(t, []string{"intel-e100"}, r.Cured)
	require.True(t, ask(n, state, kernelB, GateOptions{}).Allow, "and it stays")

	before := fingerprint(t, n)
	r = ask(n, state, kernelC, GateOptions{Build: func(context.Context, Driver, Kernel) (*Build, error) { return nil, errors.New("registry: timeout") }})
	require.False(t, r.Allow)
	require.Equal(t, kernelC, ReadBlocked(n, state)[0].Kernel)
	_ = n.Remove(motdPath)
	require.NoError(t, n.RemoveAll(state+"/blocked"))
	_ = n.Remove("/run/motd.d")
	require.Equal(t, before, fingerprint(t, n))

	// What the gate added is removed with the driver.
	apply(t, n, remove(t, f, "intel-e100"))
	require.False(t, n.Exists(f.Layout().releaseDir(kernelB)))
}

func TestDeviceThatLosesItsOwnDriverBlocksToo(t *testing.T) {
	n := node(t, hosts.Debian())
	r := Gate(context.Background(), n, ordinaryState, Kernel{Release: kernelB}, nil, GateOptions{Strength: BlocksInstall, Rehearse: true,
		Losses: []Miss{{Driver: "qlcnic", Devices: []string{"0000:01:00.0"}, Reason: "no module of that kernel drives it"}}})
	require.False(t, r.Allow)
	require.Contains(t, r.Sentence(), "0000:01:00.0")
	_, err := json.Marshal(r)
	require.NoError(t, err)
}

func TestRefusedKernelPackageLeavesNoOrphanDirectory(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	flag := "/lib/modules/" + kernelB + "/.fresh-install"
	require.NoError(t, n.WriteFile(flag, nil, 0o644))
	err := HookKernelPreinst(context.Background(), n, state, kernelB, GateOptions{})
	require.ErrorIs(t, err, ErrRefused)
	require.False(t, n.Exists("/lib/modules/"+kernelB))

	require.NoError(t, n.WriteFile("/lib/modules/"+kernelB+"/kernel/x.ko", nil, 0o644))
	require.Error(t, HookKernelPreinst(context.Background(), n, state, kernelB, GateOptions{}))
	require.True(t, n.Exists("/lib/modules/"+kernelB+"/kernel/x.ko"), "somebody else's modules")
}

func TestLastCoveredKernelIsProtected(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Merge(hosts.Debian(), hosts.Kernel("/lib/modules", kernelB), map[string]string{"/boot/vmlinuz-" + kernelB: ""}))
	ctx := context.Background()
	require.NoError(t, HookKernelPrerm(ctx, n, state, kernelB), "it has no driver: let it go")
	require.ErrorIs(t, HookKernelPrerm(ctx, n, state, kernelA), ErrRefused)
	require.NoError(t, Allow(n, state, kernelA, "ops"))
	require.NoError(t, HookKernelPrerm(ctx, n, state, kernelA))
	require.Error(t, HookKernelPrerm(ctx, n, state, kernelA), "once")
}

// TestKernelHookScripts runs the scripts by run-parts, as Debian's kernel
// packages do, in a chroot: with the program refusing, and with it missing.
func TestKernelHookScripts(t *testing.T) {
	for _, c := range []struct {
		name, program, dir string
		exit               int
		says               string
	}{
		{"refused before unpacking", "#!/bin/sh\necho \"no driver for $5\" >&2\nexit 6\n", "preinst.d", 1, "no driver for " + kernelB},
		{"let through", "#!/bin/sh\nexit 0\n", "preinst.d", 0, ""},
		{"program missing: refused, and said", "", "preinst.d", 1, "NOT checked"},
		{"program missing: the last kernel is kept too", "", "prerm.d", 1, "removal of kernel " + kernelB + " refused"},
		{"postinst never stops the chain", "#!/bin/sh\nexit 6\n", "postinst.d", 0, "first boot"},
		{"postinst without the program", "", "postinst.d", 0, "no index"},
		{"last kernel kept", "#!/bin/sh\nexit 6\n", "prerm.d", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := elemental.NewRoot(t)
			elemental.CopyProgram(t, root, "/usr/bin/run-parts", "/usr/bin/run-parts")
			n := hostops.At(root, nil)
			for _, f := range kernelHooks(Layout{State: ordinaryState}) {
				require.NoError(t, n.WriteFile(f.Path, []byte(f.Content), f.Mode))
			}
			if c.program != "" {
				require.NoError(t, n.WriteFile("/var/lib/fitout/bin/fitout", []byte(c.program), 0o755))
			}
			out, err := exec.Command("chroot", root, "/usr/bin/run-parts", "--report", "--exit-on-error", "--arg="+kernelB, "--arg=/boot/vmlinuz-"+kernelB, "/etc/kernel/"+c.dir).CombinedOutput()
			require.Equal(t, c.exit, exitOf(err), string(out))
			require.Contains(t, string(out), c.says)
		})
	}
}

func exitOf(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

func TestStagedDeploymentWithoutItsDriverIsNotFinalised(t *testing.T) {
	n, f, state, _ := gated(t, hosts.OSTree(true))
	ctx := context.Background()
	err := HookOstreeFinalize(ctx, n, state, GateOptions{})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, kernelB)
	require.Error(t, HookOstreeStaged(ctx, n, f.Layout(), GateOptions{}), "told while there is still time")

	require.NoError(t, Allow(n, state, kernelB, "ops"))
	require.NoError(t, HookOstreeStaged(ctx, n, f.Layout(), GateOptions{}))
	require.NoError(t, HookOstreeWait(ctx, n, state, time.Millisecond), "reboots are not held any more")
	require.NoError(t, HookOstreeFinalize(ctx, n, state, GateOptions{}), "looking did not use the override up")
	require.Error(t, HookOstreeFinalize(ctx, n, state, GateOptions{}), "finalising did")

	require.NoError(t, n.Remove(StagedDeployment))
	require.NoError(t, HookOstreeFinalize(ctx, n, state, GateOptions{}), "nothing is staged")
}

func TestStagedDeploymentWithABuildIsFinalised(t *testing.T) {
	n := node(t, hosts.OSTree(true))
	f := family(t, n)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA, kernelB)))
	require.NoError(t, HookOstreeFinalize(context.Background(), n, f.Layout().State, GateOptions{}))
	link, err := n.Readlink(f.Layout().releaseDir(kernelB) + "/kernel")
	require.NoError(t, err)
	require.Equal(t, "/usr/lib/modules/"+kernelB+"/kernel", link, "where it is once it runs")
	dep, err := n.ReadString(f.Layout().releaseDir(kernelB) + "/modules.dep")
	require.NoError(t, err)
	require.Contains(t, dep, "kernel/lib/crc.ko", "read from the staged deployment")
}

func TestFinaliseDropInRepeatsTheUnitsOwnCommandLast(t *testing.T) {
	n, f, _, _ := gated(t, hosts.OSTree(false))
	text, err := n.ReadString(f.Layout().UnitDir + "/ostree-finalize-staged.service.d/10-fitout.conf")
	require.NoError(t, err)
	lines := strings.Split(text, "\n")
	require.Equal(t, "ExecStop=", lines[2], "clears the unit's list")
	require.Contains(t, lines[3], "hook ostree-finalize")
	require.Equal(t, "ExecStop=/usr/bin/ostree admin finalize-staged", lines[4])
	require.True(t, n.Exists(f.Layout().UnitDir+"/"+holdUnit), "Zincati reboots by itself here")
}

func TestOperatorOwnedUpdatesAreOnlyReported(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Merge(hosts.OSTree(true), map[string]string{"/etc/os-release": "ID=rhcos\n"}))
	require.False(t, n.Exists(f.Layout().UnitDir+"/ostree-finalize-staged.service.d"))
	require.NoError(t, HookOstreeStaged(context.Background(), n, f.Layout(), GateOptions{}))
	require.Empty(t, ReadBlocked(n, state))
}

func TestUpgradeIsHeldUntilTheBuildArrives(t *testing.T) {
	files := hosts.Merge(hosts.Harvester(), hosts.Kernel("/tmp/rootfs/usr/lib/modules", kernelB), map[string]string{
		"/proc/50/cmdline": "sh\x00-c\x00fitout\x00", "/proc/50/stat": "50 (sh (x)) S 40 1 1\n",
		"/proc/40/cmdline": "/tmp/elemental\x00upgrade\x00--logfile\x00l\x00--directory\x00/tmp/rootfs\x00--debug\x00", "/proc/40/stat": "40 (elemental) S 1 1 1\n",
	})
	ctx := context.Background()
	t.Run("until the limit", func(t *testing.T) {
		n, f, state, _ := gated(t, files)
		at := time.Now()
		n.Now = func() time.Time { at = at.Add(time.Minute); return at }
		err := HookBeforeUpgrade(ctx, n, f.Layout(), 50, 5*time.Minute, time.Millisecond)
		require.ErrorContains(t, err, kernelB)
		require.Len(t, ReadBlocked(n, state), 1)
	})
	t.Run("released by hand", func(t *testing.T) {
		n, f, _, _ := gated(t, files)
		require.NoError(t, n.WriteFile(ReleaseFile, nil, 0o644))
		require.NoError(t, HookBeforeUpgrade(ctx, n, f.Layout(), 50, time.Hour, time.Millisecond))
		require.False(t, n.Exists(ReleaseFile), "once")
	})
	t.Run("a build arrives", func(t *testing.T) {
		n, f, _, _ := gated(t, files)
		done := make(chan struct{})
		go func() {
			defer close(done)
			actions, err := f.Persist(e100(t, n, kernelA, kernelB), "auto")
			if err == nil {
				for _, a := range actions {
					if ok, _ := a.Done(ctx, n); !ok && a.Prepare(ctx, n) == nil {
						_ = a.Do(ctx, n, &lines{})
					}
				}
			}
		}()
		err := HookBeforeUpgrade(ctx, n, f.Layout(), 50, time.Minute, 5*time.Millisecond)
		<-done
		require.NoError(t, err)
	})
	t.Run("source not readable", func(t *testing.T) {
		n, f, state, _ := gated(t, hosts.Harvester())
		require.NoError(t, HookBeforeUpgrade(ctx, n, f.Layout(), 50, time.Minute, time.Millisecond))
		log, err := n.ReadString(state + "/hook.log")
		require.NoError(t, err)
		require.Contains(t, log, "NOT checked")
	})
}

func TestHookVerbsAreThoseOfTheScripts(t *testing.T) {
	n, f, _, _ := gated(t, hosts.Debian())
	texts := append(kernelHooks(f.Layout()), ostreeTexts(n, Layout{State: ordinaryState, UnitDir: "/u", HoldInhibitor: true}, true)...)
	texts = append(texts, unitTexts(f.Layout())...)
	found := 0
	for _, x := range texts {
		for _, part := range strings.Split(x.Content, " hook ")[1:] {
			verb := strings.Fields(part)[0]
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			err := Hook(ctx, n, []string{verb, "--state", ordinaryState, kernelA}, nil)
			if err != nil {
				require.NotContains(t, err.Error(), "not known", x.Path)
			}
			found++
		}
	}
	require.GreaterOrEqual(t, found, 7)
	require.ErrorContains(t, Hook(context.Background(), n, []string{"nonsense"}, nil), "not known")
	require.NoError(t, os.RemoveAll(n.Root))
}

// A host without a gate does not have an advisory one.
func TestRehearsalWhereNothingStopsAnUpgradeSaysSo(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	r := ask(n, state, kernelB, GateOptions{Strength: NoGate, Rehearse: true})
	require.True(t, r.Allow)
	require.Contains(t, r.Sentence(), "let through (nothing on this host stops an upgrade)")
}
