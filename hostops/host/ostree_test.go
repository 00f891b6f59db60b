package host

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

func TestDeploymentsAreReadAsTheirOwnToolsTellThem(t *testing.T) {
	for _, status := range []string{"rpm-ostree-staged", "rpm-ostree-pending", "bootc-staged", "bootc-rollback"} {
		t.Run(status, func(t *testing.T) {
			told := hosts.Status(t, status)
			want := map[string][]Role{}
			next := true
			for _, d := range told {
				role := []Role{Fallback}
				switch {
				case d.Staged:
					role = []Role{Staged}
				case d.Booted:
					role = []Role{Running}
					// What is staged will be the default.
					if next && !told[0].Staged {
						role = append(role, Next)
					}
				case next:
					role = []Role{Next}
				}
				next = next && d.Staged
				want[path.Base(d.Dir())] = role
			}
			got := map[string][]Role{}
			for _, d := range deployments(node(t, hosts.Sysroot(told))) {
				got[path.Base(d.dir)] = d.roles
			}
			require.Equal(t, want, got)
		})
	}
}

func TestADeploymentThatIsRefusedNeedsNoReboot(t *testing.T) {
	for status, waits := range map[string]struct{ as, refused bool }{
		"rpm-ostree-staged": {true, false}, "bootc-staged": {true, false}, "bootc-rollback": {false, false},
		"rpm-ostree-pending": {true, true}, // below the staged one, another waits
	} {
		told := hosts.Status(t, status)
		n := node(t, hosts.Sysroot(told))
		require.Equal(t, waits.as, ImageWaiting(n), status)
		require.Equal(t, waits.refused, ImageWaiting(n, Blocked{GateResult: GateResult{Kernel: told[0].Kernel}}), status)
	}
}

func TestMachineConfigOperatorsHostsAreOnlyAdvised(t *testing.T) {
	for name, release := range map[string]string{
		"rhcos": "ID=rhcos\n", "scos": "ID=scos\nID_LIKE=\"rhel fedora\"\n",
		"rhel in the variant coreos":   "ID=rhel\nVARIANT_ID=coreos\n",
		"centos in the variant coreos": "ID=centos\nVARIANT_ID=coreos\n",
		"said by the cluster":          "ID=rhel\nOPENSHIFT_VERSION=\"4.19\"\n",
	} {
		f := Detect(node(t, hosts.OSTree(true), hosts.Files{"/etc/os-release": release})).Facts()
		require.Equal(t, Advisory, f.Gate, name)
		require.Contains(t, f.Title, "machine-config operator", name)
	}
	for name, release := range map[string]string{
		"Fedora CoreOS": "ID=fedora\nVARIANT_ID=coreos\n", "Fedora IoT": "ID=fedora\nVARIANT_ID=iot\n",
		"Silverblue": "ID=fedora\nVARIANT_ID=silverblue\n", "Bazzite": "ID=bazzite\nID_LIKE=fedora\n",
		"RHEL image mode": "ID=rhel\n", "CentOS bootc": "ID=centos\n", "Endless": "ID=endless\n",
	} {
		f := Detect(node(t, hosts.OSTree(true), hosts.Files{"/etc/os-release": release})).Facts()
		require.Equal(t, "ostree", f.Family, name)
		require.Equal(t, BlocksFinalize, f.Gate, name)
	}
}

// services plays systemctl, and remembers whether reboots are held.
type services struct {
	held    bool
	reboots int
}

func (s *services) Look(string) bool { return true }

func (s *services) Run(_ context.Context, argv ...string) ([]byte, error) {
	switch strings.Join(argv, " ") {
	case "systemctl start --no-block " + holdUnit:
		s.held = true
	case "systemctl stop " + holdUnit:
		s.held = false
	case "systemctl reboot":
		s.reboots++
	}
	return nil, nil
}

// booted is a node with systemd, as it is before each boot's first hook.
func booted(t *testing.T, files hosts.Files) (*hostops.Node, Family, string, *services) {
	t.Helper()
	n, f, state, _ := gated(t, hosts.Merge(files, hosts.Files{"/run/systemd/system/x": ""}))
	s := &services{}
	n.Exec = s
	return n, f, state, s
}

// An agent that stages and reboots at once is quicker than any look at what it
// staged. Zincati asks rpm-ostree, which asks for inhibitor locks before it
// finalises: after one refusal the lock is there from the boot on.
func TestAnAgentThatRebootsAtOnceDoesNotLoop(t *testing.T) {
	n, f, state, s := booted(t, hosts.OSTree(false))
	ctx := context.Background()
	staged := []byte("target\x00name\x00" + hosts.SumB + ".0\x00")
	reboots := 0
	for range 5 {
		require.NoError(t, n.WriteFile(StagedDeployment, staged, 0o644))
		if s.held {
			continue // rpm-ostree: "Reboot blocked by a systemd inhibitor lock"
		}
		reboots++
		require.ErrorIs(t, HookOstreeFinalize(ctx, n, state, GateOptions{}), ErrRefused)
		require.NoError(t, n.Remove(StagedDeployment), "/run is emptied")
		_, _ = HookBoot(ctx, n, f.Layout())
	}
	require.Equal(t, 1, reboots)
	require.True(t, holds(ctx, n, state))

	require.NoError(t, Allow(n, state, kernelB, "ops"))
	require.False(t, holds(ctx, n, state), "allowed")
	require.NoError(t, n.Remove(allowPath(state, kernelB)))

	require.NoError(t, n.Remove(StagedDeployment))
	require.True(t, holds(ctx, n, state), "the refusal stands")
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA, kernelB)))
	require.False(t, holds(ctx, n, state), "the build is here")
	require.Empty(t, ReadBlocked(n, state))
}

// The look at what is staged takes its time; the administrator does not wait for it.
func TestAnOverrideGivenDuringTheLookIsLeftForTheFinalisation(t *testing.T) {
	n, f, state, _ := booted(t, hosts.OSTree(true))
	meanwhile := GateOptions{Build: func(context.Context, Driver, Kernel) (*Build, error) {
		return nil, Allow(n, state, kernelB, "ops")
	}}
	require.NoError(t, HookOstreeStaged(context.Background(), n, f.Layout(), meanwhile))
	require.NoError(t, HookOstreeFinalize(context.Background(), n, state, GateOptions{}))
	require.ErrorIs(t, HookOstreeFinalize(context.Background(), n, state, GateOptions{}), ErrRefused, "once")
}

func TestARefusalIsForgottenWhenAnotherKernelHasBooted(t *testing.T) {
	n, f, state, s := booted(t, hosts.OSTree(true))
	require.Error(t, HookOstreeFinalize(context.Background(), n, state, GateOptions{}))
	_, _ = HookBoot(context.Background(), n, f.Layout())
	require.Len(t, ReadBlocked(n, state), 1)
	require.True(t, s.held)

	s.held = false
	require.NoError(t, n.WriteFile("/proc/sys/kernel/osrelease", []byte(kernelC+"\n"), 0o644))
	_, _ = HookBoot(context.Background(), n, f.Layout())
	require.Empty(t, ReadBlocked(n, state))
	require.False(t, s.held)
}

const bootcUnit = "/usr/lib/systemd/system/bootc-fetch-apply-updates.service"

func TestRebootOfAnAgentThatAsksNobodyIsTakenOver(t *testing.T) {
	files := hosts.Merge(hosts.OSTree(false), hosts.Files{
		bootcUnit: "[Unit]\nConditionPathExists=/run/ostree-booted\n[Service]\nType=oneshot\nExecStart=/usr/bin/bootc update --apply --quiet\n",
		"/usr/lib/systemd/system/bootc-fetch-apply-updates.timer": "[Timer]\nOnBootSec=1h\n",
	})
	n, f, state, s := booted(t, files)
	dropIn := f.Layout().UnitDir + "/bootc-fetch-apply-updates.service.d/10-fitout.conf"
	text, err := n.ReadString(dropIn)
	require.NoError(t, err)
	lines := strings.Split(text, "\n")
	require.Equal(t, []string{"ExecStart=", "ExecStart=/usr/bin/bootc update --quiet"}, lines[2:4])
	require.Contains(t, lines[4], "hook ostree-reboot")

	ctx := context.Background()
	require.NoError(t, HookOstreeReboot(ctx, n, state, GateOptions{}))
	require.Zero(t, s.reboots, "nothing is staged")
	require.NoError(t, n.WriteFile(StagedDeployment, []byte("target\x00name\x00"+hosts.SumB+".0\x00"), 0o644))
	require.ErrorIs(t, HookOstreeReboot(ctx, n, state, GateOptions{}), ErrRefused)
	require.Zero(t, s.reboots, "its kernel lacks the driver")
	require.NoError(t, Allow(n, state, kernelB, "ops"))
	require.NoError(t, HookOstreeReboot(ctx, n, state, GateOptions{}))
	require.Equal(t, 1, s.reboots)
	require.NoError(t, HookOstreeFinalize(ctx, n, state, GateOptions{}), "the override is for the finalisation")

	apply(t, n, remove(t, f, "intel-e100"))
	require.False(t, n.Exists(dropIn))
}

func TestAnAgentThatDoesNotRebootIsLeftAlone(t *testing.T) {
	for _, exec := range []string{"/usr/bin/bootc upgrade --quiet", ""} {
		n := node(t, hosts.OSTree(false), hosts.Files{
			bootcUnit: "[Service]\nExecStart=" + exec + "\n",
			"/usr/lib/systemd/system/bootc-fetch-apply-updates.timer": "",
		})
		require.Empty(t, agentTexts(n, Layout{State: ordinaryState, UnitDir: "/u"}), exec)
	}
}

func TestALossOfTheOSsOwnDriverIsNotClearedByAKeptOne(t *testing.T) {
	n, _, state, _ := gated(t, hosts.OSTree(true))
	loss := Miss{Driver: "ahci", Devices: []string{"0000:00:1f.2"}, Reason: "no module of " + kernelA + " drives it"}
	require.False(t, ask(n, state, kernelA, GateOptions{Losses: []Miss{loss}}).Allow)
	require.Equal(t, 1, ClearBlocked(n, state))
	require.True(t, ask(n, state, kernelA, GateOptions{}).Allow)
	require.Empty(t, ReadBlocked(n, state))
}
