package workflow_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
)

// deadKernel keeps the call that loads e100 until the test ends.
type deadKernel struct {
	hostops.Kernel
	release chan struct{}
}

func (k deadKernel) LoadModule(file *os.File, params string) error {
	if params == "debug=3" {
		<-k.release
		return os.ErrDeadlineExceeded
	}
	return k.Kernel.LoadModule(file, params)
}

// The load call itself never comes back. The run ends with its own exit code,
// undoes nothing below it, and no later run touches the module before a reboot.
func TestLoadThatHangsInTheKernelEndsTheRunAsHung(t *testing.T) {
	e := engineOn(t)
	k := deadKernel{e.Node.Kernel, make(chan struct{})}
	defer close(k.release)
	e.Node.Kernel = k
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNow), "e100")
	a.Devices[0].Parameters = map[string][]string{"e100": {"debug=3"}}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	for _, s := range p.Steps {
		if load, ok := s.Action.(*kmod.LoadModules); ok {
			load.Limit = 50 * time.Millisecond
		}
	}
	code, sum := execute(t, e, p)
	require.Equal(t, workflow.ExitHung, code, sum.Message)
	require.Equal(t, journal.OutcomeHung, sum.Outcome)
	require.Contains(t, sum.Message, "load hangs in the kernel; reboot the node, then: fitout rollback 2026-1130-01")
	require.True(t, e.Node.Exists("/sys/module/mii/initstate"), "what the stuck call may use stays")
	failed := sum.Steps[sum.Failed]
	require.Equal(t, journal.CodeHung, failed.Code)
	require.Contains(t, failed.Message, "its start-up code has not come back after 50ms; the call cannot be broken off")

	record, err := e.Node.ReadString("/run/fitout/lock")
	require.NoError(t, err)
	require.Contains(t, record, `"hung":"load"`)

	_, err = e.Plan(t.Context(), a, nil)
	require.Equal(t, workflow.ExitForbidden, workflow.ExitOf(err))
	require.ErrorContains(t, err, "step load of run 2026-1130-01 hangs in the kernel; only a reboot ends it")

	// So the kernel shows it, until the reboot.
	mods, err := e.Node.ReadFile("/proc/modules")
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile("/proc/modules", append([]byte("e100 28672 1 - Loading 0x0000000000000000 (OE+)\n"), mods...), 0o444))
	code, sum = execute(t, e, p)
	require.Equal(t, workflow.ExitUndone, code)
	require.Contains(t, sum.Message, `it is in the kernel already, in the state "Loading", and stays there; reboot the node`)
}

// crashingKernel oopses in e100's start-up code: the module stays half loaded.
type crashingKernel struct {
	hostops.Kernel
	n *hostops.Node
}

func (k crashingKernel) LoadModule(file *os.File, params string) error {
	if params != "debug=3" {
		return k.Kernel.LoadModule(file, params)
	}
	mods, err := k.n.ReadFile("/proc/modules")
	if err != nil {
		return err
	}
	if err := k.n.WriteFile("/proc/modules", append([]byte("e100 28672 1 - Loading 0x0000000000000000 (OE+)\n"), mods...), 0o444); err != nil {
		return err
	}
	return unix.EIO
}

func (k crashingKernel) UnloadModule(name string) error {
	if name == "e100" {
		return unix.EBUSY
	}
	return k.Kernel.UnloadModule(name)
}

// What crashed cannot be taken out again: the run says so, and the driver is not
// kept for the next boot, which would crash too.
func TestDriverThatCrashesIsNotKeptAndSaidToStay(t *testing.T) {
	e := engineOn(t)
	e.Node.Kernel = crashingKernel{e.Node.Kernel, e.Node}
	a := accepting(answersFor(driverImage(t, nodes.Release, nodes.Release, "e100"), answers.LoadNowPersist), "e100")
	a.Devices[0].Parameters = map[string][]string{"e100": {"debug=3"}}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	code, sum := execute(t, e, p)
	require.Equal(t, workflow.ExitNotUndone, code, sum.Message)
	require.Len(t, sum.NotUndone, 1)
	require.Contains(t, sum.NotUndone[0], "load mii, e100")
	require.False(t, e.Node.Exists("/etc/modprobe.d/fitout-e100.conf"))
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, st.Drivers)
}
