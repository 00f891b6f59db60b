// Package fake is an engine made of literals, for tests of the screens: a node
// with two GPUs nobody can use, a network card with a newer driver, and runs
// whose journals it writes itself.
package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/node"
	"fitout/hostops/pci"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/judge"
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
		return nil, &workflow.Error{Exit: workflow.ExitUnreachable, Code: "registry-unreachable", Message: "the registry does not answer: " + o.Driver.Name, Hint: "check the network, or take an archive"}
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

// Logins are the credentials that were taken, without the passwords.
func (e *Engine) Logins() []string { return e.logins }

// The kernels of the fake node, and when its runs begin.
const (
	Running = "6.4.0-150600.23.47-default"
	Next    = "6.4.0-150600.23.60-default"
)

// Began is when runs begin.
var Began = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)

// Step is an action made of words.
type Step struct{ Words hostops.Description }

func (s Step) Kind() string                                            { return "words" }
func (s Step) Describe() hostops.Description                           { return s.Words }
func (s Step) Prepare(context.Context, *hostops.Node) error            { return nil }
func (s Step) Do(context.Context, *hostops.Node, hostops.Sink) error   { return nil }
func (s Step) Done(context.Context, *hostops.Node) (bool, error)       { return true, nil }
func (s Step) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }

// Steps are those of mock-up B6, for a driver.
func Steps(name string) []plan.Step {
	step := func(id, title, text, undo string, seconds int, bytes int64) plan.Step {
		d := hostops.Description{Title: title, Text: strings.Split(text, "\n"), Estimate: time.Duration(seconds) * time.Second, Bytes: bytes}
		if undo != "" {
			d.Undo = strings.Split(undo, "\n")
		}
		if bytes > 0 {
			d.Into = "/var/lib/fitout"
		}
		return plan.Step{ID: id, Action: Step{d}}
	}
	return []plan.Step{
		step("fetch", "fetch "+name, "GET registry.local:5000/v2/drivers/nvidia/blobs/sha256:9f2c41", "delete the blob", 31, 412_000_000),
		step("stage", "unpack into /run/fitout", "write 214 files below /run/fitout/nvidia", "remove the directory", 19, 0),
		step("unbind", "2 devices from nouveau", "echo 0000:17:00.0 > /sys/bus/pci/drivers/nouveau/unbind\necho 0000:18:00.0 > /sys/bus/pci/drivers/nouveau/unbind", "rebind nouveau", 1, 0),
		step("load", "load nvidia nvidia_uvm nvidia_modeset", "finit_module(nvidia.ko)\nfinit_module(nvidia_uvm.ko)\nfinit_module(nvidia_modeset.ko)", "rmmod in reverse", 4, 0),
		step("keep", "write the upgrade hook", "write /oem/91_fitout.yaml", "restore the backup", 1, 0),
		step("check", "2 devices answer", "look at /sys/bus/pci/devices/*/driver for 5 s", "", 5, 0),
	}
}

var _ workflow.Wizard = (*Engine)(nil)

// New is the fake node; runs are kept below dir.
func New(dir string) *Engine {
	past := []run.Listed{{ID: "2026-1002-01", Summary: journal.Summary{Began: Began.AddDate(0, -1, -28), Outcome: journal.OutcomeDone}, Drivers: []plan.Driver{{Name: "nvidia-open", Version: "575.57.08"}}}}
	return &Engine{Dir: dir, Past: past, Node: survey(), Catalog: drivers(), Images: images(), Unreadable: map[string]error{}}
}

func survey() *workflow.Survey {
	s := &workflow.Survey{
		NodeName: "node-17", CatalogDate: "2026-11-28", SecureBoot: "off",
		Kernels: []host.Kernel{{Release: Running, Roles: []host.Role{host.Running}}, {Release: Next, Roles: []host.Role{host.Next}}},
		Host:    host.Facts{Family: "elemental-v2", Title: "SUSE Elemental, toolkit v2", LoadNow: true, SideTree: true, AtBoot: true, Gate: host.BlocksFinalize},
		Maintenance: node.Maintenance{State: "in-maintenance", Why: "cordoned, and no workload pods are left", Evidence: []string{"spec.unschedulable: true"},
			Enter: []string{"kubectl cordon node-17", "kubectl drain node-17 --ignore-daemonsets"}, Leave: []string{"kubectl uncordon node-17"}},
	}
	add := func(n int, name, id, class, driver string, state finding.State, found ...finding.Finding) {
		k := workflow.Kind{ID: id, Subsystem: "10de:16c1", Class: class, Name: name, Driver: driver, State: state}
		for i := 0; i < n; i++ {
			v, d, _ := strings.Cut(id, ":")
			dev := workflow.Device{State: state, Findings: found, Device: pci.Device{
				Address: fmt.Sprintf("0000:%02x:00.0", 0x17+len(s.Devices)), VendorID: v, DeviceID: d, SubsystemVendorID: "10de", SubsystemDeviceID: "16c1",
				ClassCode: class + "00", ClassName: "3D controller", Revision: "a1", Driver: driver, NUMANode: i % 2, IOMMUGroup: "31",
				Modalias: "pci:v0000" + strings.ToUpper(v) + "d0000" + strings.ToUpper(d) + "sv000010DEsd000016C1bc03sc02i00"}}
			k.Devices = append(k.Devices, len(s.Devices))
			s.Devices = append(s.Devices, dev)
		}
		s.Kinds = append(s.Kinds, k)
	}
	add(2, "NVIDIA H100 SXM5 80GB", "10de:2330", "0302", "nouveau", finding.StateWrongDriver,
		finding.Finding{Code: "wrong-driver", Severity: finding.Note, Message: "nouveau binds but has no compute support for this chip", Hint: "choose an image of nvidia-open"})
	add(1, "(unnamed)", "1e3e:0001", "0b40", "", finding.StateNoImage, finding.Finding{Code: "no-image", Severity: finding.Note, Message: "nothing in the catalog fits 1e3e:0001"})
	add(4, "Mellanox® ConnectX-7", "15b3:1021", "0200", "mlx5_core", finding.StateUpdate)
	add(1, "Broadcom MegaRAID 9560", "1000:10e2", "0104", "megaraid_sas", finding.StateOK)
	add(2, "Intel X710 10GbE", "8086:1572", "0200", "i40e", finding.StateOK)
	add(1, "PCI bridge", "8086:2030", "0604", "", finding.StateNotNeeded)
	return s
}

func drivers() []catalog.Driver {
	return []catalog.Driver{
		{Name: "nvidia-open-580", Title: "NVIDIA open kernel modules 580.65.06", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "nvidia-open-575", Title: "NVIDIA open kernel modules 575.57.08", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "nvidia-prop-580", Title: "NVIDIA proprietary 580.65.06", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "mlnx-ofed-24", Title: "Mellanox OFED 24.10", Vendor: "NVIDIA", Match: []string{"15b3:1021"}},
	}
}

// LicenceText is long enough to be read in pages.
var LicenceText = "NVIDIA DRIVER LICENCE AGREEMENT\n\n" + strings.Repeat("1. GRANT OF LICENCE. Subject to the terms of this agreement you may install and use the software on systems that you own or run.\n2. LIMITS. You may not “reverse engineer” the software.\n\n", 40) + "END OF TERMS"

func images() map[string]*workflow.Examined {
	lic := workflow.Licence{ID: "nvidia-driver-2025-01", Digest: "sha256:41d09c7741d09c7741d09c7741d09c7741d09c7741d09c7741d09c7741d09c77", Text: LicenceText}
	judged := func(release string, v finding.Verdict, f ...finding.Finding) judge.Judgement {
		return judge.Judgement{Release: release, Verdict: v, Findings: f, Checks: []judge.Check{
			{Name: "hardware", Result: "ok", Detail: "10de:2330 is in the modules' alias list"},
			{Name: "symbol versions", Result: "ok", Detail: "412 symbols match"},
			{Name: "signature", Result: "ok", Detail: "the key is in the .platform keyring"}}}
	}
	inv := &image.Inventory{Digest: "sha256:9f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e1", Layout: "kmm"}
	block := finding.Finding{Code: "lockdown", Severity: finding.Block, Message: "nvidia.ko would be refused: it is not signed", Hint: "take a signed image", Evidence: []string{"lockdown: integrity"}}
	return map[string]*workflow.Examined{
		"nvidia-open-580": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 412_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.OK)}},
		"nvidia-open-575": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 398_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.NoModule)}},
		"nvidia-prop-580": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 455_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.Blocked, block), judged(Next, finding.Blocked, block)}},
		"mlnx-ofed-24": {Inventories: map[string]*image.Inventory{}, Bytes: 88_000_000,
			Judgements: []judge.Judgement{judged(Running, finding.OKKABI), judged(Next, finding.Unsure)}},
		"oci-archive:/media/usb/x.tar": {Inventories: map[string]*image.Inventory{}, Bytes: 1_000_000,
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.OK)}},
	}
}

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
