package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"fitout/workflow"
)

// manVerb writes the manual pages, one a verb, from the very commands.
func (a *app) manVerb() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a directory", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			head := &doc.GenManHeader{Title: "FITOUT", Section: "8", Source: "fitout " + version, Manual: "System administration"}
			if err := doc.GenManTree(cmd.Root(), head, args[0]); err != nil {
				return &workflow.Error{Exit: workflow.ExitFile, Code: "file-not-writable", Message: err.Error(), Err: err}
			}
			return nil
		},
	}
}
