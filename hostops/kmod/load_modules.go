package kmod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

// LoadModules loads module files, in the order given, and checks that it is
// these very builds that are in the kernel then. Undo takes away those that
// were not there before, in reverse.
type LoadModules struct {
	Files []LoadFile
	// Limit is how long one module's start-up code may take, 0: 2 minutes.
	Limit time.Duration
	// Before holds the names of those that were loaded before, of Prepare.
	Before   []string
	Prepared bool
}

// LoadFile is one module file to be loaded.
type LoadFile struct {
	Name string
	Path string // node path of the file, packed or not
	// Params as init_module(2) takes them, see [JoinParams].
	Params string
	// Srcversion and BuildID are read from the file by Prepare, and tell later
	// whether a module of that name is this build.
	Srcversion, BuildID string
}

// Kind implements hostops.Action.
func (*LoadModules) Kind() string { return "load-modules" }

// Describe implements hostops.Action.
func (a *LoadModules) Describe() hostops.Description {
	var names []string
	d := hostops.Description{Estimate: 5 * time.Second, Limit: a.limit()*time.Duration(max(1, len(a.Files))) + time.Minute}
	for _, f := range a.Files {
		names = append(names, f.Name)
		d.Text = append(d.Text, fmt.Sprintf("finit_module(%s, %q, 0)", f.Path, f.Params))
	}
	for _, name := range slices.Backward(names) {
		d.Undo = append(d.Undo, fmt.Sprintf("delete_module(%q, O_NONBLOCK), unless it was loaded before", name))
	}
	d.Title = "load " + strings.Join(names, ", ")
	return d
}

func (a *LoadModules) limit() time.Duration {
	return cmp.Or(a.Limit, loadLimit)
}

// identify reads from each file what tells its build.
func (a *LoadModules) identify(n *hostops.Node) error {
	for i := range a.Files {
		f := &a.Files[i]
		if f.Srcversion != "" || f.BuildID != "" {
			continue
		}
		info, err := module.ReadFile(n.Path(f.Path), module.Limits{Only: module.Modinfo | module.BuildIDs})
		if err != nil {
			return fmt.Errorf("reading module %s: %w", f.Name, err)
		}
		f.Srcversion, f.BuildID = info.Srcversion, info.BuildID
		if f.Name == "" {
			f.Name = info.Name
		}
	}
	return nil
}

// is says that a loaded module is this build. The kernel shows srcversion of
// every module that has one; Debian's in-tree modules have none, they are told
// by build id. Where neither is there the name has to do.
func (f *LoadFile) is(m *LoadedModule) bool {
	switch {
	case m == nil || m.Name != module.Normalize(f.Name):
		return false
	case f.Srcversion != "" || m.Srcversion != "":
		return f.Srcversion == m.Srcversion
	case f.BuildID != "" && m.BuildID != "":
		return f.BuildID == m.BuildID
	}
	return true
}

// Prepare implements hostops.Action. A module that an earlier crash left half
// loaded is refused: only a reboot clears it.
func (a *LoadModules) Prepare(_ context.Context, n *hostops.Node) error {
	if err := a.identify(n); err != nil {
		return err
	}
	a.Before = nil
	for _, f := range a.Files {
		m, err := loaded(n, f.Name)
		switch {
		case err != nil:
			return err
		case m == nil:
		case m.State != "Live":
			return halfLoaded(f, m)
		default:
			a.Before = append(a.Before, m.Name)
		}
	}
	a.Prepared = true
	return nil
}

func halfLoaded(f LoadFile, m *LoadedModule) *Refusal {
	return &Refusal{
		Module: f.Name, Path: f.Path, Code: "init-hung",
		Cause: fmt.Sprintf("it is in the kernel already, in the state %q, and stays there", m.State),
		Cure:  "reboot the node; nothing else takes it out",
		Err:   errors.New("module is half loaded"),
	}
}

// Do implements hostops.Action. The error for a module that the kernel refused
// is a *[Refusal].
func (a *LoadModules) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if err := a.identify(n); err != nil {
		return err
	}
	for i, f := range a.Files {
		out.Progress(int64(i), int64(len(a.Files)))
		m, err := loaded(n, f.Name)
		if err != nil {
			return err
		}
		if m != nil && m.State == "Live" && f.is(m) {
			out.Line(m.Name + " is loaded already, this very build")
			continue
		}
		if m != nil && m.State != "Live" {
			return halfLoaded(f, m)
		}
		if err := a.loadOne(ctx, n, f, out); err != nil {
			return err
		}
	}
	out.Progress(int64(len(a.Files)), int64(len(a.Files)))
	return nil
}

func (a *LoadModules) loadOne(ctx context.Context, n *hostops.Node, f LoadFile, out hostops.Sink) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, done, err := openPlain(n, f.Path)
	if err != nil {
		return fmt.Errorf("loading %s: %w", f.Name, err)
	}
	defer done()
	log, logErr := OpenLog(n)
	defer log.Close()
	if logErr != nil {
		n.Log.Debug("no kernel log", "error", logErr)
	}
	started := time.Now()
	err = insert(n, file, f.Params, a.limit())
	lines := log.Lines()
	for _, l := range lines {
		out.Line(l.String())
	}
	if err != nil {
		return explain(n, f, err, lines)
	}
	m, err := loaded(n, f.Name)
	switch {
	case err != nil:
		return err
	case m == nil || !f.is(m):
		return fmt.Errorf("loading %s: the kernel took %s and still does not show this build in /proc/modules", f.Name, f.Path)
	}
	out.Line(fmt.Sprintf("%s is loaded, after %s", m.Name, time.Since(started).Round(time.Millisecond)))
	for _, w := range unlikeParams(n, m.Name, f.Params) {
		out.Line("warning: " + w)
	}
	return nil
}

// explain finds the words for a refused load.
func explain(n *hostops.Node, f LoadFile, err error, lines []Line) *Refusal {
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	var s *stuck
	if errors.As(err, &s) {
		return &Refusal{Module: f.Name, Path: f.Path, Code: s.code, Cause: s.text,
			Cure: "reboot the node before anything else; do not load this build again", Log: texts, Err: err}
	}
	policy := ReadPolicy(n)
	info, _ := module.ReadFile(n.Path(f.Path), module.Limits{Only: module.Modinfo | module.Signed})
	return Explain(Attempt{
		Module: f.Name, Path: f.Path, Err: err, Log: texts, Policy: &policy, Info: info, Label: n.Label(f.Path),
		Tables: OpenTables(n, path.Join("/lib/modules", n.Kernel.Release())),
	})
}

// Done implements hostops.Action. Files that are not laid out yet are not
// loaded.
func (a *LoadModules) Done(_ context.Context, n *hostops.Node) (bool, error) {
	if err := a.identify(n); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	for i := range a.Files {
		m, err := loaded(n, a.Files[i].Name)
		if err != nil {
			return false, err
		}
		if m == nil || m.State != "Live" || !a.Files[i].is(m) {
			return false, nil
		}
	}
	return true, nil
}

// Undo implements hostops.Action.
func (a *LoadModules) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if !a.Prepared {
		return nil
	}
	var failed []error
	for i := len(a.Files) - 1; i >= 0; i-- {
		f := &a.Files[i]
		if slices.Contains(a.Before, module.Normalize(f.Name)) {
			continue
		}
		m, err := loaded(n, f.Name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if m == nil {
			continue
		}
		if !f.is(m) {
			out.Line(fmt.Sprintf("%s is left: it is not the build that was loaded here", m.Name))
			continue
		}
		err = unload(ctx, n, m.Name, a.limit())
		if isStuck(err) {
			return err
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		out.Line(m.Name + " is unloaded")
	}
	return errors.Join(failed...)
}
