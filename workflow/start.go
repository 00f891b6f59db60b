package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/hostops/node"
	"fitout/workflow/actions"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// Kinds is every kind of action a plan may hold: the runner finds the code of a
// journalled step here.
func Kinds() plan.Kinds {
	k := plan.Kinds{
		"fetch-image":    func() hostops.Action { return &actions.Fetch{} },
		"stage-files":    func() hostops.Action { return &actions.Stage{} },
		"verify-devices": func() hostops.Action { return &actions.Verify{} },
		"remove-tree":    func() hostops.Action { return &actions.RemoveTree{} },

		"load-modules":      func() hostops.Action { return &kmod.LoadModules{} },
		"unload-modules":    func() hostops.Action { return &kmod.UnloadModules{} },
		"bind-devices":      func() hostops.Action { return &kmod.BindDevices{} },
		"set-firmware-path": func() hostops.Action { return &kmod.SetFirmwarePath{} },
	}
	maps.Copy(k, run.Kinds())
	maps.Copy(k, node.Kinds())
	for _, make := range host.Actions() {
		k[make().Kind()] = make
	}
	return k
}

// self is the command line that reaches this program on this node again.
func (e *Engine) self() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's own file: %w", err)
	}
	if e.Node.Simulated() {
		return []string{exe, "--root", e.Node.Root}, nil
	}
	return []string{exe}, nil
}

// Start writes a plan into a new run and starts its runner, a process of its
// own; it returns the run's id.
func (e *Engine) Start(_ context.Context, p *plan.Plan) (string, error) {
	self, err := e.self()
	if err != nil {
		return "", err
	}
	set, err := actions.ReadSettings(e.Node)
	if err != nil {
		return "", err
	}
	if _, err := run.Prune(e.Node, e.StateDir(), set.Runs.Keep); err != nil {
		e.Node.Log.Warn("old runs were not deleted", "err", err)
	}
	id, err := run.Start(e.Node, e.StateDir(), p, self)
	return id, runError(err)
}

// Resume starts a runner that goes on with a run that was cut short.
func (e *Engine) Resume(_ context.Context, id string) error {
	self, err := e.self()
	if err != nil {
		return err
	}
	return runError(run.Resume(e.Node, e.StateDir(), id, self))
}

// Rollback starts a runner that undoes a run.
func (e *Engine) Rollback(_ context.Context, id string) error {
	self, err := e.self()
	if err != nil {
		return err
	}
	return runError(run.StartRollback(e.Node, e.StateDir(), id, self))
}

// RollbackText says what undoing a run would do.
func (e *Engine) RollbackText(ctx context.Context, id string) ([]string, error) {
	if err := run.CanRollback(e.Node, e.StateDir(), id); err != nil {
		return nil, runError(err)
	}
	in, err := run.Inspect(ctx, e.Node, run.Dir(e.StateDir(), id), Kinds())
	if err != nil {
		return nil, runError(err)
	}
	return in.Lines(), nil
}

// Execute is the runner's main: it carries out the run whose id is given and
// returns the exit code.
func (e *Engine) Execute(ctx context.Context, id string, o run.Options) int {
	code := run.Execute(ctx, e.Node, run.Dir(e.StateDir(), id), Kinds(), o)
	if code == ExitDone {
		e.tidyAfterFetch("")
	}
	return code
}

// spaceCure is the cure of a run that found no room for its own record.
var spaceCure = finding.New("no-space", "", "", "").Hint

// runError gives the reasons for which a run does not start their exit codes.
func runError(err error) error {
	var held *run.LockedError
	var broken *run.BrokenError
	var refused *run.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return &Error{Exit: ExitLocked, Code: "locked", Message: err.Error(), Hint: "watch it with: fitout attach", Err: err}
	case errors.As(err, &broken):
		return &Error{Exit: ExitForbidden, Code: "run-unfinished", Message: err.Error(), Err: err}
	case errors.Is(err, run.ErrBuiltOn):
		return &Error{Exit: ExitForbidden, Code: "built-on", Message: err.Error(), Err: err}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &Error{Exit: ExitForbidden, Code: "no-space", Message: err.Error(), Hint: spaceCure, Err: err}
	case errors.Is(err, run.ErrFinal):
		return &Error{Exit: ExitForbidden, Code: "removed-for-good", Message: err.Error(), Err: err}
	case errors.As(err, &refused):
		return &Error{Exit: refused.Exit, Code: "run-refused", Message: err.Error(), Err: err}
	}
	return &Error{Exit: ExitForbidden, Code: "run-not-started", Message: err.Error(), Err: err}
}
