package host

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"

	"fitout/hostops"
	"fitout/hostops/kmod"
)

// Remove implements Family. last makes the second action take the shared
// directories and the program away too.
func (h *Host) Remove(name string, last bool) ([]hostops.Action, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var out []hostops.Action
	if layered(h.n, h.layout.State, name) {
		out = append(out, &UnlayerPackage{State: h.layout.State, Driver: name})
	}
	return append(out,
		&TakeOut{State: h.layout.State, Driver: name, Last: last},
		&Purge{State: h.layout.State, Driver: name, Last: last},
	), nil
}

// TakeOut takes a driver's own files out of all places, by its record. What
// other drivers share stays; what somebody changed since is left and named.
// The files are moved aside, so that Undo can put them back; [Purge] is what
// deletes them.
type TakeOut struct {
	State, Driver string
	Last          bool
	// Files will be moved, Changed are left, Releases are indexed again.
	Files    []OwnFile
	Changed  []string
	Releases []string
	Dirs     []string
	Foreign  []OwnFile // links that joined the host's own firmware directory
	Firmware string    // the kernel's firmware path before
	Reload   bool
	Measured bool
}

// Kind implements hostops.Action.
func (a *TakeOut) Kind() string { return "take-out" }

func (a *TakeOut) aside(p string) string { return path.Join(removedDir(a.State), a.Driver, p) }

// Describe implements hostops.Action.
func (a *TakeOut) Describe() hostops.Description {
	d := hostops.Description{
		Title:    "take " + a.Driver + " out of the kept drivers",
		Undo:     []string{"put its files back from " + a.aside("")},
		Estimate: 3 * time.Second, Limit: 5 * time.Minute,
	}
	d.Text = append(d.Text, "by the record "+keptPath(a.State, a.Driver)+": its modules, firmware, modprobe.d file, hooks; files changed since are left and named")
	for _, f := range a.Files {
		d.Text = append(d.Text, "rm "+f.Path)
	}
	if a.Last {
		d.Text = append(d.Text, "it is the last one: the boot unit, the gate, and "+treeDir(a.State)+", "+firmwareDir(a.State)+" go too")
	}
	return d
}

// Prepare compares the record with what is on the node.
func (a *TakeOut) Prepare(_ context.Context, n *hostops.Node) error {
	if a.Measured && n.Exists(a.aside("")) {
		return nil // a run that was cut short: the first measure holds
	}
	kept, err := readKept(n, a.State)
	if err != nil {
		return err
	}
	a.Files, a.Changed, a.Releases, a.Dirs = nil, nil, nil, nil
	for _, k := range kept {
		if k.Driver.Name == a.Driver {
			a.measure(n, k, kept)
		}
	}
	if conf := (OwnFile{Path: bootConf(a.Driver)}); conf.there(n) {
		a.Files = append(a.Files, conf)
	}
	a.Firmware, _ = kmod.FirmwarePath(n)
	if a.Last {
		if err := a.foreignLinks(n); err != nil {
			return err
		}
	}
	a.Measured = true
	return nil
}

// measure sorts the record's files into those to move and those to leave.
func (a *TakeOut) measure(n *hostops.Node, k Kept, all []Kept) {
	rels := map[string]bool{}
	for rel := range k.Driver.Builds {
		rels[rel] = true
	}
	for _, f := range k.Files {
		switch {
		case otherOwner(all, f.Path, a.Driver) != "" || !f.there(n):
		case f.same(n):
			a.Files = append(a.Files, f)
		default:
			a.Changed = append(a.Changed, f.Path)
		}
		if strings.HasSuffix(f.Path, ".service") || strings.HasSuffix(f.Path, ".path") {
			a.Reload = true
		}
	}
	// What an earlier image brought for kernels that the last one has no build
	// for is in no record any more.
	for _, dir := range n.Glob(path.Join(treeDir(a.State), "lib/modules/*/updates", a.Driver)) {
		rel := path.Base(path.Dir(path.Dir(dir)))
		if files, err := ownFiles(n, dir); err == nil && !rels[rel] {
			a.Files, rels[rel] = append(a.Files, files...), true
		}
	}
	a.Dirs = k.Dirs
	for rel := range rels {
		a.Releases = append(a.Releases, rel)
	}
	sort.Strings(a.Releases)
}

// foreignLinks finds the links that PutFirmware made to the host's own files.
func (a *TakeOut) foreignLinks(n *hostops.Node) error {
	files, err := ownFiles(n, firmwareDir(a.State))
	if err != nil {
		return err
	}
	a.Foreign = nil
	for _, f := range files {
		if f.Link != "" {
			a.Foreign = append(a.Foreign, f)
		}
	}
	return nil
}

// Do moves the files aside and indexes what is left.
func (a *TakeOut) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	a.stopUnits(ctx, n)
	for _, f := range append(append([]OwnFile{}, a.Files...), a.Foreign...) {
		if !f.there(n) {
			continue
		}
		if err := moveFile(n, f.Path, a.aside(f.Path)); err != nil {
			return fmt.Errorf("removing %s: %w", f.Path, err)
		}
		if strings.HasPrefix(f.Path, a.State+"/") {
			pruneDirs(n, path.Dir(f.Path), a.State)
		}
	}
	for _, p := range a.Changed {
		out.Line("left alone, changed since fitout wrote it: " + p)
	}
	rec := keptPath(a.State, a.Driver)
	for _, p := range []string{rec, strings.TrimSuffix(rec, ".json") + ".old"} {
		if n.Exists(p) {
			if err := moveFile(n, p, a.aside(p)); err != nil {
				return err
			}
		}
	}
	pruneDirs(n, keptDir(a.State), a.State)
	for _, rel := range a.Releases {
		if err := settleRelease(ctx, n, a.State, rel, ""); err != nil {
			return err
		}
	}
	removeEmpty(n, a.Dirs)
	removeEmpty(n, []string{bootModprobe})
	if a.Last && a.Firmware == firmwareDir(a.State) {
		if err := kmod.WriteFirmwarePath(n, foreignDir(a.Foreign)); err != nil {
			out.Line("the kernel keeps its firmware path until reboot: " + err.Error())
		}
	}
	return a.reload(ctx, n)
}

// stopUnits stops the units that are about to go, and has systemd forget how they
// ended: a failed one would be listed for ever. One that is not running cannot be
// stopped, and need not be.
func (a *TakeOut) stopUnits(ctx context.Context, n *hostops.Node) {
	for _, f := range a.Files {
		if name := path.Base(f.Path); f.Link == "" && (strings.HasSuffix(name, ".path") || strings.HasSuffix(name, ".service")) {
			_ = systemctl(ctx, n, "stop", name)
			_ = systemctl(ctx, n, "reset-failed", name)
		}
	}
}

// foreignDir is the host's own firmware directory that was joined, as far as
// one link of it tells: the part of the target before the link's own name.
func foreignDir(links []OwnFile) string {
	for _, l := range links {
		_, name, ok := strings.Cut(l.Path, "/firmware/")
		if dir, cut := strings.CutSuffix(l.Link, "/"+name); ok && cut {
			return dir
		}
	}
	return ""
}

func (a *TakeOut) reload(ctx context.Context, n *hostops.Node) error {
	if !a.Reload {
		return nil
	}
	return systemctl(ctx, n, "daemon-reload")
}

// Done measures: no record, no own file.
func (a *TakeOut) Done(_ context.Context, n *hostops.Node) (bool, error) {
	if n.Exists(keptPath(a.State, a.Driver)) {
		return false, nil
	}
	for _, f := range a.Files {
		if f.there(n) {
			return false, nil
		}
	}
	return true, nil
}

// Undo puts everything back.
func (a *TakeOut) Undo(ctx context.Context, n *hostops.Node, _ hostops.Sink) error {
	if !a.Measured {
		return nil
	}
	files, err := ownFiles(n, a.aside(""))
	if err != nil {
		return err
	}
	var taken []string
	for _, f := range files {
		p := strings.TrimPrefix(f.Path, a.aside(""))
		if (OwnFile{Path: p}).there(n) {
			taken = append(taken, p)
			continue
		}
		if err := moveFile(n, f.Path, p); err != nil {
			return fmt.Errorf("putting %s back: %w", p, err)
		}
		pruneDirs(n, path.Dir(f.Path), a.State)
	}
	for _, rel := range a.Releases {
		if err := settleRelease(ctx, n, a.State, rel, ""); err != nil {
			return err
		}
	}
	if now, err := kmod.FirmwarePath(n); err == nil && now != a.Firmware {
		if err := kmod.WriteFirmwarePath(n, a.Firmware); err != nil {
			return err
		}
	}
	if err := a.reload(ctx, n); err != nil {
		return err
	}
	if len(taken) > 0 {
		return fmt.Errorf("not put back, something else is there now: %s", strings.Join(taken, " "))
	}
	return nil
}

// Purge deletes what [TakeOut] moved aside, and with the last driver the
// directories that only drivers need. It is the point of no return.
type Purge struct {
	State, Driver string
	Last          bool
}

// Kind implements hostops.Action.
func (a *Purge) Kind() string { return "purge-removed" }

// sharedDirs are those below the state directory that serve kept drivers only.
// tree, firmware and modprobe.d are gone by then, unless they hold something
// that was changed by somebody else.
var sharedDirs = []string{"bin", "kept", "saved", "blocked", "allow", "upgrade", "cache", "work", pendingDir}

// sharedFiles are the records of hooks.
var sharedFiles = []string{"hook.log", ".hook.lock", "boot.json"}

// Describe implements hostops.Action.
func (a *Purge) Describe() hostops.Description {
	d := hostops.Description{Title: "delete the files of " + a.Driver,
		Text:     []string{"rm -r " + path.Join(removedDir(a.State), a.Driver), "rm -r " + path.Join(savedDir(a.State), "{tree,firmware,repo}", a.Driver)},
		Undo:     []string{"nothing: from here on the driver has to be fitted anew"},
		Estimate: time.Second}
	if a.Last {
		d.Text = append(d.Text, "rm -r "+a.State+"/{"+strings.Join(sharedDirs, ",")+"}", "rm "+a.State+"/{"+strings.Join(sharedFiles, ",")+"}")
	}
	return d
}

func (a *Purge) paths() []string {
	out := []string{
		path.Join(removedDir(a.State), a.Driver), path.Join(savedDir(a.State), "tree", a.Driver),
		path.Join(savedDir(a.State), "firmware", a.Driver), path.Join(savedDir(a.State), "repo", a.Driver), path.Join(a.State, "upgrade", a.Driver+".json"),
	}
	if a.Last {
		for _, d := range append(append([]string{}, sharedDirs...), sharedFiles...) {
			out = append(out, path.Join(a.State, d))
		}
		out = append(out, motdPath, "/run/fitout/alert")
	}
	return out
}

// Prepare has nothing to measure.
func (a *Purge) Prepare(context.Context, *hostops.Node) error { return nil }

// Do deletes.
func (a *Purge) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	for _, p := range a.paths() {
		if err := n.RemoveAll(p); err != nil {
			return fmt.Errorf("deleting %s: %w", p, err)
		}
		if strings.HasPrefix(p, a.State+"/") {
			pruneDirs(n, path.Dir(p), a.State)
		}
	}
	return nil
}

// Done measures.
func (a *Purge) Done(_ context.Context, n *hostops.Node) (bool, error) {
	for _, p := range a.paths() {
		if (OwnFile{Path: p}).there(n) {
			return false, nil
		}
	}
	return true, nil
}

// Undo cannot bring back what was deleted; before that there is nothing to do.
func (a *Purge) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if done, err := a.Done(context.Background(), n); err != nil || !done {
		return err
	}
	return fmt.Errorf("the files of %s are deleted; fit it anew with its image", a.Driver)
}
