package main

import (
	"os"

	"github.com/spf13/cobra"

	"fitout/workflow"
)

// bundleVerb writes a support archive; what goes into it is listed first.
func (a *app) bundleVerb() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "bundle [RUN]", Short: "Write an archive for support: hardware, verdicts, journals, kernel log; secrets taken out", Args: cobra.MaximumNArgs(1),
		RunE: a.reads(func(cmd *cobra.Command, args []string, e *workflow.Engine) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
				if err := a.knownRun(id); err != nil {
					return err
				}
			}
			files, err := e.BundleFiles(cmd.Context(), id)
			if err != nil {
				return err
			}
			if !a.json {
				for _, f := range files {
					a.printf("%8d  %s\n", f.Size, f.Name)
				}
			}
			if output == "" {
				if a.json {
					return a.printJSON("Bundle", map[string]any{"files": files})
				}
				a.printf("Nothing is written yet. To write it: fitout bundle -o FILE\n")
				return nil
			}
			out, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return &workflow.Error{Exit: workflow.ExitFile, Code: "file-not-writable", Message: err.Error(), Err: err}
			}
			err = workflow.WriteBundle(out, files)
			if cerr := out.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				_ = os.Remove(output)
				return err
			}
			if a.json {
				return a.printJSON("Bundle", map[string]any{"file": output, "files": files})
			}
			a.printf("written to %s\n", output)
			return nil
		}),
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write the archive here (a new file)")
	return c
}
