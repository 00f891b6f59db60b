package host

import (
	"context"
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
// keeps the staged deployment from becoming the default. Nothing is fetched
// then: the network is going down.
func HookOstreeFinalize(ctx context.Context, n *hostops.Node, state string) error {
	k := stagedKernel(n)
	if k == nil {
		return nil
	}
	return judgeKernel(ctx, n, state, *k, GateOptions{Strength: BlocksFinalize})
}

// HookOstreeStaged looks at a deployment as soon as it is staged, while there
// is still time to cure: it tells people, and holds reboots where an agent
// would make them in a loop.
func HookOstreeStaged(ctx context.Context, n *hostops.Node, l Layout, o GateOptions) error {
	k := stagedKernel(n)
	if k == nil {
		return nil
	}
	o.Strength = BlocksFinalize
	if l.Gate == "ostree-advice" {
		o.Strength = Advisory
	}
	// The override is for the finalisation itself: looking must not use it up.
	if n.Exists(allowPath(l.State, k.Release)) {
		return nil
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

// HookOstreeWait runs under the shutdown inhibitor: it ends, and lets go, when
// no uncovered kernel is staged any more or an override was given.
func HookOstreeWait(ctx context.Context, n *hostops.Node, state string, every time.Duration) error {
	for {
		k := stagedKernel(n)
		if k == nil || n.Exists(allowPath(state, k.Release)) {
			return nil
		}
		kept, err := readKept(n, state)
		if err == nil && Gate(ctx, n, state, *k, Persisted(kept), GateOptions{Rehearse: true, Strength: BlocksFinalize, Losses: Losses(n, *k, kept)}).Allow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
