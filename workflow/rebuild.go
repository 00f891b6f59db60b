package workflow

import (
	"context"
	"errors"

	"fitout/hostops/host"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// PlanRebuild lays out building this node's OS image anew with the kept drivers
// in it, where the host's toolkit can do that from the running system.
func (e *Engine) PlanRebuild(ctx context.Context) (*plan.Plan, error) {
	b, err := e.begin(ctx, answers.Default())
	if err != nil {
		return nil, err
	}
	act, err := host.Detect(e.Node).Rebuild()
	var cannot *host.Unsupported
	if errors.As(err, &cannot) {
		return nil, &Error{Exit: ExitUnsupported, Code: "host-refused", Message: err.Error(), Err: err}
	}
	if err != nil {
		return nil, &Error{Exit: ExitForbidden, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	b.add(act.Kind(), act)
	return b.plan, b.done(ctx)
}
