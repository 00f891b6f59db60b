package host

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"fitout/hostops"
)

// LayerPackage has rpm-ostree put a driver into the OS image: a package for
// each kernel that has a build, in a repository of the driver's own, and the
// request for it. The running system is not changed; the deployment that boots
// next is made anew with the package in it.
type LayerPackage struct {
	State, Driver, Version string
	Builds                 []LayerBuild
	// Requested says that the package was asked for before, Had that another
	// repository was there, which Do moves to Saved; that is "" where there is
	// nothing to write.
	Requested, Had, Measured bool
	Saved                    string
}

// Kind implements hostops.Action.
func (a *LayerPackage) Kind() string { return "layer-package" }

func savedRepos(state, driver string) string { return path.Join(savedDir(state), "repo", driver) }

// Describe implements hostops.Action.
func (a *LayerPackage) Describe() hostops.Description {
	name := packageName(a.Driver)
	d := hostops.Description{
		Title:    "layer " + name + " onto the OS image",
		Undo:     []string{"rpm-ostree uninstall " + name, "rm -r " + repoDir(a.State, a.Driver)},
		Estimate: 3 * time.Minute, Limit: time.Hour, Into: a.State,
	}
	for _, b := range a.Builds {
		d.Text = append(d.Text, fmt.Sprintf("write the package %s for %s (Requires: kernel-core-uname-r = %s; %%post: depmod -a %s) into %s", name, b.Release, b.Release, b.Release, repoDir(a.State, a.Driver)))
	}
	d.Text = append(d.Text,
		"write the repository's metadata, "+repoDir(a.State, a.Driver)+"/repodata",
		"rpm-ostree install --idempotent "+name,
		"look into the deployment that boots next: every module must be in it, byte for byte, and in its modules.dep",
		"price: it is in the image from the next boot on; every later OS upgrade is built on this node (some minutes more each), and needs all RPM repositories of the node to answer",
		"price: an OS upgrade to a kernel without a package is refused by rpm-ostree before it is staged")
	return d
}

// Prepare refuses what the solver would refuse with more words.
func (a *LayerPackage) Prepare(ctx context.Context, n *hostops.Node) error {
	if a.Measured {
		return nil // a run that was cut short: the first measure holds
	}
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return err
	}
	if k := next.kernel(n); !slices.ContainsFunc(a.Builds, func(b LayerBuild) bool { return b.Release == k }) {
		return fmt.Errorf("layering %s: the deployment that boots next has kernel %q, for which there is no build; boot into one that has, or keep it in the side tree (persistIn: side-tree)", a.Driver, k)
	}
	var bytes uint64
	for _, b := range a.Builds {
		for _, m := range b.Modules {
			if st, err := n.Stat(path.Join(treeDir(a.State), "lib/modules", b.Release, "updates", a.Driver, m)); err == nil {
				bytes += uint64(st.Size())
			}
		}
	}
	if err := needSpace(n, a.State, bytes, uint64(len(a.Builds)+4), "free some room there or keep fewer kernels"); err != nil {
		return err
	}
	a.Requested, a.Had, a.Measured = next.requests(a.Driver), n.Exists(repoDir(a.State, a.Driver)), true
	if !repoHolds(n, a.State, a.Driver, a.Version, a.Builds) {
		a.Saved = freshSaved(n, savedRepos(a.State, a.Driver))
	}
	return nil
}

// Do writes the repository and asks for the package.
func (a *LayerPackage) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	name := packageName(a.Driver)
	if !repoHolds(n, a.State, a.Driver, a.Version, a.Builds) {
		if a.Had && !n.Exists(a.Saved) {
			if err := saveDir(n, repoDir(a.State, a.Driver), a.Saved); err != nil {
				return err
			}
		}
		if err := writeRepo(n, a.State, a.Driver, a.Version, a.Builds); err != nil {
			return err
		}
	}
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return err
	}
	if next.requests(a.Driver) && a.inImage(n, next) != nil {
		// What is asked for already is not looked up anew.
		if err := rpmOSTree(ctx, n, out, "uninstall", name); err != nil {
			return err
		}
	}
	if err := rpmOSTree(ctx, n, out, "install", "--idempotent", name); err != nil {
		return err
	}
	if next, err = nextDeployment(ctx, n); err != nil {
		return err
	}
	if err := a.inImage(n, next); err != nil {
		return fmt.Errorf("rpm-ostree ended well, but %w", err)
	}
	return nil
}

// inImage looks into a deployment for the build of its kernel.
func (a *LayerPackage) inImage(n *hostops.Node, d layeredDeployment) error {
	kernel := d.kernel(n)
	for _, b := range a.Builds {
		if b.Release == kernel {
			return d.holds(n, a.State, a.Driver, b)
		}
	}
	return fmt.Errorf("what boots next has kernel %q, for which there is no build", kernel)
}

// Done measures the repository and the deployment that boots next.
func (a *LayerPackage) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	if !n.Exists(repoText(a.State, a.Driver).Path) || !repoHolds(n, a.State, a.Driver, a.Version, a.Builds) {
		return false, nil
	}
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return false, err
	}
	return next.requests(a.Driver) && a.inImage(n, next) == nil, nil
}

// Undo takes the request and the repository away, or puts those of before back.
func (a *LayerPackage) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if !a.Measured {
		return nil
	}
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return err
	}
	repo, name := repoDir(a.State, a.Driver), packageName(a.Driver)
	changed := a.Saved != "" && (!a.Had || n.Exists(a.Saved))
	requested := next.requests(a.Driver)
	if requested && (changed || !a.Requested) {
		if err := rpmOSTree(ctx, n, out, "uninstall", name); err != nil {
			return err
		}
		requested = false
	}
	if changed {
		if err := n.RemoveAll(repo); err != nil {
			return fmt.Errorf("removing %s: %w", repo, err)
		}
		if a.Had {
			if err := moveFile(n, a.Saved, repo); err != nil {
				return err
			}
		}
		pruneDirs(n, path.Dir(a.Saved), a.State)
		pruneDirs(n, path.Dir(repo), a.State)
	}
	if a.Requested && !requested {
		return rpmOSTree(ctx, n, out, "install", "--idempotent", name)
	}
	return nil
}
