package host

import (
	"context"
	"path"
	"time"

	"fitout/hostops"
)

// UnlayerPackage takes a driver's package out of the deployment that boots
// next, and its repository off the node.
type UnlayerPackage struct {
	State, Driver string
	Requested     bool
	Text          Before
	Saved         string // where the repository is moved to
	Measured      bool
}

// Kind implements hostops.Action.
func (a *UnlayerPackage) Kind() string { return "unlayer-package" }

// Describe implements hostops.Action.
func (a *UnlayerPackage) Describe() hostops.Description {
	name, text := packageName(a.Driver), repoText(a.State, a.Driver)
	return hostops.Description{
		Title:    "take " + name + " out of the OS image",
		Text:     []string{"rpm-ostree uninstall " + name, "mv " + repoDir(a.State, a.Driver) + " " + savedRepos(a.State, a.Driver), "rm " + text.Path, "the image that runs has the driver until the next boot"},
		Undo:     []string{"put " + text.Path + " and " + repoDir(a.State, a.Driver) + " back", "rpm-ostree install --idempotent " + name},
		Estimate: 3 * time.Minute, Limit: time.Hour,
	}
}

// Prepare measures what is asked for.
func (a *UnlayerPackage) Prepare(ctx context.Context, n *hostops.Node) (err error) {
	if a.Measured {
		return nil // a run that was cut short: the first measure holds
	}
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return err
	}
	if a.Text, err = look(n, repoText(a.State, a.Driver).Path); err != nil {
		return err
	}
	a.Saved = freshSaved(n, savedRepos(a.State, a.Driver))
	a.Requested, a.Measured = next.requests(a.Driver), true
	return nil
}

// Do takes it out; rpm-ostree needs no network for that.
func (a *UnlayerPackage) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	next, err := nextDeployment(ctx, n)
	if err != nil {
		return err
	}
	if next.requests(a.Driver) {
		if err := rpmOSTree(ctx, n, out, "uninstall", packageName(a.Driver)); err != nil {
			return err
		}
	}
	text := repoText(a.State, a.Driver)
	if a.Text.Exists && !text.there(n) && n.Exists(text.Path) {
		out.Line("left alone, changed since fitout wrote it: " + text.Path)
	} else if err := n.Remove(text.Path); err != nil {
		return err
	}
	if n.Exists(repoDir(a.State, a.Driver)) {
		if err := saveDir(n, repoDir(a.State, a.Driver), a.Saved); err != nil {
			return err
		}
	}
	pruneDirs(n, path.Dir(repoDir(a.State, a.Driver)), a.State)
	return nil
}

// Done measures.
func (a *UnlayerPackage) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	if n.Exists(repoDir(a.State, a.Driver)) || repoText(a.State, a.Driver).there(n) {
		return false, nil
	}
	next, err := nextDeployment(ctx, n)
	return err == nil && !next.requests(a.Driver), err
}

// Undo puts the repository back and asks for the package again.
func (a *UnlayerPackage) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if !a.Measured {
		return nil
	}
	if n.Exists(a.Saved) {
		if err := moveFile(n, a.Saved, repoDir(a.State, a.Driver)); err != nil {
			return err
		}
		pruneDirs(n, path.Dir(a.Saved), a.State)
	}
	if text := repoText(a.State, a.Driver); a.Text.Exists && !n.Exists(text.Path) {
		if err := restore(n, text.Path, a.Text); err != nil {
			return err
		}
	}
	if !a.Requested {
		return nil
	}
	return rpmOSTree(ctx, n, out, "install", "--idempotent", packageName(a.Driver))
}
