// Package fake is an engine made of literals, for tests of the screens: a node
// with two GPUs nobody can use, a network card with a newer driver, and runs
// whose journals it writes itself.
package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops/pci"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// Engine implements workflow.Wizard and the extras of package pages.
type Engine struct {
	Node *workflow.Survey
	// Images by driver name or reference.
	Images map[string]*workflow.Examined
	// Unreadable images by name.
	Unreadable map[string]error
	Catalog    []catalog.Driver
	// WantsRestart makes every plan one whose drivers wait for a restart.
	WantsRestart bool
	// Missing are risks that plans need until they are accepted.
	Missing []string
	// PlanErr refuses every plan.
	PlanErr error
	// Dir holds the runs.
	Dir string
	// Play writes a run's journal; nil: a run that ends well at once.
	Play func(w *journal.Writer, p *plan.Plan)
	// AtOnce plays a run to its end before Start returns.
	AtOnce bool
	// Stays keeps the runner of a run that was played at once alive.
	Stays bool
	// Now is the clock of journals; nil: the real one.
	Now func() time.Time
	// Past are the runs of the history.
	Past []run.Listed
	// Forgotten are the drivers whose images were taken out of the store.
	Forgotten []string
	// Delay is how long reading an image and planning take.
	Delay time.Duration

	mu      sync.Mutex
	started []string
	running string
	logins  []string
}

// Started are the runs that were started: the only changes to the node.
func (e *Engine) Started() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.started...)
}

func (e *Engine) Survey(ctx context.Context) (*workflow.Survey, error) {
	copied := *e.Node
	return &copied, ctx.Err()
}

func (e *Engine) Offers(_ *workflow.Survey, k workflow.Kind) []workflow.Offer {
	var list []workflow.Offer
	for _, d := range e.Catalog {
		for _, m := range d.Match {
			if m == k.ID {
				list = append(list, workflow.Offer{Driver: d, Why: "the catalog lists " + k.ID})
			}
		}
	}
	return list
}

func (e *Engine) OfferImage(_ *workflow.Survey, _ workflow.Kind, reference string) workflow.Offer {
	return workflow.Offer{Driver: catalog.Driver{Name: reference}, Why: "given by hand"}
}

func (e *Engine) Examine(ctx context.Context, s *workflow.Survey, _ workflow.Kind, o workflow.Offer, p image.Progress) (*workflow.Examined, error) {
	select {
	case <-time.After(e.Delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p != nil {
		p(50, 100)
	}
	if err := e.Unreadable[o.Driver.Name]; err != nil {
		return nil, err
	}
	ex, ok := e.Images[o.Driver.Name]
	if !ok {
		return nil, &workflow.Error{Exit: workflow.ExitUnreachable, Code: "unreachable", Message: "the registry does not answer: " + o.Driver.Name, Hint: "check the network, or take an archive"}
	}
	copied := *ex
	copied.Offer = o
	return &copied, nil
}

func (e *Engine) Plan(ctx context.Context, a *answers.Answers, _ image.Progress) (*plan.Plan, error) {
	select {
	case <-time.After(e.Delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.PlanErr != nil {
		return nil, e.PlanErr
	}
	p := &plan.Plan{Answers: a, Kernel: e.Node.Kernels[0].Release}
	for _, name := range e.Missing {
		p.Risks = append(p.Risks, name)
		p.Findings = append(p.Findings, finding.Finding{Code: finding.Code(name), Severity: finding.Risk, Risk: name, Message: "measured on this node"})
		if !contains(a.AcceptRisks, name) {
			p.Missing = append(p.Missing, name)
		}
	}
	for _, r := range a.Devices {
		if r.When == answers.Leave {
			p.Skipped = append(p.Skipped, r.Match.ID+": left alone, as the answers say")
			continue
		}
		name := r.Driver
		if r.Image != nil {
			name = r.Image.Reference
		}
		p.Drivers = append(p.Drivers, plan.Driver{Name: name, When: r.When, OnMissing: r.OnMissingModule,
			Kernels: []plan.KernelBuild{{Release: Next, Role: "next-boot", Verdict: finding.OK}}})
		p.Steps = append(p.Steps, Steps(name)...)
		if e.WantsRestart && a.Limits.Reboot == "ask" {
			p.Restart = append(p.Restart, name)
		}
	}
	return p, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (e *Engine) Start(_ context.Context, p *plan.Plan) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := fmt.Sprintf("2026-1130-%02d", len(e.started)+1)
	e.started = append(e.started, id)
	return id, e.write(id, p)
}

// write begins the journal of a run.
func (e *Engine) write(id string, p *plan.Plan) error {
	dir := e.RunDir(id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w, err := journal.Create(dir, e.clock()...)
	if err != nil {
		return err
	}
	e.running = id
	play := e.Play
	if play == nil {
		play = func(w *journal.Writer, p *plan.Plan) { Succeed(w, p) }
	}
	if e.AtOnce {
		play(w, p)
		if !e.Stays {
			e.running = ""
		}
		return w.Close()
	}
	go func() {
		play(w, p)
		_ = w.Close()
		e.mu.Lock()
		e.running = ""
		e.mu.Unlock()
	}()
	return nil
}

func (e *Engine) clock() []journal.Option {
	if e.Now == nil {
		return nil
	}
	return []journal.Option{journal.WithClock(e.Now)}
}

func (e *Engine) RunDir(id string) string { return filepath.Join(e.Dir, id) }

func (e *Engine) Current() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// Rollback, Resume, Cancel, Bundle, History, KernelLog and Login are the extras.
func (e *Engine) Rollback(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, err := journal.Create(e.RunDir(id), e.clock()...)
	if err != nil {
		return err
	}
	defer w.Close()
	_ = w.Append(journal.Event{Event: journal.Start, Run: id, Mode: journal.ModeRollback})
	return w.Append(journal.Event{Event: journal.Done, Run: id, Outcome: journal.OutcomeRolledBack})
}

func (e *Engine) Resume(ctx context.Context, id string) error { return e.Rollback(ctx, id) }

func (e *Engine) RollbackText(context.Context, string) ([]string, error) {
	return []string{"rmmod nvidia", "echo 0000:17:00.0 > /sys/bus/pci/drivers/nouveau/bind"}, nil
}

func (e *Engine) Cancel(context.Context, string) error { return nil }

func (e *Engine) Bundle(context.Context, string) (string, error) {
	return filepath.Join(e.Dir, "bundle.tar"), nil
}

func (e *Engine) History(context.Context) ([]run.Listed, error) { return e.Past, nil }

func (e *Engine) KernelLog(_ context.Context, address string) ([]string, error) {
	return []string{"nouveau " + address + ": unknown chipset (180000a1)"}, nil
}

func (e *Engine) Login(_ context.Context, reference, user string, _ []byte, keep bool) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logins = append(e.logins, fmt.Sprint(reference, " ", user, " ", keep))
	return filepath.Join(e.Dir, "auth.json"), nil
}

// Forget takes an image that was read out of the store.
func (e *Engine) Forget(x *workflow.Examined) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Forgotten = append(e.Forgotten, x.Driver.Name)
	return nil
}

// Logins are the credentials that were taken, without the passwords.
func (e *Engine) Logins() []string { return e.logins }

// Break makes a run that was cut short.
func (e *Engine) Break(id string) {
	e.Hold(id)
	e.running = ""
	e.Past = append(e.Past, run.Listed{ID: id, Broken: true})
}

// Hold makes a run that is in progress.
func (e *Engine) Hold(id string) {
	e.running = id
	w, err := journal.Create(mkdir(e.RunDir(id)), e.clock()...)
	if err != nil {
		return
	}
	p := &plan.Plan{Steps: Steps("nvidia-open-580")}
	Vanish(w, p)
	_ = w.Close()
}

func mkdir(dir string) string {
	_ = os.MkdirAll(dir, 0o755)
	return dir
}

// Many replaces the node's devices by n different cards that work.
func (e *Engine) Many(n int) {
	e.Node.Kinds, e.Node.Devices = nil, nil
	for i := 0; i < n; i++ {
		id := fmt.Sprintf("8086:%04x", i)
		e.Node.Devices = append(e.Node.Devices, workflow.Device{State: finding.StateOK, Device: pci.Device{Address: fmt.Sprintf("%04x:00:00.0", i), VendorID: "8086", DeviceID: id[5:], Driver: "e1000e", NUMANode: -1}})
		e.Node.Kinds = append(e.Node.Kinds, workflow.Kind{ID: id, Name: fmt.Sprintf("card-%03d", i), Driver: "e1000e", State: finding.StateOK, Devices: []int{i}})
	}
}

// Want makes one of many cards need a driver the catalog has.
func (e *Engine) Want(i int) {
	e.Node.Kinds[i].State, e.Node.Devices[i].State = finding.StateNeedsDriver, finding.StateNeedsDriver
	e.Catalog[0].Match = append(e.Catalog[0].Match, e.Node.Kinds[i].ID)
}

// Lifeline is a plan's refusal with everything an error may carry.
var Lifeline = &workflow.Error{Exit: workflow.ExitForbidden, Code: "lifeline", Message: "the root disk of this node hangs on the driver that would go",
	Hint:     "leave this device alone, or boot from another disk",
	Findings: []finding.Finding{{Code: "lifeline", Severity: finding.Block, Message: "/ is on nvme0n1 on 0000:03:00.0", Evidence: []string{"/proc/self/mountinfo: 259:2 / /"}}}}
