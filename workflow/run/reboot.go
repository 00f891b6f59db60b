package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/workflow/journal"
)

// errRestarting says that the node is on its way down; the run goes on after
// the boot, in another process.
var errRestarting = errors.New("the node restarts")

// restartLimit is how long a node may take to go down.
const restartLimit = 10 * time.Minute

// Reboot is the action that restarts the node in the middle of a run. Before,
// it puts a hook there that the next boot calls to go on with the run; after, it
// takes the hook away again.
type Reboot struct {
	// Hook is written where the host's boot finds it; OEM on hosts that keep
	// hooks there. One of them is set.
	Hook *host.WriteFiles `json:",omitempty"`
	OEM  *host.PutHook    `json:",omitempty"`
	// Into is the kernel that boots next, as far as the plan knew.
	Into string
	// Modules are those that the boot loads in place of the former ones.
	Modules []string
	// Trees are where fitout keeps modules, for Former.
	Trees []string
	// Former is what of Modules the kernel had before; BootID the boot that
	// ends. Both are measured by Prepare.
	Former *kmod.UnloadModules `json:",omitempty"`
	BootID string
}

// Kind implements hostops.Action.
func (*Reboot) Kind() string { return "reboot" }

// Describe implements hostops.Action.
func (a *Reboot) Describe() hostops.Description {
	d := hostops.Description{Title: "restart the node", Estimate: 5 * time.Minute, Limit: restartLimit}
	d.Text = append(d.Text, a.hook().Describe().Text...)
	d.Text = append(d.Text, "systemctl reboot (reboot where there is no systemd)",
		"after the boot this run goes on by itself: it removes what it wrote for that, and does the steps that follow")
	d.Undo = append(slices.Clone(a.hook().Describe().Undo), "after the boot: unload what it loaded and load what was loaded before")
	return d
}

func (a *Reboot) hook() hostops.Action {
	if a.OEM != nil {
		return a.OEM
	}
	return a.Hook
}

// Prepare implements hostops.Action.
func (a *Reboot) Prepare(ctx context.Context, n *hostops.Node) error {
	if a.BootID = bootID(n); a.BootID == "" {
		return errors.New("this kernel does not name its boots (/proc/sys/kernel/random/boot_id): whether the node was restarted could not be told")
	}
	a.Former = &kmod.UnloadModules{Names: a.Modules, Trees: a.Trees}
	if err := a.Former.Prepare(ctx, n); err != nil {
		return err
	}
	return a.hook().Prepare(ctx, n)
}

// restarted says that the node was restarted since Prepare.
func (a *Reboot) restarted(n *hostops.Node) bool { return a.BootID != "" && bootID(n) != a.BootID }

// Done implements hostops.Action.
func (a *Reboot) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	if !a.restarted(n) {
		return false, nil
	}
	there, err := a.hook().Done(ctx, n)
	return !there, err
}

// Do implements hostops.Action. It comes back with errRestarting when the node
// goes down.
func (a *Reboot) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if a.restarted(n) {
		return a.hook().Undo(ctx, n, out)
	}
	if err := a.hook().Do(ctx, n, out); err != nil {
		return fmt.Errorf("writing what goes on after the boot: %w", err)
	}
	if n.Simulated() {
		out.Line("simulated: the node is restarted")
		if err := n.WriteFile("/proc/sys/kernel/random/boot_id", []byte("after-"+a.BootID+"\n"), 0o444); err != nil {
			return err
		}
		return a.hook().Undo(ctx, n, out)
	}
	command := []string{"reboot"}
	if n.Exists("/run/systemd/system") {
		command = []string{"systemctl", "reboot"}
	}
	out.Line("restarting the node; the run goes on after the boot")
	if said, err := n.Exec.Run(ctx, command...); err != nil {
		return fmt.Errorf("restarting the node: %w: %s", err, said)
	}
	return errRestarting
}

// Undo implements hostops.Action. The boot itself stays; what it loaded does not.
func (a *Reboot) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	err := a.hook().Undo(ctx, n, out)
	if !a.restarted(n) || a.Former == nil {
		return err
	}
	now := &kmod.UnloadModules{Names: a.Modules, Trees: a.Trees}
	if perr := now.Prepare(ctx, n); perr != nil {
		return errors.Join(err, fmt.Errorf("taking what the boot loaded out of the kernel (the next boot does without it): %w", perr))
	}
	if derr := now.Do(ctx, n, out); derr != nil {
		return errors.Join(err, fmt.Errorf("taking what the boot loaded out of the kernel (the next boot does without it): %w", derr))
	}
	return errors.Join(err, a.Former.Undo(ctx, n, out))
}

// restart carries out a step that takes the node down. Signals are left to do
// what they do to any process: the shutdown's must not be taken for a person's
// wish to stop and undo.
func (r *runner) restart(ctx context.Context, i int, limit time.Duration) error {
	if err := r.state(i, journal.Rebooting, "", "", nil); err != nil {
		return fmt.Errorf("writing down that the node restarts: %w", err)
	}
	r.stop.end()
	out := &sink{w: r.w, step: r.plan.Steps[i].ID, n: i + 1}
	err := call(ctx, limit, r.o.Grace, nil, func(ctx context.Context) error { return r.actions[i].Do(ctx, r.n, out) })
	out.shut.Store(true)
	if !errors.Is(err, errRestarting) {
		r.watch(ctx)
	}
	return err
}

// WaitsForBoot is the run that a restart of the node, planned by itself, has
// interrupted, when that restart has come; "" for none. What a power cut has
// interrupted waits for a person.
func WaitsForBoot(n *hostops.Node, stateDir string) (string, error) {
	open, err := Unfinished(n, stateDir)
	if err != nil || open == nil || !open.Summary.Rebooting || open.Summary.BootID == bootID(n) {
		return "", err
	}
	return open.ID, nil
}
