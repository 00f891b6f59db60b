package workflow

import (
	"context"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// Hook is what the OS calls: at boot, and at the point where an upgrade can
// still be stopped. Its reason for saying no goes to errOut, line by line.
func (e *Engine) Hook(ctx context.Context, args []string, errOut io.Writer) error {
	if len(args) > 0 && args[0] == "go-on" {
		return e.goOn(ctx)
	}
	err := host.Hook(ctx, e.Node, args, e.findBuild)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(errOut, "fitout:", strings.TrimRight(line, "\n"))
	}
	return &Error{Exit: ExitForbidden, Code: "gate-blocked", Message: err.Error(), Err: err}
}

// findBuild looks for a build of a kept driver for another kernel in the image
// store: one for that release, or one whose symbol versions fit when that risk
// was accepted with the driver.
func (e *Engine) findBuild(_ context.Context, d host.Driver, k host.Kernel) (*host.Build, error) {
	facts := host.Detect(e.Node).Facts()
	records, err := run.Installed(e.Node, facts.StateDir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(records, func(r run.Record) bool { return r.Driver.Name == d.Name })
	if i < 0 {
		return nil, nil
	}
	r := records[i]
	s := &Survey{Host: facts, Kernels: []host.Kernel{k}}
	dir := e.storeDir(s, r.Driver.Digest)
	inv, err := image.ReadInventory(e.Node.Path(dir))
	if err != nil {
		return nil, nil
	}
	entry, ok := e.Catalog.Driver(d.Name)
	if !ok {
		entry = catalog.Driver{Name: d.Name, Modules: d.Load}
	}
	j := e.judge(s, k, question{offer: Offer{Driver: entry}, parameters: d.Parameters, accepted: r.Driver.Risks}, inv)
	switch {
	case j.Verdict == finding.OK:
	case j.Verdict == finding.OKKABI && slices.Contains(r.Driver.Risks, "kabi-match"):
	default:
		return nil, nil
	}
	b := hostBuild(k.Release, dir, inv, j.Load, map[string][]string{})
	return &b, nil
}

// Allow lets one kernel through the gate once.
func (e *Engine) Allow(kernel string) error {
	who := "root"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if err := host.Allow(e.Node, e.StateDir(), kernel, who); err != nil {
		return &Error{Exit: ExitUsage, Code: "no-kernel", Message: err.Error(), Err: err}
	}
	return nil
}
