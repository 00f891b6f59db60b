package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fitout/workflow"
)

// manVerb writes the manual pages, one a verb, from the very commands.
func (a *app) manVerb() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a directory", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := os.MkdirAll(args[0], 0o755)
			if err == nil {
				err = writePages(cmd.Root(), args[0])
			}
			if err != nil {
				return &workflow.Error{Exit: workflow.ExitFile, Code: "file-not-writable", Message: err.Error(), Err: err}
			}
			return nil
		},
	}
}

func writePages(c *cobra.Command, dir string) error {
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue
		}
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	return os.WriteFile(filepath.Join(dir, name+".8"), []byte(manPage(c)), 0o644)
}

// manPage is one command as a page of section 8 (man(7) macros).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	section := func(title, text string) { fmt.Fprintf(&b, ".SH %s\n%s\n", title, roff(text)) }
	fmt.Fprintf(&b, ".TH %s 8 \"\" \"fitout %s\" \"System administration\"\n", strings.ToUpper(name), version)
	section("NAME", name+" - "+c.Short)
	section("SYNOPSIS", c.UseLine())
	if c.Long != "" {
		section("DESCRIPTION", c.Long)
	}
	options := func(title string, flags *pflag.FlagSet) {
		if !flags.HasAvailableFlags() {
			return
		}
		fmt.Fprintf(&b, ".SH %s\n", title)
		flags.VisitAll(func(f *pflag.Flag) {
			short := ""
			if f.Shorthand != "" {
				short = "-" + f.Shorthand + ", "
			}
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(short+"--"+f.Name), roff(f.Usage))
		})
	}
	options("OPTIONS", c.NonInheritedFlags())
	options("COMMON OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	fmt.Fprintf(&b, ".SH EXIT STATUS\n")
	for _, e := range exitTable {
		fmt.Fprintf(&b, ".TP\n%d\n%s\n", e.code, roff(e.meaning))
	}
	section("FILES", "/etc/fitout/catalog.d/*.yaml, /var/lib/fitout (the state directory of ordinary hosts), /run/fitout")
	return b.String()
}

// roff escapes what troff would take for itself.
func roff(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace(s)
}

// exitTable is what each exit code means.
var exitTable = []struct {
	code    int
	meaning string
}{
	{workflow.ExitDone, "done, or nothing to do"},
	{workflow.ExitBug, "a bug in fitout"},
	{workflow.ExitUsage, "wrong use of the command line"},
	{workflow.ExitFile, "a file is not valid"},
	{workflow.ExitNoMatch, "no device or no image fits"},
	{workflow.ExitPerson, "a person is needed: licence, unnamed risk, no terminal"},
	{workflow.ExitForbidden, "a check forbids it"},
	{workflow.ExitUndone, "failed, and undone"},
	{workflow.ExitNotUndone, "failed, and not all undone"},
	{workflow.ExitUnreachable, "catalog or registry not reachable"},
	{workflow.ExitLocked, "another run holds the lock"},
	{workflow.ExitStopped, "stopped, and the old state is there"},
	{workflow.ExitUnsupported, "not root, or not a supported system"},
	{workflow.ExitHung, "hung in the kernel"},
	{workflow.ExitDrift, "needs-reboot: no; status --exit-code: the node is not as recorded"},
	{workflow.ExitNeedsReboot, "the run restarts the node and goes on after the boot; with --detailed-exitcode also: done, and a reboot is needed"},
	{workflow.ExitNotLoadedYet, "with --detailed-exitcode: kept, but not loaded"},
}
