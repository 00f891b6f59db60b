package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

func (a *app) runVerbs() []*cobra.Command {
	return []*cobra.Command{a.wizardVerb(), a.planVerb(), a.applyVerb(), a.cancelVerb(), a.rollbackVerb(),
		a.driverVerb("remove", "Take a driver off the node, out of the boot and of the hooks",
			func(ctx context.Context, e *workflow.Engine, name string) (*plan.Plan, error) {
				return e.PlanRemove(ctx, name)
			}),
		a.driverVerb("load", "Load an installed driver now",
			func(ctx context.Context, e *workflow.Engine, name string) (*plan.Plan, error) {
				return e.PlanAgain(ctx, name, answers.LoadNow)
			}),
		a.driverVerb("unload", "Take an installed driver's modules out of the running kernel",
			func(ctx context.Context, e *workflow.Engine, name string) (*plan.Plan, error) {
				return e.PlanUnload(ctx, name)
			}),
		a.driverVerb("reload", "Take an installed driver's modules away and load them again",
			func(ctx context.Context, e *workflow.Engine, name string) (*plan.Plan, error) {
				return e.PlanReload(ctx, name)
			}),
		a.driverVerb("persist", "Keep a driver that was only loaded",
			func(ctx context.Context, e *workflow.Engine, name string) (*plan.Plan, error) {
				return e.PlanAgain(ctx, name, answers.LoadNowPersist)
			}),
		a.rebuildVerb(), a.allowVerb(),
	}
}

func (a *app) rebuildVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "rebuild", Short: "Build this node's OS image anew, with the drivers kept for it (Elemental)", Args: cobra.NoArgs,
		RunE: a.changes(func(cmd *cobra.Command, _ []string, e *workflow.Engine) error {
			p, err := e.PlanRebuild(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.confirm(p, "rebuild"); err != nil {
				return err
			}
			return a.runPlan(cmd.Context(), p)
		}),
	}
	return a.changeFlags(c)
}

// driverVerb is a verb on an installed driver: plan, typed word, run.
func (a *app) driverVerb(verb, short string, lay func(context.Context, *workflow.Engine, string) (*plan.Plan, error)) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " DRIVER", Short: short, Args: cobra.ExactArgs(1),
		RunE: a.changes(func(cmd *cobra.Command, args []string, e *workflow.Engine) error {
			p, err := lay(cmd.Context(), e, args[0])
			if err != nil {
				return err
			}
			a.takeRisks(p)
			if err := a.confirm(p, verb); err != nil {
				return err
			}
			return a.runPlan(cmd.Context(), p)
		}),
	}
	return a.changeFlags(c)
}

// takeRisks drops from a plan's missing risks those accepted on the command
// line.
func (a *app) takeRisks(p *plan.Plan) {
	var still []string
	for _, m := range p.Missing {
		accepted := false
		for _, r := range a.applyOptions.risks {
			accepted = accepted || r == m
		}
		if !accepted {
			still = append(still, m)
		}
	}
	p.Missing = still
}

func (a *app) rollbackVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "rollback RUN", Short: "Undo what a run did", Args: cobra.ExactArgs(1),
		RunE: a.changes(func(cmd *cobra.Command, args []string, e *workflow.Engine) error {
			if err := a.knownRun(args[0]); err != nil {
				return err
			}
			undo, err := e.RollbackText(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.confirmText(undo, "rollback"); err != nil {
				return err
			}
			if err := e.Rollback(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.followRun(cmd.Context(), args[0], false)
		}),
	}
	return a.changeFlags(c)
}

// resumeRun goes on with a run that was cut short.
func (a *app) resumeRun(ctx context.Context, id string) error {
	if err := a.needRoot(); err != nil {
		return err
	}
	e, err := a.open()
	if err != nil {
		return err
	}
	if id == "" {
		open, err := run.Unfinished(e.Node, e.StateDir())
		if err != nil {
			return err
		}
		if open == nil {
			run.SweepLock(e.Node)
			if a.json {
				return a.printJSON("Run", map[string]any{"outcome": "nothing-to-do", "exit": 0})
			}
			a.printf("No run was cut short. Nothing to do.\n")
			return nil
		}
		id = open.ID
	}
	if err := e.Resume(ctx, id); err != nil {
		return err
	}
	return a.followRun(ctx, id, true)
}

func (a *app) checkVerb() *cobra.Command {
	var kernel, osRoot, osImage string
	var rehearse bool
	c := &cobra.Command{
		Use: "check", Short: "Would every kept driver, and every device bound now, have a driver on that kernel?", Args: cobra.NoArgs,
		RunE: a.reads(func(cmd *cobra.Command, _ []string, e *workflow.Engine) error {
			if osRoot != "" && osImage != "" {
				return usageError{errors.New("--os-root and --os-image are two places for one kernel: give one of them")}
			}
			if osImage != "" {
				root, done, err := e.OSImage(cmd.Context(), osImage)
				if err != nil {
					return err
				}
				defer done()
				osRoot = root
			}
			res, err := e.CheckKernel(cmd.Context(), kernel, osRoot)
			switch {
			case rehearse && kernel != "" && osRoot == "" && workflow.ExitOf(err) == workflow.ExitNoMatch:
				res, err = e.RehearseUninstalled(cmd.Context(), kernel)
			case err == nil && rehearse:
				err = e.Rehearse(cmd.Context(), res)
			}
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON("Check", res)
			} else {
				a.checkText(res)
			}
			if err == nil && !res.OK {
				return exitCode(workflow.ExitForbidden)
			}
			return err
		}),
	}
	c.Flags().StringVar(&kernel, "kernel", "", "this kernel release (default: the next to boot)")
	c.Flags().BoolVar(&rehearse, "rehearse", false, "ask this host's upgrade gate too, dry; --kernel may then name one that is not installed")
	c.Flags().StringVar(&osRoot, "os-root", "", "the kernel of the OS below this directory")
	c.Flags().StringVar(&osImage, "os-image", "", "the kernel of this OS image: a container image, a squashfs file or a directory")
	return c
}

func (a *app) checkText(c *workflow.Check) {
	a.printf("Kernel %s\n", c.Kernel)
	for _, d := range c.Drivers {
		a.printf("  driver %-20s %s\n", d.Name, finding.VerdictWord(d.Verdict))
		for _, f := range d.Findings {
			a.findingText(f)
		}
	}
	for _, l := range c.Lacks {
		a.printf("  %s\n", l.Sentence())
	}
	for _, d := range c.Devices {
		a.printf("  device %s loses its driver %s: %s (%s)\n", d.Address, d.Driver, d.Reason, d.Name)
	}
	if c.Gate != nil {
		a.printf("  gate   %s\n", c.Gate.Sentence())
	}
	if c.OK {
		a.printf("Every driver and every device has what it needs there.\n")
	}
}

func (a *app) allowVerb() *cobra.Command {
	return &cobra.Command{
		Use: "allow KERNEL", Short: "Let the upgrade to this kernel through once, although a driver is missing", Args: cobra.ExactArgs(1),
		RunE: a.changes(func(_ *cobra.Command, args []string, e *workflow.Engine) error {
			if err := e.Allow(args[0]); err != nil {
				return err
			}
			if a.json {
				return a.printJSON("Allowed", map[string]any{"kernel": args[0]})
			}
			a.printf("The next upgrade to %s goes through once, without its driver.\n", args[0])
			return nil
		}),
	}
}
