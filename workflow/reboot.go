package workflow

import (
	"context"
	"path"

	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// reboot adds, where the answers allow it, the restart that puts to use what is
// kept and was not loaded now, and the checks after it. Where they say to ask,
// the plan says whether there is something to ask for.
func (b *builder) reboot(choices []choice) error {
	into := host.NextBoot(b.s.Kernels).Release
	waiting, step := b.waiting(choices, into)
	if len(waiting) == 0 {
		return nil
	}
	program, err := b.restart(waiting, into, step)
	if b.a.Limits.Reboot != "if-needed" {
		for _, c := range waiting {
			name := c.examined.Driver.Name
			b.plan.Skipped = append(b.plan.Skipped, name+" is in use after the next boot; this run does not restart the node (limits.reboot)")
			if b.a.Limits.Reboot == "ask" && err == nil {
				b.plan.Restart = append(b.plan.Restart, name)
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	if b.count(program.Kind()) == 0 {
		b.add(program.Kind(), program)
	}
	b.add("reboot", step)
	for _, c := range waiting {
		b.check(c, into)
	}
	return nil
}

// waiting are the choices that come into use with the next boot only, and the
// restart that would bring it about.
func (b *builder) waiting(choices []choice, into string) ([]choice, *run.Reboot) {
	var out []choice
	step := &run.Reboot{Into: into, Trees: []string{volatileTree, path.Join(b.s.Host.StateDir, "tree")}}
	for _, c := range choices {
		if (c.persists() || c.atBoot()) && !c.loadsNow() && !b.inUse(c, into) {
			out = append(out, c)
			for _, l := range c.examined.judgement(into).Load {
				if l.From == "image" {
					step.Modules = append(step.Modules, l.Module)
				}
			}
			step.Modules = append(step.Modules, c.examined.Driver.Replaces...)
		}
	}
	return out, step
}

// restart completes the restart by what makes the run go on after it. The error
// says why it would not help, or cannot be a step here.
func (b *builder) restart(waiting []choice, into string, step *run.Reboot) (hostops.Action, error) {
	for _, c := range waiting {
		if j := c.examined.judgement(into); !usable(j.Verdict) {
			f := finding.New("no-module", c.examined.Driver.Name, into)
			return nil, &Error{Exit: ExitForbidden, Code: string(f.Code), Message: f.Message + ": restarting would not bring it into use", Hint: f.Hint, Findings: []finding.Finding{f}}
		}
	}
	self, err := b.e.self()
	if err != nil {
		return nil, err
	}
	program, files, oem, err := host.Detect(b.e.Node).Using(self[0], b.e.Version).GoOnAfterBoot()
	if err != nil {
		return nil, &Error{Exit: ExitForbidden, Code: "cannot-go-on", Message: err.Error(), Hint: "leave limits.reboot at never and restart the node yourself", Err: err}
	}
	step.Hook, step.OEM = files, oem
	return program, nil
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
