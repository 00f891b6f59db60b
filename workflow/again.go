package workflow

import (
	"context"
	"slices"

	"fitout/catalog"
	"fitout/hostops/host"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// PlanAgain lays out load or persist of a driver that is installed already, from
// what its record says, without asking anything that was answered before. What
// is kept stays kept when it is only to be loaded.
func (e *Engine) PlanAgain(ctx context.Context, name string, when answers.When) (*plan.Plan, error) {
	return e.again(ctx, name, when, false)
}

// PlanReload lays out taking an installed driver's modules away and loading them
// again, from the image, with their parameters and firmware. What is kept stays
// kept.
func (e *Engine) PlanReload(ctx context.Context, name string) (*plan.Plan, error) {
	return e.again(ctx, name, answers.LoadNow, true)
}

func (e *Engine) again(ctx context.Context, name string, when answers.When, anew bool) (*plan.Plan, error) {
	r, _, _, err := e.record(name)
	if err != nil {
		return nil, err
	}
	if when == answers.LoadNow {
		switch r.Driver.When {
		case answers.Persist, answers.LoadNowPersist:
			when = answers.LoadNowPersist
		case answers.AtBoot, answers.LoadNowAtBoot:
			when = answers.LoadNowAtBoot
		}
	}
	before := e.Catalog
	defer func() { e.Catalog = before }()
	e.Catalog = e.catalogOf(r)
	return e.lay(ctx, e.answersOf(r, when), nil, anew)
}

// catalogOf is the catalog with an entry for an installed driver. Where the entry
// that it was installed by is gone (a catalog file that was given once), it is made
// of the record: under another name the driver would be on the node twice.
func (e *Engine) catalogOf(r run.Record) *catalog.Catalog {
	entry := e.entryOf(r)
	if entry.Source != givenByHand {
		return e.Catalog
	}
	entry.Images = []catalog.Mapping{{Kernel: ".*", Reference: r.Driver.Image}}
	entry.Replaces = slices.Clone(r.Driver.Replaced)
	kept, _ := host.ReadKept(e.Node, e.StateDir())
	for _, k := range kept {
		if k.Driver.Name == entry.Name {
			entry.Replaces = slices.Clone(k.Driver.Replaces)
		}
	}
	if len(r.Driver.Licences) == 0 {
		entry.Source = "its record" // the entry asked for none
	}
	c := *e.Catalog
	c.Drivers = append(slices.Clone(c.Drivers), entry)
	return &c
}

// answersOf is an answers file that says what a record says.
func (e *Engine) answersOf(r run.Record, when answers.When) *answers.Answers {
	a := answers.Default()
	a.AcceptRisks, a.OSTag = slices.Clone(r.Driver.Risks), r.Driver.OSTag
	if files := e.credentials(r); len(files) > 0 {
		a.Secrets.RegistryAuth = &answers.SecretRef{File: files[0]}
	}
	for _, digest := range r.Driver.Licences {
		a.Licences = append(a.Licences, answers.Licence{ID: r.Driver.Name, Digest: digest, Accepted: true, How: answers.FromRecord})
	}
	for _, id := range r.Driver.DeviceIDs {
		rule := answers.Rule{Match: answers.Match{ID: id}, When: when, PersistIn: r.Driver.PersistIn,
			OnMissingModule: r.Driver.OnMissing, Parameters: r.Driver.Params, Pins: map[string]string{}}
		for _, k := range r.Driver.Kernels {
			if usable(k.Verdict) {
				rule.Pins[k.Release] = r.Driver.Digest
			}
		}
		rule.Driver = r.Driver.Name
		a.Devices = append(a.Devices, rule)
	}
	if len(r.Driver.DeviceIDs) == 0 {
		a.Drivers = []answers.Extra{{Name: r.Driver.Name, When: when}}
	}
	return a
}

// credentials are the files that a driver's registry was asked with and that are
// there still.
func (e *Engine) credentials(r run.Record) []string {
	return slices.DeleteFunc(slices.Clone(r.Driver.AuthFiles), func(file string) bool { return !e.Node.Exists(file) })
}

// PlanUnload lays out taking a driver's modules out of the running kernel; what
// is kept for the next boot stays.
func (e *Engine) PlanUnload(ctx context.Context, name string) (*plan.Plan, error) {
	r, _, _, err := e.record(name)
	if err != nil {
		return nil, err
	}
	b, err := e.begin(ctx, answers.Default(), r.Driver)
	if err != nil {
		return nil, err
	}
	if leaving := loadedOf(e.Node, r.Driver.Modules); len(leaving) > 0 {
		if err := b.lifelines(leaving); err != nil {
			return nil, err
		}
		b.unload(leaving)
		b.maintenance()
	}
	return b.plan, b.done(ctx)
}
