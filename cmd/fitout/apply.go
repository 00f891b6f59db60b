package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// applyOptions are the flags of the verbs that change the node.
type applyOptions struct {
	dryRun, yes, wait, resume, locked, detailed bool
	progress                                    string
	risks                                       []string
}

func applyFlags(c *cobra.Command, o *applyOptions) {
	f := c.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "resolve and print the plan, change nothing")
	f.BoolVar(&o.wait, "wait", true, "wait for the run to end; --wait=false prints its id")
	f.BoolVar(&o.locked, "locked", false, "refuse images whose digest is not pinned by the answers")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "end with 21 when a reboot is needed, 22 when kept but not loaded")
	f.StringVar(&o.progress, "progress", "auto", "auto, plain, json or none")
	f.StringSliceVar(&o.risks, "accept-risk", nil, "accept this named risk (may be repeated)")
}

func (a *app) planVerb() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "plan -a FILE", Short: "Resolve an answers file on this node and print the plan", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usageError{fmt.Errorf("plan needs an answers file: fitout plan -a FILE")}
			}
			p, err := a.resolve(cmd.Context(), file)
			if err != nil {
				return err
			}
			return a.showPlan(p)
		},
	}
	c.Flags().StringVarP(&file, "answers-file", "a", "", "the answers file (\"-\": standard input)")
	c.Flags().StringSliceVar(&a.applyOptions.risks, "accept-risk", nil, "accept this named risk (may be repeated)")
	return c
}

func (a *app) applyVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "apply -a FILE", Short: "Run an answers file, without questions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.applyOptions.resume {
				return a.resumeRun(cmd.Context(), "")
			}
			if a.answersFile == "" {
				return usageError{fmt.Errorf("apply needs an answers file: fitout apply -a FILE")}
			}
			return a.apply(cmd.Context(), a.answersFile)
		},
	}
	applyFlags(c, &a.applyOptions)
	c.Flags().StringVarP(&a.answersFile, "answers-file", "a", "", "the answers file (\"-\": standard input)")
	c.Flags().BoolVar(&a.applyOptions.resume, "resume", false, "go on with the run that was cut short")
	c.Flags().BoolVar(&a.applyOptions.yes, "yes", false, "accepted for scripts; apply never asks")
	_ = c.Flags().MarkHidden("yes")
	return c
}

// resolve reads an answers file and makes its plan.
func (a *app) resolve(ctx context.Context, file string) (*plan.Plan, error) {
	ans, err := a.readAnswers(file)
	if err != nil {
		return nil, err
	}
	if err := a.acceptRisks(ans); err != nil {
		return nil, err
	}
	e, err := a.open()
	if err != nil {
		return nil, err
	}
	if a.plainHTTP && !slices.Contains(ans.AcceptRisks, "plain-http") {
		ans.AcceptRisks = append(ans.AcceptRisks, "plain-http")
	}
	e.Locked = a.applyOptions.locked
	return e.Plan(ctx, ans, a.fetchProgress())
}

func (a *app) acceptRisks(ans *answers.Answers) error {
	for _, r := range a.applyOptions.risks {
		if !answers.IsRisk(r) {
			return usageError{fmt.Errorf("there is no risk named %q; the names: %s", r, strings.Join(answers.RiskNames(), ", "))}
		}
		if !slices.Contains(ans.AcceptRisks, r) {
			ans.AcceptRisks = append(ans.AcceptRisks, r)
		}
	}
	return nil
}

// fetchProgress says on standard error, at most once a tenth, how far an image
// is read.
func (a *app) fetchProgress() func(done, total int64) {
	if a.quiet || a.applyOptions.progress == "none" {
		return nil
	}
	last := int64(-1)
	return func(done, total int64) {
		if total <= 0 {
			return
		}
		if tenth := done * 10 / total; tenth != last && total > 8<<20 {
			last = tenth
			fmt.Fprintf(a.errOut, "reading the image: %d of %d MB\n", done>>20, total>>20)
		}
	}
}

func (a *app) showPlan(p *plan.Plan) error {
	if a.json {
		if err := a.printJSON("Plan", p.Document(a.engine.Node)); err != nil {
			return err
		}
	} else {
		a.lines(a.out, p.Text(a.engine.Node))
	}
	return missing(p)
}

// missing is the error of a plan whose risks are not all accepted.
func missing(p *plan.Plan) error {
	if len(p.Missing) == 0 {
		return nil
	}
	e := &workflow.Error{Exit: workflow.ExitPerson, Code: "risk-not-accepted",
		Message: "a person must accept: " + strings.Join(p.Missing, ", "),
		Hint:    "--accept-risk " + strings.Join(p.Missing, " --accept-risk ") + ", or acceptRisks in the answers; what each means: fitout explain CODE"}
	for _, f := range p.Findings {
		if slices.Contains(p.Missing, f.Risk) {
			e.Findings = append(e.Findings, f)
		}
	}
	return e
}

// apply is the headless road: resolve, run, follow.
func (a *app) apply(ctx context.Context, file string) error {
	if err := a.needRoot(); err != nil {
		return err
	}
	// The file says all that there is to say: what it asks for comes about also
	// when the session that asked is gone before the images are read.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	p, err := a.resolve(ctx, file)
	if err != nil {
		return err
	}
	if a.applyOptions.dryRun {
		return a.showPlan(p)
	}
	if err := missing(p); err != nil {
		return err
	}
	return a.runPlan(ctx, p)
}

// runPlan starts a plan and follows it to its end.
func (a *app) runPlan(ctx context.Context, p *plan.Plan) error {
	if len(p.Steps) == 0 {
		if a.json {
			return a.printJSON("Run", map[string]any{"outcome": "nothing-to-do", "skipped": list(p.Skipped), "exit": 0})
		}
		a.lines(a.out, p.Skipped)
		a.printf("Nothing to do.\n")
		return nil
	}
	id, err := a.engine.Start(ctx, p)
	if err != nil {
		return err
	}
	if !a.applyOptions.wait {
		if a.json {
			return a.printJSON("Run", map[string]any{"run": id})
		}
		a.printf("%s\n", id)
		return nil
	}
	return a.followRun(ctx, id, true)
}

// needRoot stops who may not change the node. A recorded node needs no root.
func (a *app) needRoot() error {
	if a.rootDir != "/" || os.Geteuid() == 0 {
		return nil
	}
	return &workflow.Error{Exit: workflow.ExitUnsupported, Code: "not-root", Message: "changing the node needs root", Hint: "run it with sudo"}
}

// confirm prints a plan and asks for the typed word.
func (a *app) confirm(p *plan.Plan, word string) error {
	if a.applyOptions.dryRun {
		if err := a.showPlan(p); err != nil {
			return err
		}
		return exitCode(workflow.ExitDone)
	}
	if err := missing(p); err != nil {
		return err
	}
	if a.applyOptions.yes || len(p.Steps) == 0 {
		return nil
	}
	if !a.terminal() {
		return noTerminal()
	}
	a.lines(a.out, p.Text(a.engine.Node))
	return a.typed(word)
}

// changeFlags are the flags of verbs that ask for the typed word.
func (a *app) changeFlags(c *cobra.Command) *cobra.Command {
	applyFlags(c, &a.applyOptions)
	c.Flags().BoolVar(&a.applyOptions.yes, "yes", false, "do not ask")
	return c
}

// confirmText asks for the typed word after lines that say what would happen.
func (a *app) confirmText(lines []string, word string) error {
	if a.applyOptions.dryRun {
		a.lines(a.out, lines)
		return exitCode(workflow.ExitDone)
	}
	if a.applyOptions.yes {
		return nil
	}
	if !a.terminal() {
		return noTerminal()
	}
	a.lines(a.out, lines)
	return a.typed(word)
}

func noTerminal() error {
	return &workflow.Error{Exit: workflow.ExitPerson, Code: "no-terminal", Message: "this changes the node and there is no terminal to ask on", Hint: "look with --dry-run, then give --yes"}
}

// typed reads one line and wants exactly this word.
func (a *app) typed(word string) error {
	a.printf("To do it, type  %s  and press Enter: ", word)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != word {
		return &workflow.Error{Exit: workflow.ExitStopped, Code: "stopped", Message: "nothing was changed"}
	}
	return nil
}
