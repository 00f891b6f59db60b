package main

import (
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"fitout/catalog"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

func (a *app) fileVerbs() []*cobra.Command {
	return []*cobra.Command{a.catalogVerb(), a.answersVerb(), a.explainVerb(), a.versionVerb(), a.manVerb()}
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON("Version", map[string]string{"version": version})
			}
			a.printf("fitout %s\n", version)
			return nil
		},
	}
}

func (a *app) catalogVerb() *cobra.Command {
	c := &cobra.Command{Use: "catalog", Short: "List, show, check and import catalog entries"}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List sources and entries", Args: cobra.NoArgs, RunE: a.catalogList},
		&cobra.Command{Use: "show DRIVER", Short: "Show one entry", Args: cobra.ExactArgs(1), RunE: a.catalogShow},
		&cobra.Command{Use: "check FILE", Short: "Check a catalog file, its patterns against real kernel releases", Args: cobra.ExactArgs(1), RunE: a.catalogCheck},
		&cobra.Command{Use: "import FILE", Short: "Turn a KMM Module YAML into a catalog entry on standard output", Args: cobra.ExactArgs(1), RunE: a.catalogImport},
	)
	return c
}

func (a *app) catalogList(*cobra.Command, []string) error {
	e, err := a.open()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON("Catalog", map[string]any{"date": e.Catalog.Date, "sources": list(e.Catalog.Sources), "drivers": e.Catalog.Drivers})
	}
	a.printf("Catalog of %s\n", e.Catalog.Date)
	for _, s := range e.Catalog.Sources {
		a.printf("  source %s\n", s)
	}
	for _, d := range e.Catalog.Drivers {
		mark := ""
		if d.Unverified {
			mark = "  (unverified)"
		}
		a.printf("%-24s %s%s\n", d.Name, d.Title, mark)
	}
	return nil
}

func (a *app) catalogShow(_ *cobra.Command, args []string) error {
	e, err := a.open()
	if err != nil {
		return err
	}
	d, ok := e.Catalog.Driver(args[0])
	if !ok {
		return &workflow.Error{Exit: workflow.ExitNoMatch, Code: "driver-unknown", Message: "the catalog has no driver " + args[0], Hint: "see: fitout catalog list"}
	}
	if a.json {
		return a.printJSON("Driver", d)
	}
	out, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	a.printf("%s", out)
	return nil
}

func (a *app) catalogCheck(_ *cobra.Command, args []string) error {
	data, err := a.read(args[0])
	if err != nil {
		return err
	}
	problems, err := catalog.Check(args[0], data)
	if err != nil {
		return err
	}
	if problems == nil {
		problems = []catalog.Problem{}
	}
	if a.json {
		if err := a.printJSON("CatalogCheck", map[string]any{"file": args[0], "problems": problems}); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			a.printf("%s\n", p)
		}
	}
	if slices.ContainsFunc(problems, func(p catalog.Problem) bool { return p.Severity == "error" }) {
		return exitCode(workflow.ExitFile)
	}
	if !a.json && len(problems) == 0 {
		a.printf("%s is in order.\n", args[0])
	}
	return nil
}

func (a *app) catalogImport(_ *cobra.Command, args []string) error {
	data, err := a.read(args[0])
	if err != nil {
		return err
	}
	d, warnings, err := catalog.ImportKMM(data)
	if err != nil {
		return &workflow.Error{Exit: workflow.ExitFile, Code: "file-not-valid", Message: err.Error(), Err: err}
	}
	a.lines(a.errOut, warnings)
	out, err := yaml.Marshal(catalog.File{APIVersion: catalog.APIVersion, Kind: catalog.Kind, Date: a.node().Now().UTC().Format("2006-01-02"), Drivers: []catalog.Driver{*d}})
	if err != nil {
		return err
	}
	a.printf("%s", out)
	return nil
}

// read reads a file named on the command line; "-" is standard input.
func (a *app) read(name string) ([]byte, error) {
	var data []byte
	var err error
	if name == "-" {
		data, err = io.ReadAll(a.in)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, &workflow.Error{Exit: workflow.ExitFile, Code: "file-not-readable", Message: err.Error(), Err: err}
	}
	return data, nil
}

func (a *app) readAnswers(name string) (*answers.Answers, error) {
	data, err := a.read(name)
	if err != nil {
		return nil, err
	}
	return answers.Read(name, data)
}

func (a *app) answersVerb() *cobra.Command {
	c := &cobra.Command{Use: "answers", Short: "Check and show answers files, print their schema"}
	c.AddCommand(
		&cobra.Command{Use: "check FILE", Short: "Check an answers file", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			if _, err := a.readAnswers(args[0]); err != nil {
				return err
			}
			if a.json {
				return a.printJSON("AnswersCheck", map[string]any{"file": args[0], "ok": true})
			}
			a.printf("%s is in order.\n", args[0])
			return nil
		}},
		&cobra.Command{Use: "schema", Short: "Print the JSON schema of answers files", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			a.printf("%s\n", answers.Schema())
			return nil
		}},
		&cobra.Command{Use: "show FILE", Short: "Print an answers file as fitout would write it", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			ans, err := a.readAnswers(args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON("Answers", ans)
			}
			out, err := answers.Marshal(ans)
			if err != nil {
				return err
			}
			a.printf("%s", out)
			return nil
		}},
	)
	return c
}

func (a *app) explainVerb() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "explain [CODE]", Short: "Say what a code means and what to do", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if all || len(args) == 0 {
				if a.json {
					return a.printJSON("Codes", map[string]any{"items": finding.Codes})
				}
				for _, c := range finding.Codes {
					a.printf("%-24s %s\n", c.Code, c.Title)
				}
				return nil
			}
			c, ok := finding.Explain(finding.Code(args[0]))
			if !ok {
				return &workflow.Error{Exit: workflow.ExitUsage, Code: "code-unknown", Message: "there is no code " + args[0], Hint: "all of them: fitout explain --list"}
			}
			if a.json {
				return a.printJSON("Code", c)
			}
			a.printf("%s: %s\n\n%s\n\nWhat to do: %s\n", c.Code, c.Title, c.Meaning, c.Cure)
			if c.Risk != "" {
				a.printf("\nIt can be accepted with: --accept-risk %s\n", c.Risk)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "list", false, "list all codes")
	return c
}
