package workflow

import (
	"context"
	"path"
	"slices"

	"fitout/hostops/host"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// nextBoot is the kernel that boots next.
func (s *Survey) nextBoot() string {
	for _, k := range s.Kernels {
		if slices.Contains(k.Roles, host.Next) {
			return k.Release
		}
	}
	return s.Running()
}

// reboot adds, where the answers allow it, the restart that puts to use what is
// kept and was not loaded now, and the checks after it.
func (b *builder) reboot(choices []choice) error {
	into := b.s.nextBoot()
	var waiting []choice
	var modules []string
	for _, c := range choices {
		if (c.persists() || c.atBoot()) && !c.loadsNow() && !b.inUse(c, into) {
			waiting = append(waiting, c)
			for _, l := range c.examined.judgement(into).Load {
				if l.From == "image" {
					modules = append(modules, l.Module)
				}
			}
			modules = append(modules, c.examined.Driver.Replaces...)
		}
	}
	if b.a.Limits.Reboot != "if-needed" {
		for _, c := range waiting {
			b.plan.Skipped = append(b.plan.Skipped, c.examined.Driver.Name+" is in use after the next boot; this run does not restart the node (limits.reboot)")
		}
		return nil
	}
	if len(waiting) == 0 {
		return nil
	}
	for _, c := range waiting {
		if j := c.examined.judgement(into); !usable(j.Verdict) {
			f := finding.New("no-module", c.examined.Driver.Name, into)
			return &Error{Exit: ExitForbidden, Code: string(f.Code), Message: f.Message + ": restarting would not bring it into use", Hint: f.Hint, Findings: []finding.Finding{f}}
		}
	}
	self, err := b.e.self()
	if err != nil {
		return err
	}
	program, files, oem, err := host.Detect(b.e.Node).Using(self[0], b.e.Version).GoOnAfterBoot()
	if err != nil {
		return &Error{Exit: ExitForbidden, Code: "cannot-go-on", Message: err.Error(), Hint: "leave limits.reboot at never and restart the node yourself", Err: err}
	}
	if b.count(program.Kind()) == 0 {
		b.add(program.Kind(), program)
	}
	b.add("reboot", &run.Reboot{Hook: files, OEM: oem, Into: into, Modules: modules,
		Trees: []string{volatileTree, path.Join(b.s.Host.StateDir, "tree")}})
	for _, c := range waiting {
		b.check(c, into)
	}
	return nil
}

// inUse says that the choice's devices are driven by the very builds already.
func (b *builder) inUse(c choice, release string) bool {
	if release != b.s.Running() {
		return false
	}
	for _, l := range c.examined.judgement(release).Load {
		if l.From == "image" && !l.Loaded {
			return false
		}
	}
	return true
}

// goOn starts the runner of a run that has restarted the node.
func (e *Engine) goOn(ctx context.Context) error {
	id, err := run.WaitsForBoot(e.Node, e.StateDir())
	if err != nil || id == "" {
		return err
	}
	return e.Resume(ctx, id)
}
