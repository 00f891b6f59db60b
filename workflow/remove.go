package workflow

import (
	"context"
	"fmt"
	"path"
	"slices"

	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// record finds an installed driver.
func (e *Engine) record(name string) (run.Record, []run.Record, host.Family, error) {
	family := host.Detect(e.Node)
	all, err := run.Installed(e.Node, family.Facts().StateDir)
	if err != nil {
		return run.Record{}, nil, nil, &Error{Exit: ExitForbidden, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	for _, r := range all {
		if r.Driver.Name == name {
			return r, all, family, nil
		}
	}
	return run.Record{}, nil, nil, stopf(ExitNoMatch, "driver-not-installed", "see what is with: fitout status", "no driver %q was installed by fitout here", name)
}

// PlanRemove lays out the steps that take a driver off the node: unload it, let
// the earlier driver come back, take it out of the boot and of the hooks, remove
// its files and its record.
func (e *Engine) PlanRemove(ctx context.Context, name string) (*plan.Plan, error) {
	r, all, family, err := e.record(name)
	if err != nil {
		return nil, err
	}
	b, err := e.begin(ctx, answers.Default(), r.Driver)
	if err != nil {
		return nil, err
	}
	s, state := b.s, family.Facts().StateDir
	if leaving := loadedOf(e.Node, r.Driver.Modules); len(leaving) > 0 {
		if err := b.lifelines(leaving); err != nil {
			return nil, err
		}
		b.unload(append(leaving, unneeded(e.Node, r.Driver.Pulled, leaving)...))
		b.maintenance()
	}
	last := len(all) == 1
	acts, err := family.Remove(name, last)
	if err != nil {
		return nil, err
	}
	// The last of them deletes for good: it comes when all else is done.
	purge := acts[len(acts):]
	if len(acts) > 1 {
		acts, purge = acts[:len(acts)-1], acts[len(acts)-1:]
	}
	for _, a := range acts {
		b.add(a.Kind(), a)
	}
	if dir := path.Join(volatileTree, "lib/modules", s.Running(), "updates", name); e.Node.Exists(dir) {
		b.add("unstage", &actions.RemoveTree{Dir: dir, Top: volatile})
	}
	own := e.storeDir(r.Driver.Digest, r.Driver.Place)
	shared := slices.ContainsFunc(all, func(o run.Record) bool {
		return o.Driver.Name != name && e.storeDir(o.Driver.Digest, o.Driver.Place) == own
	})
	for _, dir := range e.Node.Glob(e.storeDir("*", "")) {
		// With the last driver go the images of earlier versions, and those only looked at.
		if last || dir == own && !shared {
			b.add("unstore", &actions.RemoveTree{Dir: dir, Top: path.Join(state, "store")})
		}
	}
	b.restore(r.Driver.Replaced)
	for _, a := range purge {
		b.add(a.Kind(), a)
	}
	b.add("forget", &run.ForgetDriver{StateDir: state, Name: name})
	return b.plan, b.done(ctx)
}

func loadedOf(n *hostops.Node, names []string) []string {
	loaded, err := kmod.Loaded(n)
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range loaded {
		if slices.Contains(names, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out
}

// restore adds the step that loads what was there before the driver came, and
// names what cannot come back.
func (b *builder) restore(names []string) {
	back := b.inTree(names)
	if len(back) > 0 {
		b.add("restore", &kmod.LoadModules{Files: back})
	}
	for _, m := range names {
		if !slices.ContainsFunc(back, func(f kmod.LoadFile) bool { return f.Name == m }) {
			b.plan.Skipped = append(b.plan.Skipped, fmt.Sprintf(
				"%s was loaded before the driver came and does not come back: %s has no such module of its own", m, b.s.Running()))
		}
	}
}

// inTree lists the kernel's own files of modules, each after what it needs.
func (b *builder) inTree(names []string) []kmod.LoadFile {
	k, err := b.e.openKernel(b.s, b.s.Kernels[0])
	if err != nil {
		return nil
	}
	var out []kmod.LoadFile
	for _, name := range names {
		needs := k.Tables.Depends(name) // the last is to be loaded first
		slices.Reverse(needs)
		for _, m := range append(needs, name) {
			p, ok := k.Tables.Path(m)
			if ok && !slices.ContainsFunc(out, func(f kmod.LoadFile) bool { return f.Name == m }) {
				out = append(out, kmod.LoadFile{Name: m, Path: p})
			}
		}
	}
	return out
}

// unneeded are those of the host's modules, brought in with a driver, that
// nothing but what leaves uses.
func unneeded(n *hostops.Node, pulled, leaving []string) []string {
	var out []string
	for i := len(pulled) - 1; i >= 0; i-- {
		u, err := kmod.Users(n, pulled[i])
		if err != nil || u.Module == "" || u.Unexplained > 0 {
			continue
		}
		if !slices.ContainsFunc(u.Holders, func(h kmod.Holder) bool {
			return !slices.Contains(leaving, h.Module) && !slices.Contains(out, h.Module)
		}) && len(loadedOf(n, pulled[i:i+1])) > 0 {
			out = append(out, pulled[i])
		}
	}
	return out
}
