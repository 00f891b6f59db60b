package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
	"fitout/workflow/run"
)

// builds gives the gate a look for builds, and what to call when it has asked. A
// kernel that is not on the host yet is laid out once for all drivers.
func (e *Engine) builds() (find func(context.Context, host.Driver, host.Kernel) (*host.Build, error), done func()) {
	var (
		laid    sync.Once
		pending host.Kernel
		err     error
	)
	tidy := func() {}
	find = func(ctx context.Context, d host.Driver, k host.Kernel) (*host.Build, error) {
		return e.findBuild(ctx, d, k, func() (host.Kernel, error) {
			laid.Do(func() { pending, tidy, err = host.PendingKernel(ctx, e.Node, e.StateDir(), k.Release, os.Getppid()) })
			return pending, err
		})
	}
	return find, func() { tidy() }
}

// findBuild looks for a build of a kept driver for another kernel: in the image
// store and, with a short limit, in the registry that the catalog names for that
// kernel. A build for another release counts where its symbol versions fit and
// the risk kabi-match was accepted with the driver. The error says why there is
// none.
func (e *Engine) findBuild(ctx context.Context, d host.Driver, k host.Kernel, pending func() (host.Kernel, error)) (*host.Build, error) {
	facts := host.Detect(e.Node).Facts()
	records, err := run.Installed(e.Node, facts.StateDir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(records, func(r run.Record) bool { return r.Driver.Name == d.Name })
	if i < 0 {
		return nil, errors.New("fitout has no record of where it came from")
	}
	c := &cure{e: e, s: &Survey{Host: facts, Kernels: []host.Kernel{k}}, r: records[i], d: d, k: k, entry: e.entryOf(records[i]), pending: pending}
	b, err := c.stored()
	if b != nil {
		return b, nil
	}
	b, fetchErr := c.fetched(ctx)
	if b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("image store: %w; registry: %w", err, fetchErr)
}

// entryOf is the catalog's entry of an installed driver, or one that says what
// its record knows.
func (e *Engine) entryOf(r run.Record) catalog.Driver {
	if d, ok := e.Catalog.Driver(r.Driver.Name); ok {
		return d
	}
	modules := slices.Clone(r.Driver.Modules) // in load order; an entry names the driver proper first
	slices.Reverse(modules)
	return catalog.Driver{Name: r.Driver.Name, Modules: modules, Source: givenByHand}
}

// cure is the search for one driver's build for one kernel.
type cure struct {
	e     *Engine
	s     *Survey
	r     run.Record
	d     host.Driver
	k     host.Kernel
	entry catalog.Driver
	// pending is the kernel laid out from its package.
	pending func() (host.Kernel, error)
}

func (c *cure) question(ref string) question {
	o := Offer{Driver: c.entry, References: map[string]string{c.k.Release: ref}}
	return question{offer: o, parameters: c.d.Parameters, accepted: c.r.Driver.Risks, exact: !c.kabi(), authFiles: c.e.credentials(c.r),
		terms: c.e.terms(c.s, answers.Default()), known: c.e.knownLicences(c.s, answers.Default())}
}

func (c *cure) kabi() bool { return slices.Contains(c.r.Driver.Risks, "kabi-match") }

// stored looks into the image that the driver came from.
func (c *cure) stored() (*host.Build, error) {
	dir := c.e.storeDir(c.r.Driver.Digest, c.r.Driver.Place)
	inv, err := image.ReadInventory(c.e.Node.Path(dir))
	if image.CodeOf(err) == image.StoreDamaged {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not in it", c.r.Driver.Digest)
	}
	return c.build(inv, dir)
}

// fetched asks the registry. What it brings stays in the store.
func (c *cure) fetched(ctx context.Context) (*host.Build, error) {
	set, err := actions.ReadSettings(c.e.Node)
	if err != nil {
		return nil, err
	}
	if set.Gate.Wait() == 0 {
		return nil, errors.New("not asked, gate.fetch is 0 in " + actions.SettingsFile)
	}
	ref := c.r.Driver.Image
	if c.entry.Source != givenByHand {
		if ref, _, err = c.entry.Resolve(c.k.Release, c.e.vars(c.r.Driver.OSTag)); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, set.Gate.Wait())
	defer cancel()
	q := c.question(ref)
	got := c.e.store(limited, c.s, q, c.k.Release, ref, nil)
	if got.err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%s: no answer within %s (gate.fetch in %s)", ref, set.Gate.Fetch, actions.SettingsFile)
	}
	if got.err != nil {
		return nil, got.err
	}
	defer c.e.tidyAfterFetch(got.inventory.Digest)
	if err := q.accepts(got.inventory); err != nil {
		return nil, errors.Join(err, c.e.Forget(&Examined{Stores: map[string]string{c.k.Release: got.dir}}))
	}
	return c.build(got.inventory, got.dir)
}

// build judges an image for the kernel, and gives its files when they serve. A
// package that is not unpacked yet has no files to judge by; then a build that
// says it is for this very release is taken, as at its first boot it would be.
// For a build of another release the package is looked into.
func (c *cure) build(inv *image.Inventory, dir string) (*host.Build, error) {
	j := c.e.judge(c.s, c.k, c.question(""), inv)
	serves := j.Verdict == finding.OK || j.Verdict == finding.Unsure && c.k.Dir == "" && j.Build == c.k.Release
	if !serves && c.k.Dir == "" {
		pending, err := c.pending()
		if err != nil {
			return nil, fmt.Errorf("%s has %s (%w)", cmp.Or(inv.Reference, c.r.Driver.Image), whyNot(j), err)
		}
		j = c.e.judge(c.s, pending, c.question(""), inv)
	}
	switch {
	case serves, j.Verdict == finding.OK, j.Verdict == finding.OKKABI && c.kabi():
	case j.Verdict == finding.OKKABI:
		return nil, fmt.Errorf("the build for %s would fit, and the risk kabi-match was not accepted with the driver", j.Build)
	default:
		return nil, fmt.Errorf("%s has %s", cmp.Or(inv.Reference, c.r.Driver.Image), whyNot(j))
	}
	b := hostBuild(c.k.Release, dir, inv, j.Load, map[string][]string{})
	if len(b.Modules) == 0 {
		return nil, fmt.Errorf("%s brings no module for %s", cmp.Or(inv.Reference, c.r.Driver.Image), c.k.Release)
	}
	b.Verdict = string(j.Verdict)
	if inv.Digest != c.r.Driver.Digest {
		b.Digest = inv.Digest
	}
	return &b, nil
}

// whyNot is a verdict that is no, in a few words.
func whyNot(j judge.Judgement) string {
	if j.Verdict == finding.NoModule {
		return "no build for it"
	}
	for _, f := range j.Findings {
		if f.Severity == finding.Block {
			return "a build that does not fit: " + f.Message
		}
	}
	return "a build of which it cannot be told that it fits (" + finding.VerdictWord(j.Verdict) + ")"
}
