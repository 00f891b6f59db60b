package run_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

const stateDir = "/var/lib/fitout"

// TestMain lets the test program be the runner of its own runs: a process that
// can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 6 || os.Args[2] != "run" {
		if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
			os.Setenv("TMPDIR", "/dev/shm") // thousands of syncs; what is killed here is a process, not the power
		}
		os.Exit(m.Run())
	}
	// ROOT run ID --mode MODE
	n := hostops.At(os.Args[1], nil)
	o := options()
	o.Mode = journal.Mode(os.Args[5])
	killAt, _ := strconv.Atoi(os.Getenv("FITOUT_TEST_KILL_AT"))
	events := 0
	o.Observe = func(journal.Event) {
		if events++; events == killAt {
			dieNow()
		}
	}
	os.Exit(run.Execute(context.Background(), n, run.Dir(stateDir, os.Args[3]), kinds, o))
}

func dieNow() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func options() run.Options {
	return run.Options{StepLimit: 5 * time.Second, Grace: 200 * time.Millisecond}
}

// self is the command line of a runner on root.
func self(n *hostops.Node) []string {
	return []string{os.Args[0], n.Root}
}

var kinds = plan.Kinds{
	"change-file": func() hostops.Action { return &change{} },
	"aftercare":   func() hostops.Action { return &aftercare{} },
	"reboot":      func() hostops.Action { return &run.Reboot{} },
	"measure":     func() hostops.Action { return &measure{} },
}

// measure is an action that only looks, as the check at the end of a run does:
// it is done when it looked in this very process.
type measure struct{ Looked []journal.DeviceResult }

func (*measure) Kind() string                                            { return "measure" }
func (*measure) Describe() hostops.Description                           { return hostops.Description{Title: "look"} }
func (*measure) Prepare(context.Context, *hostops.Node) error            { return nil }
func (*measure) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }
func (m *measure) Done(context.Context, *hostops.Node) (bool, error)     { return m.Looked != nil, nil }
func (m *measure) Results() []journal.DeviceResult                       { return m.Looked }
func (m *measure) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	boot, err := n.ReadString("/proc/sys/kernel/random/boot_id")
	m.Looked = []journal.DeviceResult{{Address: "0000:03:00.0", OK: n.Exists("/tmpfs/loaded"), Text: boot}}
	if !m.Looked[0].OK {
		return errors.New("0000:03:00.0 has no driver")
	}
	return err
}

// change is an action that writes a file, with faults to order: the file
// /faults/<Path's base> names the method it strikes in and what it does
// ("do panic"). A fault that kills the process strikes once.
type change struct {
	Path, Content string
	Before        string
	Existed       bool
	Limit         time.Duration
	// Spoiled is set when it was prepared over its own half-made change.
	Spoiled bool
}

func (*change) Kind() string { return "change-file" }

func (c *change) Describe() hostops.Description {
	return hostops.Description{Title: "write " + c.Path, Text: []string{"write " + c.Path}, Undo: []string{"restore it"}, Limit: c.Limit}
}

func (c *change) strike(ctx context.Context, n *hostops.Node, method string, out hostops.Sink) error {
	file := "/faults/" + filepath.Base(c.Path)
	order, err := n.ReadString(file)
	where, what, _ := strings.Cut(order, " ")
	if err != nil || where != method {
		return nil
	}
	switch what {
	case "fail":
		return errors.New("injected: " + method)
	case "panic":
		panic("injected: " + method)
	case "kill":
		_ = n.Remove(file)
		dieNow()
	case "hang":
		select {}
	case "give-up":
		return givenUp{}
	case "slow":
		_ = n.WriteFile("/reached", []byte(c.Path), 0o644)
		<-ctx.Done()
		return ctx.Err()
	case "unhurried": // finishes although it was told to stop
		_ = n.WriteFile("/reached", []byte(c.Path), 0o644)
		<-ctx.Done()
	case "fill":
		return fillDisk(n)
	case "flood":
		for i := range 300_000 {
			out.Line(fmt.Sprintf("e1000e 0000:03:00.0: detected hardware unit hang %d", i))
			out.Progress(int64(i), 300_000)
		}
	}
	return nil
}

// givenUp is the error of an action that left its call in the kernel.
type givenUp struct{}

func (givenUp) Error() string { return "it has not come back after 50ms" }
func (givenUp) Hung() bool    { return true }

// aftercare is a change that what was done before does not hang on.
type aftercare struct{ change }

func (*aftercare) Kind() string   { return "aftercare" }
func (*aftercare) ByHand() string { return "put node-17 back in service: kubectl uncordon node-17" }

// fillDisk takes every byte that is left, as another program would.
func fillDisk(n *hostops.Node) error {
	f, err := os.Create(n.Path("/filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return nil
}

func (c *change) Prepare(ctx context.Context, n *hostops.Node) error {
	if err := c.strike(ctx, n, "prepare", nil); err != nil {
		return err
	}
	data, err := n.ReadFile(c.Path)
	c.Existed, c.Before = err == nil, string(data)
	c.Spoiled = strings.HasSuffix(c.Before, "(half)")
	return nil
}

func (c *change) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	out.Line("writing " + c.Path)
	if err := n.WriteFile(c.Path, []byte(c.Content+"(half)"), 0o644); err != nil {
		return err
	}
	if err := c.strike(ctx, n, "do", out); err != nil {
		return err
	}
	if order, _ := n.ReadString("/faults/" + filepath.Base(c.Path)); order == "do lie" {
		return nil
	}
	return n.WriteFile(c.Path, []byte(c.Content), 0o644)
}

func (c *change) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	if err := c.strike(ctx, n, "done", nil); err != nil {
		return false, err
	}
	data, err := n.ReadFile(c.Path)
	return err == nil && string(data) == c.Content, nil
}

func (c *change) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if err := c.strike(ctx, n, "undo", out); err != nil {
		return err
	}
	if !c.Existed {
		return n.Remove(c.Path)
	}
	return n.WriteFile(c.Path, []byte(c.Before), 0o644)
}

// node is a node with something on it, and the longest plan of these tests:
// new files, replaced files, one that is done already, one that a reboot takes
// away.
func node(t *testing.T) (*hostops.Node, *plan.Plan) { return nodeAt(t, t.TempDir()) }

func nodeAt(t *testing.T, root string) (*hostops.Node, *plan.Plan) {
	n := hostops.At(root, nil)
	for p, content := range map[string]string{
		"/proc/sys/kernel/random/boot_id": "boot-1\n",
		"/etc/replaced":                   "old",
		"/etc/there":                      "there",
	} {
		require.NoError(t, n.WriteFile(p, []byte(content), 0o644))
	}
	require.NoError(t, n.MkdirAll("/tmpfs", 0o755))
	return n, &plan.Plan{Drivers: []plan.Driver{{Name: "intel-e1000e", Modules: []string{"e1000e"}}}, Steps: []plan.Step{
		{ID: "stage", Action: &change{Path: "/etc/new", Content: "new"}},
		{ID: "there", Action: &change{Path: "/etc/there", Content: "there"}},
		{ID: "load", Action: &change{Path: "/tmpfs/loaded", Content: "loaded"}},
		{ID: "hook", Action: &change{Path: "/etc/replaced", Content: "replaced"}},
	}}
}

// fault orders one.
func fault(t *testing.T, n *hostops.Node, base, order string) {
	require.NoError(t, n.WriteFile("/faults/"+base, []byte(order), 0o644))
}

// prepareRun makes the directory of a run by hand and returns its node path.
func prepareRun(t *testing.T, n *hostops.Node, p *plan.Plan, id string) string {
	dir := run.Dir(stateDir, id)
	require.NoError(t, n.MkdirAll(dir, 0o700))
	require.NoError(t, plan.Save(n, dir, p))
	return dir
}

const firstRun = "2026-1130-01"

func execute(n *hostops.Node, dir string, mode journal.Mode) int {
	o := options()
	o.Mode = mode
	return run.Execute(context.Background(), n, dir, kinds, o)
}

func summary(t *testing.T, n *hostops.Node, dir string) journal.Summary {
	events, err := journal.Read(n.Path(dir))
	require.NoError(t, err)
	return journal.Summarise(events)
}

// fingerprint is every file below the root with its content, but for fitout's
// own records and the tests' orders.
func fingerprint(t *testing.T, n *hostops.Node) string {
	var lines []string
	require.NoError(t, filepath.WalkDir(n.Root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := n.NodePath(p)
		for _, skip := range []string{stateDir, "/filler", "/faults", "/reached", "/proc"} {
			if strings.HasPrefix(at, skip) {
				return nil
			}
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			lines = append(lines, fmt.Sprintf("%s %q", at, data))
			return err
		}
		return nil
	}))
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// reboot takes away what a reboot takes away.
func reboot(t *testing.T, n *hostops.Node) {
	require.NoError(t, n.RemoveAll("/tmpfs"))
	require.NoError(t, n.RemoveAll("/run"))
	require.NoError(t, n.MkdirAll("/tmpfs", 0o755))
	require.NoError(t, n.WriteFile("/proc/sys/kernel/random/boot_id", []byte("boot-2\n"), 0o644))
}
