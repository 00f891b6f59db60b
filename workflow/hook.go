package workflow

import (
	"context"
	"fmt"
	"io"
	"os/user"
	"strings"

	"fitout/hostops/host"
)

// Hook is what the OS calls: at boot, and at the point where an upgrade can
// still be stopped. Its reason for saying no goes to errOut, line by line.
func (e *Engine) Hook(ctx context.Context, args []string, errOut io.Writer) error {
	if len(args) > 0 && args[0] == "go-on" {
		return e.goOn(ctx)
	}
	find, done := e.builds()
	defer done()
	err := host.Hook(ctx, e.Node, args, find)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(errOut, "fitout:", strings.TrimRight(line, "\n"))
	}
	return &Error{Exit: ExitForbidden, Code: "gate-blocked", Message: err.Error(), Err: err}
}

// Allow lets one kernel through the gate once.
func (e *Engine) Allow(kernel string) error {
	if facts := host.Detect(e.Node).Facts(); facts.Gate == host.NoGate {
		return stopf(ExitUnsupported, "no-gate", "", "nothing stops an upgrade of this system (%s), so there is nothing to allow", facts.Title)
	}
	who := "root"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if err := host.Allow(e.Node, e.StateDir(), kernel, who); err != nil {
		return &Error{Exit: ExitUsage, Code: "no-kernel", Message: err.Error(), Err: err}
	}
	return nil
}
