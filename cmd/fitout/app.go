package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fitout/catalog"
	"fitout/catalog/strict"
	"fitout/hostops"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/finding"
)

// app is what every verb shares: where it reads and writes, and its flags.
type app struct {
	in, out, errOut *os.File

	json, noColor, verbose, quiet bool
	rootDir                       string
	catalogFile                   string
	answersFile                   string
	plainHTTP                     bool

	applyOptions applyOptions

	engine *workflow.Engine // made on first use
}

func (a *app) flags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.BoolVar(&a.json, "json", false, "print one JSON document")
	p.BoolVar(&a.noColor, "no-color", false, "no colour")
	p.BoolVarP(&a.verbose, "verbose", "v", false, "say more, on standard error")
	p.BoolVarP(&a.quiet, "quiet", "q", false, "say only what is asked for")
	p.StringVar(&a.rootDir, "root", "/", "work on the node recorded below this directory; kernel calls and commands are simulated")
	p.StringVar(&a.catalogFile, "catalog", "", "read this catalog file too")
	p.BoolVar(&a.plainHTTP, "plain-http", false, "read registries without TLS (the risk plain-http)")
	root.Flags().StringVarP(&a.answersFile, "answers-file", "a", "", "run headless from this answers file (\"-\": standard input)")
	applyFlags(root, &a.applyOptions)
}

// node is the node to work on.
func (a *app) node() *hostops.Node {
	log := slog.New(slog.DiscardHandler)
	if a.verbose {
		log = slog.New(slog.NewTextHandler(a.errOut, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if a.rootDir == "/" {
		return hostops.Live(log)
	}
	return hostops.At(a.rootDir, log)
}

// open reads the catalog and makes the engine.
func (a *app) open() (*workflow.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	if st, err := os.Stat(a.rootDir); err != nil || !st.IsDir() {
		return nil, usageError{fmt.Errorf("--root %s: there is no such directory; give the one that holds sys/ and etc/ of the recorded node", a.rootDir)}
	}
	n := a.node()
	c, err := catalog.Load(n.Path("/etc/fitout/catalog.d"), a.catalogFile)
	if err != nil {
		return nil, err
	}
	a.engine = &workflow.Engine{Node: n, Catalog: c, Version: version, PlainHTTP: a.plainHTTP}
	return a.engine, nil
}

// reads makes a verb of what looks at the node.
func (a *app) reads(do func(*cobra.Command, []string, *workflow.Engine) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		e, err := a.open()
		if err != nil {
			return err
		}
		return do(cmd, args, e)
	}
}

// changes makes a verb of what changes the node, for which root is needed.
func (a *app) changes(do func(*cobra.Command, []string, *workflow.Engine) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.needRoot(); err != nil {
			return err
		}
		return a.reads(do)(cmd, args)
	}
}

// document is the frame of every JSON answer.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// printJSON prints v, a struct or map, under the common head.
func (a *app) printJSON(kind string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &merged); err != nil {
		return err
	}
	head, _ := json.Marshal(document{"fitout/v1", kind})
	_ = json.Unmarshal(head, &merged)
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(merged)
}

func (a *app) printf(format string, args ...any) { say(a.out, format, args...) }

func (a *app) lines(w io.Writer, lines []string) {
	for _, l := range lines {
		say(w, "%s\n", l)
	}
}

// say prints text for a person. Names in images, kernel logs and registries'
// answers are others' words: what would steer the terminal is made visible.
func say(w io.Writer, format string, args ...any) {
	parts := strings.Split(fmt.Sprintf(format, args...), "\t")
	for i := range parts {
		parts[i] = look.Clean(parts[i])
	}
	_, _ = io.WriteString(w, strings.Join(parts, "\t"))
}

// errorDocument is what --json prints when a verb fails.
type errorDocument struct {
	Code     string            `json:"code"`
	Message  string            `json:"message"`
	Hint     string            `json:"hint,omitempty"`
	Exit     int               `json:"exit"`
	Findings []finding.Finding `json:"findings,omitempty"`
}

// fail says what went wrong, in the form that was asked for, and returns the
// exit code.
func (a *app) fail(err error) int {
	doc := describe(err)
	if a.json {
		_ = a.printJSON("Error", doc)
	}
	say(a.errOut, "fitout: %s\n", doc.Message)
	for _, f := range doc.Findings {
		if f.Message != doc.Message {
			say(a.errOut, "  %s\n", f.Message)
		}
		for _, e := range f.Evidence {
			say(a.errOut, "    %s\n", e)
		}
	}
	if doc.Hint != "" {
		say(a.errOut, "  cure: %s\n", doc.Hint)
	}
	if _, ok := finding.Explain(finding.Code(doc.Code)); ok {
		say(a.errOut, "  more: fitout explain %s\n", doc.Code)
	}
	return doc.Exit
}

func describe(err error) errorDocument {
	var stop *workflow.Error
	var usage usageError
	var file *strict.Errors
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return errorDocument{Code: "not-root", Message: "this needs root: " + err.Error(), Hint: "run it with sudo", Exit: workflow.ExitUnsupported}
	}
	switch {
	case errors.As(err, &stop):
		return errorDocument{Code: stop.Code, Message: stop.Message, Hint: stop.Hint, Exit: stop.Exit, Findings: stop.Findings}
	case errors.As(err, &usage):
		return errorDocument{Code: "usage", Message: usage.Error(), Exit: workflow.ExitUsage}
	case errors.As(err, &file):
		return errorDocument{Code: "file-not-valid", Message: err.Error(), Exit: workflow.ExitFile}
	}
	return errorDocument{Code: "error", Message: err.Error(), Exit: workflow.ExitBug}
}
