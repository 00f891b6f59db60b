package host

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

// PutTree copies a driver's modules for one kernel into the side tree and
// indexes them. Plain modprobe finds them through the driver's modprobe.d file.
type PutTree struct {
	State, Driver, Release string
	// Source is the directory the modules are in now, Files what is in it.
	Source string
	Files  []TreeFile
	// OSDir is where the kernel's own modules lie now: for a staged deployment
	// not where they will be when it runs.
	OSDir string
	// Had says that an earlier version is there; Do moves it to Saved, which is ""
	// where the very files are there and only the index is to be made.
	Had   bool
	Saved string
}

// TreeFile is a module file: From is where it is below the source directory,
// Rel where it goes below the driver's directory. SHA256 and Size are of the
// unpacked module.
type TreeFile struct {
	From, Rel string
	SHA256    string
	Size      int64
}

// treeFiles lays a build's modules out flat; files of one name keep their
// directories apart.
func treeFiles(n *hostops.Node, b Build) []TreeFile {
	count := map[string]int{}
	for _, m := range b.Modules {
		count[module.NameOf(m)]++
	}
	var out []TreeFile
	for _, m := range b.Modules {
		f := TreeFile{From: m, Rel: path.Base(m)}
		if count[module.NameOf(m)] > 1 {
			f.Rel = m
		}
		for _, suffix := range []string{".gz", ".xz", ".zst"} {
			f.Rel = strings.TrimSuffix(f.Rel, suffix)
		}
		if st, err := n.Stat(path.Join(b.Dir, m)); err == nil {
			f.Size = st.Size()
		}
		out = append(out, f)
	}
	return out
}

// Kind implements hostops.Action.
func (a *PutTree) Kind() string { return "put-tree" }

func (a *PutTree) releaseDir() string { return path.Join(treeDir(a.State), "lib/modules", a.Release) }
func (a *PutTree) dest() string       { return path.Join(a.releaseDir(), "updates", a.Driver) }

// Describe implements hostops.Action.
func (a *PutTree) Describe() hostops.Description {
	d := hostops.Description{
		Title:    fmt.Sprintf("put %s for %s into the side tree", a.Driver, a.Release),
		Estimate: 3 * time.Second, Limit: 5 * time.Minute, Into: a.State,
	}
	for _, f := range a.Files {
		d.Text = append(d.Text, fmt.Sprintf("cp %s %s", path.Join(a.Source, f.From), path.Join(a.dest(), f.Rel)))
		d.Bytes += f.Size
	}
	final := finalModules(a.OSDir, a.Release)
	d.Text = append(d.Text,
		fmt.Sprintf("ln -s %s/kernel %s/kernel (and modules.builtin, modules.builtin.modinfo, modules.order)", final, a.releaseDir()),
		fmt.Sprintf("depmod -b %s %s, then read modules.dep: it must name every module above", treeDir(a.State), a.Release))
	d.Undo = []string{"rm -r " + a.dest() + ", put back what was there, depmod again"}
	return d
}

// Prepare measures sources, what is there already, and the room.
func (a *PutTree) Prepare(_ context.Context, n *hostops.Node) error {
	var bytes uint64
	for i := range a.Files {
		f := &a.Files[i]
		sum, size, err := hashModule(n, path.Join(a.Source, f.From))
		if err != nil {
			return fmt.Errorf("reading %s of %s for %s: %w", f.From, a.Driver, a.Release, err)
		}
		f.SHA256, f.Size = sum, size
		bytes += uint64(size)
	}
	a.Had = n.Exists(a.dest())
	if !a.filesThere(n) {
		a.Saved = freshSaved(n, path.Join(savedDir(a.State), "tree", a.Driver, a.Release))
	}
	return needSpace(n, a.State, bytes, uint64(len(a.Files)+16), "free some room there or keep fewer kernels")
}

// Do copies, links, indexes, and checks the index.
func (a *PutTree) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if a.Had && !a.filesThere(n) {
		if err := a.setAside(n); err != nil {
			return err
		}
	}
	var done, total int64
	for _, f := range a.Files {
		total += f.Size
	}
	for _, f := range a.Files {
		if err := copyModule(n, path.Join(a.Source, f.From), path.Join(a.dest(), f.Rel)); err != nil {
			return err
		}
		if sum, _, err := hashFile(n, path.Join(a.dest(), f.Rel)); err != nil || sum != f.SHA256 {
			return fmt.Errorf("copying %s: its content changed while it was copied (%w)", f.Rel, errOr(err, "digest differs"))
		}
		done += f.Size
		out.Progress(done, total)
	}
	return Reindex(ctx, n, a.State, a.Release, a.OSDir)
}

// setAside moves the version that is there out of the tree, once.
func (a *PutTree) setAside(n *hostops.Node) error {
	if n.Exists(a.Saved) {
		return n.RemoveAll(a.dest()) // half of the new one, from before a cut
	}
	return saveDir(n, a.dest(), a.Saved)
}

// Done measures: the very files, nothing else, and the index names them.
func (a *PutTree) Done(_ context.Context, n *hostops.Node) (bool, error) {
	if !a.filesThere(n) {
		return false, nil
	}
	return indexed(n, a.releaseDir(), a.Driver, a.Release) == nil, nil
}

func (a *PutTree) filesThere(n *hostops.Node) bool {
	have, err := ownFiles(n, a.dest())
	if err != nil || len(have) != len(a.Files) {
		return false
	}
	for _, f := range a.Files {
		sum := f.SHA256
		if sum == "" {
			var err error
			if sum, _, err = hashModule(n, path.Join(a.Source, f.From)); err != nil {
				return false
			}
		}
		if !(OwnFile{Path: path.Join(a.dest(), f.Rel), SHA256: sum}).same(n) {
			return false
		}
	}
	return true
}

// Undo takes the driver out of the tree and puts the earlier version back.
func (a *PutTree) Undo(ctx context.Context, n *hostops.Node, _ hostops.Sink) error {
	if a.Saved == "" {
		return nil
	}
	if a.Had && !n.Exists(a.Saved) {
		if a.filesThere(n) {
			return fmt.Errorf("the earlier %s for %s is not on the node any more: a later update took its place", a.Driver, a.Release)
		}
		return nil // Do never got as far as moving it
	}
	if err := n.RemoveAll(a.dest()); err != nil {
		return fmt.Errorf("removing %s: %w", a.dest(), err)
	}
	if a.Had {
		if err := moveFile(n, a.Saved, a.dest()); err != nil {
			return fmt.Errorf("putting back the earlier %s for %s: %w", a.Driver, a.Release, err)
		}
	}
	pruneDirs(n, path.Dir(a.Saved), a.State)
	return settleRelease(ctx, n, a.State, a.Release, a.OSDir)
}

// settleRelease indexes a release again, or removes its directory when no
// driver is left in it (the rest of it are links and indexes of ours).
func settleRelease(ctx context.Context, n *hostops.Node, state, rel, osDir string) error {
	dir := path.Join(treeDir(state), "lib/modules", rel)
	drivers, err := n.ReadDir(dir + "/updates")
	if err == nil && len(drivers) > 0 {
		return Reindex(ctx, n, state, rel, osDir)
	}
	if err := n.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	pruneDirs(n, path.Dir(dir), state)
	return nil
}

// hashModule is the SHA-256 and size of a module, unpacked.
func hashModule(n *hostops.Node, p string) (string, int64, error) {
	f, err := n.Open(p)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	r, _, err := module.Decompress(f)
	if err != nil {
		return "", 0, err
	}
	return hashReader(r)
}

// copyModule copies a module, unpacked: not every modprobe reads every packing.
func copyModule(n *hostops.Node, from, to string) error {
	f, err := n.Open(from)
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	defer f.Close()
	r, _, err := module.Decompress(f)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", from, err)
	}
	return n.WriteFrom(to, r, 0o644, hostops.LabelModule)
}

func errOr(err error, text string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s", text)
}
