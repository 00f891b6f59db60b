// Command fitout fits new hardware out on a node that is already in service: it
// finds devices without a driver, judges vendor driver images against the
// kernel, loads and keeps the driver, and undoes all of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/workflow"
)

// version is stamped by the build.
var version = "0.1.0-dev"

func main() {
	hostops.BoundMemory()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute is the whole program; it returns the exit code.
func execute(args []string, in, out, errOut *os.File) int {
	if len(args) > 0 && args[0] == kmod.ChildVerb {
		return kmod.LoadChild(hostops.Live(nil))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: in, out: out, errOut: errOut}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	// An unknown flag ends the reading of flags, --json among them.
	a.json = a.json || errors.As(err, new(usageError)) && slices.Contains(args, "--json")
	return a.finish(err)
}

// usageError is a wrong use of the command line (exit 2).
type usageError struct{ error }

// exitCode ends the program with a code and no message of its own.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func (a *app) finish(err error) int {
	if err == nil {
		return workflow.ExitDone
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	return a.fail(err)
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "fitout",
		Short:         "Fit new hardware out on a node that is already in service",
		Long:          longHelp,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          a.noVerb,
	}
	a.flags(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The flag of a verb that there is not is unknown for that reason.
		if verb := cmd.Flags().Arg(0); cmd.HasSubCommands() && verb != "" {
			err = fmt.Errorf("unknown command %q for %q", verb, cmd.CommandPath())
		}
		return usageError{err}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.readVerbs()...)
	root.AddCommand(a.runVerbs()...)
	root.AddCommand(a.fileVerbs()...)
	root.AddCommand(a.hiddenVerbs()...)
	a.wrapArgs(root)
	return root
}

// wrapArgs makes a wrong number of arguments, and a verb that is none, a usage
// error everywhere.
func (a *app) wrapArgs(c *cobra.Command) {
	if !c.Runnable() {
		c.Args = cobra.NoArgs
		c.RunE = func(c *cobra.Command, _ []string) error {
			if a.json {
				return usageError{fmt.Errorf("%s needs a verb of its own (see: %s --help)", c.CommandPath(), c.CommandPath())}
			}
			return c.Help()
		}
	}
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w (see: %s --help)", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.wrapArgs(sub)
	}
}

const longHelp = `fitout finds devices without a driver, judges vendor driver images against the
running kernel and the next one before anything changes, loads and keeps the
driver, checks that the device works, and can undo all of it.

Without a verb it opens the wizard on a terminal. The wizard writes an answers
file; "fitout apply --answers-file FILE" does the same work on the next node.`
