package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fitout/hostops"
)

// stagedKernel is the kernel of the staged deployment, nil for none.
func stagedKernel(n *hostops.Node) *Kernel {
	for _, d := range deployments(n) {
		if slices.Contains(d.roles, Staged) {
			return &Kernel{Release: d.release, OSRoot: d.dir, Dir: d.dir + "/usr/lib/modules/" + d.release, Roles: d.roles}
		}
	}
	return nil
}

// HookOstreeFinalize stands in front of the finalisation at shutdown: an error
// keeps the staged deployment from becoming the default. A build that is on the
// node is still put in place then; the network is going down.
func HookOstreeFinalize(ctx context.Context, n *hostops.Node, state string, o GateOptions) error {
	k := stagedKernel(n)
	if k == nil {
		return nil
	}
	o.Strength = BlocksFinalize
	return judgeKernel(ctx, n, state, *k, o)
}

// HookOstreeStaged looks at a deployment as soon as it is staged, while there
// is still time to cure: it tells people, and holds reboots where an agent
// would make them in a loop.
func HookOstreeStaged(ctx context.Context, n *hostops.Node, l Layout, o GateOptions) error {
	k := stagedKernel(n)
	if k == nil {
		return nil
	}
	o.Look, o.Strength = true, BlocksFinalize
	if l.Gate == "ostree-advice" {
		o.Strength = Advisory
	}
	err := judgeKernel(ctx, n, l.State, *k, o)
	if !l.HoldInhibitor {
		return err
	}
	if err != nil {
		_ = systemctl(ctx, n, "start", "--no-block", holdUnit)
		return err
	}
	return systemctl(ctx, n, "stop", holdUnit)
}

// HookOstreeReboot stands where an agent's own reboot would be: it reboots when
// a deployment is staged and its kernel has every driver, or was allowed.
func HookOstreeReboot(ctx context.Context, n *hostops.Node, state string, o GateOptions) error {
	k := stagedKernel(n)
	if k == nil {
		return nil
	}
	o.Look, o.Strength = true, BlocksFinalize
	if err := judgeKernel(ctx, n, state, *k, o); err != nil {
		return fmt.Errorf("no reboot into the update: %w", err)
	}
	return systemctl(ctx, n, "reboot")
}

// HookOstreeWait runs under the shutdown inhibitor: it ends, and lets go, when
// nothing is left to hold reboots for.
func HookOstreeWait(ctx context.Context, n *hostops.Node, state string, every time.Duration) error {
	for holds(ctx, n, state) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return nil
}

// holds says whether an agent's reboots are to be held: an uncovered kernel is
// staged and was not allowed. With nothing staged, a refusal that stands holds
// too: the agent will stage that kernel again and reboot at once, sooner than
// anybody can look at it.
func holds(ctx context.Context, n *hostops.Node, state string) bool {
	if k := stagedKernel(n); k != nil {
		if n.Exists(allowPath(state, k.Release)) {
			return false
		}
		kept, err := readKept(n, state)
		return err != nil || !Gate(ctx, n, state, *k, Persisted(kept), GateOptions{Rehearse: true, Strength: BlocksFinalize, Losses: Losses(n, *k, kept)}).Allow
	}
	ClearBlocked(n, state)
	for _, b := range ReadBlocked(n, state) {
		if !n.Exists(allowPath(state, b.Kernel)) {
			return true
		}
	}
	return false
}

// holdAtBoot takes up the hold of the boot before, which ended in a refusal.
func holdAtBoot(ctx context.Context, n *hostops.Node, l Layout) {
	if !l.HoldInhibitor || len(ReadBlocked(n, l.State)) == 0 {
		return
	}
	if err := systemctl(ctx, n, "start", "--no-block", holdUnit); err != nil {
		n.Log.Warn("reboots are not held", "err", err)
	}
}
