package host

import (
	"context"
	"errors"
	"fmt"

	"fitout/hostops"
)

// ErrRefused marks a hook's "no": the gate worked and refuses.
var ErrRefused = errors.New("refused")

// refusal is a gate's sentence as an error.
type refusal struct{ GateResult }

func (r refusal) Error() string { return r.Sentence() }

func (r refusal) Unwrap() error { return ErrRefused }

// judgeKernel asks the gate and turns "no" into an error.
func judgeKernel(ctx context.Context, n *hostops.Node, state string, k Kernel, o GateOptions) error {
	kept, err := soundKept(n, state)
	if err != nil {
		if o.Strength == Advisory {
			shout(ctx, n, "fitout: "+err.Error()+"; kernel "+k.Release+" is NOT checked")
			return nil
		}
		if o.overridden(n, state, k.Release) {
			shout(ctx, n, "fitout: kernel "+k.Release+" let through unchecked (allowed once by the administrator): "+err.Error())
			return nil
		}
		err = fmt.Errorf("kernel %s %w unchecked: %w. To let it through once: fitout allow %s", k.Release, ErrRefused, err, k.Release)
		shout(ctx, n, "fitout: "+err.Error())
		return err
	}
	o.Losses = append(o.Losses, Losses(n, k, kept)...)
	if r := Gate(ctx, n, state, k, Persisted(kept), o); !r.Allow {
		return refusal{r}
	}
	return nil
}

// HookKernelPreinst is Debian's preinst.d gate: it refuses a kernel package
// before it is unpacked. The package's script has made a directory for its
// flag by then; it is removed with it, so that no orphan is left.
func HookKernelPreinst(ctx context.Context, n *hostops.Node, state, release string, o GateOptions) error {
	o.Strength = BlocksInstall
	err := judgeKernel(ctx, n, state, Kernel{Release: release, OSRoot: "/", Roles: []Role{Staged}}, o)
	if err != nil {
		dir := "/lib/modules/" + release
		if entries, rerr := n.ReadDir(dir); rerr == nil && onlyFlag(entries) {
			_ = n.Remove(dir + "/.fresh-install")
			_ = n.Remove(dir)
		}
	}
	return err
}

func onlyFlag[E interface{ Name() string }](entries []E) bool {
	for _, e := range entries {
		if e.Name() != ".fresh-install" {
			return false
		}
	}
	return true
}

// HookKernelPostinst makes the indexes of the side tree for a kernel that was
// just installed. It gates nothing.
func HookKernelPostinst(ctx context.Context, n *hostops.Node, state, release string) error {
	if _, err := n.ReadDir(treeDir(state) + "/lib/modules/" + release + "/updates"); err != nil {
		return nil // no driver has a build for it: nothing to index
	}
	if err := Reindex(ctx, n, state, release, ""); err != nil {
		return err
	}
	ClearBlocked(n, state)
	return nil
}

// HookKernelPrerm protects the last installed kernel that has every persisted
// driver from being removed.
func HookKernelPrerm(ctx context.Context, n *hostops.Node, state, release string) error {
	kept, err := soundKept(n, state)
	if err != nil {
		if useAllowance(n, state, release) {
			return nil
		}
		return fmt.Errorf("removal of kernel %s %w unchecked: %w. To let it go once: fitout allow %s", release, ErrRefused, err, release)
	}
	drivers := Persisted(kept)
	rehearse := func(k Kernel) bool {
		return len(Gate(ctx, n, state, k, drivers, GateOptions{Rehearse: true}).Misses) == 0
	}
	if len(drivers) == 0 || !rehearse(Kernel{Release: release}) {
		return nil
	}
	for _, k := range installedKernels(n, runningKernel(n)) {
		if k.Release != release && n.Exists(k.Dir+"/modules.dep") && rehearse(k) {
			return nil
		}
	}
	if useAllowance(n, state, release) {
		return nil
	}
	return fmt.Errorf("removal of kernel %s %w: it is the last installed one that has every kept driver; install and keep another one first, or let it go once with `fitout allow %s`", release, ErrRefused, release)
}
