package host

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"fitout/hostops"
)

// Hook is `fitout hook STAGE …`, which the OS calls. args begin with the stage.
// build, which may be nil, looks for builds that are not in the tree. The error
// says no; the caller prints it to stderr and exits other than 0 (never 3 and
// never 77: two families give those a meaning).
func Hook(ctx context.Context, n *hostops.Node, args []string, build func(context.Context, Driver, Kernel) (*Build, error)) error {
	if len(args) == 0 {
		return fmt.Errorf("hook: no stage given")
	}
	set := flag.NewFlagSet("hook", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	state := set.String("state", "", "state directory as seen from here")
	driver := set.String("driver", "", "driver")
	stage := set.String("stage", "", "the OS's own stage")
	limit := set.Duration("limit", 2*time.Hour, "how long to hold")
	every := set.Duration("every", 30*time.Second, "how often to look")
	if err := set.Parse(args[1:]); err != nil {
		return fmt.Errorf("hook %s: %w", args[0], err)
	}
	o := GateOptions{Build: build}
	release := set.Arg(0)
	layout := func() Layout {
		l := Detect(n).Layout()
		if *state != "" {
			l.State = *state
		}
		return l
	}
	if *state == "" {
		*state = layout().State
	}
	switch args[0] {
	case "boot":
		_, err := HookBoot(ctx, n, layout())
		return err
	case "after-upgrade", "check-upgrade":
		return HookAfterUpgrade(ctx, n, UpgradeArgs{State: *state, Driver: *driver, Stage: *stage, CheckOnly: args[0] == "check-upgrade"})
	case "before-upgrade":
		return HookBeforeUpgrade(ctx, n, layout(), os.Getppid(), *limit, *every)
	case "kernel-preinst":
		return HookKernelPreinst(ctx, n, *state, release, o)
	case "kernel-postinst":
		return HookKernelPostinst(ctx, n, *state, release)
	case "kernel-prerm":
		return HookKernelPrerm(ctx, n, *state, release)
	case "ostree-finalize":
		return HookOstreeFinalize(ctx, n, *state, o)
	case "ostree-staged":
		return HookOstreeStaged(ctx, n, layout(), o)
	case "ostree-reboot":
		return HookOstreeReboot(ctx, n, *state, o)
	case "image-waiting":
		return HookImageWaiting(ctx, n, *state, *limit, *every)
	case "ostree-wait":
		return HookOstreeWait(ctx, n, *state, *every)
	}
	return fmt.Errorf("hook: stage %q is not known", args[0])
}
