package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// volatile is where what was only loaded lives: gone after a reboot.
const (
	volatile         = "/run/fitout"
	volatileTree     = volatile + "/tree"
	volatileFirmware = volatile + "/firmware"
)

// verifyWindow is how long a device's kernel log is watched after a load.
const verifyWindow = 3 * time.Second

// Plan resolves answers on this node and lays out the steps. It reads images
// into the store and changes nothing else. It returns an *Error when something
// forbids the run; risks that are not accepted are in Plan.Missing.
func (e *Engine) Plan(ctx context.Context, a *answers.Answers, p image.Progress) (*plan.Plan, error) {
	return e.lay(ctx, a, p, false)
}

// lay lays a plan out. With anew a driver that is loaded is taken away and loaded
// again.
func (e *Engine) lay(ctx context.Context, a *answers.Answers, p image.Progress, anew bool) (*plan.Plan, error) {
	b, err := e.begin(ctx, a)
	if err != nil {
		return nil, err
	}
	b.anew = anew
	s, pl := b.s, b.plan
	if s.Host.Refusal != "" {
		return nil, stopf(ExitUnsupported, "host-refused", "", "%s", s.Host.Refusal)
	}
	choices, skipped, err := e.resolve(ctx, s, a, p)
	if err != nil {
		return nil, err
	}
	pl.Answers, pl.Skipped = pinned(a, choices), skipped
	for _, c := range choices {
		if err := b.choice(c); err != nil {
			return nil, err
		}
	}
	if err := b.reboot(choices); err != nil {
		return nil, err
	}
	if len(pl.Steps) > 0 {
		b.maintenance()
	}
	return pl, b.done(ctx)
}

// pinned is the answers with the digests that were resolved, so that the next
// node uses the very same images.
func pinned(a *answers.Answers, choices []choice) *answers.Answers {
	out := *a
	out.Devices = slices.Clone(a.Devices)
	for i := range out.Devices {
		for _, c := range choices {
			if fmt.Sprint(c.rule.Match) != fmt.Sprint(out.Devices[i].Match) {
				continue
			}
			pins := map[string]string{}
			for release, inv := range c.examined.Inventories {
				pins[release] = inv.Digest
			}
			out.Devices[i].Pins = pins
		}
	}
	return &out
}

// builder lays out the steps of one plan.
type builder struct {
	e    *Engine
	s    *Survey
	a    *answers.Answers
	plan *plan.Plan
	stop []finding.Finding // what forbids the run
	anew bool              // what is loaded of a driver itself is loaded again
}

// begin looks at the node for a plan of what the answers say, about drivers that
// are installed already. It refuses while a call of an earlier run hangs in the
// kernel: whoever only measures its device may wait for it, too.
func (e *Engine) begin(ctx context.Context, a *answers.Answers, drivers ...plan.Driver) (*builder, error) {
	if o, hangs := run.Hanging(e.Node); hangs {
		return nil, stopf(ExitForbidden, "init-hung", "reboot the node, then: fitout rollback "+o.Run,
			"step %s of run %s hangs in the kernel; only a reboot ends it", o.Hung, o.Run)
	}
	s, err := e.Survey(ctx)
	if err != nil {
		return nil, err
	}
	return &builder{e: e, s: s, a: a, plan: &plan.Plan{Kernel: s.Running(), Answers: a, Drivers: drivers}}, nil
}

func (b *builder) add(id string, act hostops.Action) {
	if n := b.count(id); n > 0 {
		id = fmt.Sprintf("%s-%d", id, n+1)
	}
	b.plan.Steps = append(b.plan.Steps, plan.Step{ID: id, Action: act})
}

func (b *builder) count(id string) (n int) {
	for _, s := range b.plan.Steps {
		if s.ID == id || strings.HasPrefix(s.ID, id+"-") {
			n++
		}
	}
	return n
}

// note adds a judgement's findings to the plan; blocks stop the run when needed
// says that this kernel's verdict is.
func (b *builder) note(fs []finding.Finding, needed bool) {
	for _, f := range fs {
		if f.Severity == finding.Block && needed {
			b.stop = append(b.stop, f)
		}
		if f.Severity == finding.Risk && f.Risk != "" && needed {
			b.plan.Risks = append(b.plan.Risks, f.Risk)
		}
		b.plan.Findings = append(b.plan.Findings, f)
	}
}

// choice adds one driver: judge, then stage, swap, load, check, keep, record.
func (b *builder) choice(c choice) error {
	if err := b.licences(c); err != nil {
		return err
	}
	b.verdicts(c)
	if len(b.stop) > 0 {
		return nil
	}
	if c.examined.Driver.Unverified {
		b.plan.Risks = append(b.plan.Risks, "unverified-entry")
	}
	b.fetch(c)
	d := b.driver(c)
	if c.loadsNow() {
		if err := b.load(c, d); err != nil {
			return err
		}
	}
	if c.persists() || c.atBoot() {
		if err := b.keep(c, d); err != nil {
			return err
		}
	}
	d.Risks, d.Licences = b.a.AcceptRisks, b.texts(c)
	b.add("record", &run.RecordDriver{StateDir: b.s.Host.StateDir, Record: run.Record{Driver: *d, Srcversions: srcversions(c)}})
	b.plan.Drivers = append(b.plan.Drivers, *d)
	return nil
}

// licences stops the run until a person has accepted every text. What was read
// of an image under another text does not stay.
func (b *builder) licences(c choice) error {
	accepted := b.e.terms(b.s, b.a)
	for _, l := range c.examined.Licences {
		if err := accepted(l); err != nil {
			return errors.Join(err, b.e.Forget(c.examined))
		}
	}
	return nil
}

// texts are the digests of a driver's licence texts.
func (b *builder) texts(c choice) []string {
	var out []string
	for _, l := range c.examined.Licences {
		out = append(out, l.Digest)
	}
	return out
}

// verdicts weighs every kernel: the running one counts when the driver is to be
// loaded now; when it is only to be kept, one kernel with a build is enough.
func (b *builder) verdicts(c choice) {
	anyBuild := false
	for _, j := range c.examined.Judgements {
		running := j.Release == b.s.Running()
		needed := running && c.loadsNow()
		b.note(j.Findings, needed)
		usable := usable(j.Verdict)
		anyBuild = anyBuild || usable
		if needed && !usable {
			if len(b.stop) == 0 {
				b.stop = append(b.stop, finding.New("no-module", c.examined.Driver.Name, j.Release))
			}
			return
		}
	}
	if !anyBuild {
		for _, j := range c.examined.Judgements {
			b.stop = append(b.stop, j.Findings...)
		}
	}
}

func usable(v finding.Verdict) bool {
	return v == finding.OK || v == finding.OKKABI || v == finding.Unsure
}

func (b *builder) fetch(c choice) {
	seen := map[string]bool{}
	for _, release := range b.s.releases() {
		inv := c.examined.Inventories[release]
		if inv == nil || seen[inv.Digest] {
			continue
		}
		seen[inv.Digest] = true
		via := ""
		if ref, err := image.ParseReference(inv.Reference); err == nil {
			via = image.Via(ref, image.Options{Root: b.e.Node.Root})
		}
		b.add("fetch", &actions.Fetch{
			Reference: inv.Reference, Digest: inv.Digest, Dir: c.examined.Stores[release], Size: inv.Bytes,
			Want:      inv.Want(),
			AuthFiles: b.e.authFiles(b.a), PlainHTTP: b.e.PlainHTTP || slices.Contains(b.a.AcceptRisks, "plain-http"), Via: via,
		})
	}
}

// driver is the resolved driver for record and result.
func (b *builder) driver(c choice) *plan.Driver {
	x := c.examined
	d := &plan.Driver{
		Name: x.Driver.Name, When: c.rule.When, PersistIn: c.rule.PersistIn, OSTag: b.a.OSTag, AuthFiles: b.e.authFiles(b.a),
		Params: parameters(question{offer: x.Offer, parameters: c.rule.Parameters}), OnMissing: c.rule.OnMissingModule,
	}
	for _, i := range c.devices {
		d.Devices = append(d.Devices, b.s.Devices[i].Address)
		if id := b.s.Devices[i].ID(); !slices.Contains(d.DeviceIDs, id) {
			d.DeviceIDs = append(d.DeviceIDs, id)
		}
	}
	for n, k := range b.s.Kernels {
		j := x.Judgements[n]
		role := ""
		if len(k.Roles) > 0 {
			role = string(k.Roles[0])
		}
		d.Kernels = append(d.Kernels, plan.KernelBuild{Release: k.Release, Role: role, Verdict: j.Verdict})
		inv := x.Inventories[k.Release]
		if inv == nil || !usable(j.Verdict) || d.Digest != "" {
			continue
		}
		d.Image, d.Digest, d.Place = inv.Reference, inv.Digest, inv.Want().Place()
		for _, l := range j.Load {
			if l.From == "image" {
				d.Modules = append(d.Modules, l.Module)
				if m := findModule(inv, l.Path); m != nil && m.Info.Version != "" {
					d.Version = m.Info.Version
				}
			}
		}
	}
	return d
}

// srcversions are those of the image's modules, by kernel release and name.
func srcversions(c choice) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, j := range c.examined.Judgements {
		for _, l := range j.Load {
			inv := c.examined.Inventories[j.Release]
			if m := findModule(inv, l.Path); l.From == "image" && m != nil {
				if out[j.Release] == nil {
					out[j.Release] = map[string]string{}
				}
				out[j.Release][l.Module] = m.Info.Srcversion
			}
		}
	}
	return out
}

func findModule(inv *image.Inventory, p string) *image.Module {
	for _, k := range inv.Kernels {
		for i := range k.Modules {
			if k.Modules[i].Path == p {
				return &k.Modules[i]
			}
		}
	}
	return nil
}

// done returns the plan's error when something forbids it, and empties a plan
// whose every step is in place already.
func (b *builder) done(ctx context.Context) error {
	slices.Sort(b.plan.Risks)
	b.plan.Risks = slices.Compact(b.plan.Risks)
	for _, r := range b.plan.Risks {
		if !slices.Contains(b.a.AcceptRisks, r) {
			b.plan.Missing = append(b.plan.Missing, r)
		}
	}
	if len(b.stop) > 0 {
		return &Error{Exit: ExitForbidden, Code: string(b.stop[0].Code), Message: b.stop[0].Message, Hint: b.stop[0].Hint, Findings: b.stop}
	}
	inPlace := make([]func() bool, len(b.plan.Steps)) // many compare files: each is asked once
	for i, s := range b.plan.Steps {
		inPlace[i] = sync.OnceValue(func() bool {
			ok, err := s.Action.Done(ctx, b.e.Node)
			return err == nil && ok
		})
	}
	for i, s := range b.plan.Steps {
		if _, ok := s.Action.(*actions.Verify); !ok && !inPlace[i]() {
			return b.space(inPlace)
		}
	}
	if len(b.plan.Steps) > 0 {
		b.plan.Skipped = append(b.plan.Skipped, "everything the answers ask for is in place already")
		b.plan.Steps, b.plan.Risks, b.plan.Missing = nil, nil, nil
	}
	return nil
}

// space compares what the steps write with what is free, before any of it.
func (b *builder) space(inPlace []func() bool) error {
	need := map[string]int64{}
	for i, s := range b.plan.Steps {
		if d := s.Action.Describe(); d.Bytes > 0 && d.Into != "" && !inPlace[i]() {
			need[d.Into] += d.Bytes
		}
	}
	for dir, bytes := range need {
		free, _, err := b.e.Node.Free(dir)
		if err == nil && uint64(bytes) > free {
			return stopf(ExitForbidden, "no-space", "free some space there", "needs %s in %s, %s is free", plan.Size(bytes), dir, plan.Size(int64(free)))
		}
	}
	return nil
}
