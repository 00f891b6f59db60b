package host

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/hostops"
)

// InstallBinary copies the program to where hooks and units call it:
// <state>/bin/fitout-VERSION, and a link "fitout" to it. The copy before is left
// until the next one comes, so that a hook in flight keeps its file.
type InstallBinary struct {
	State, Source, Version string
	SHA256                 string
	Size                   int64
	// Name of the file, chosen by Prepare.
	Name string
	// HadFile says that the very version was there, OldLink what the link was.
	HadFile  bool
	OldLink  string
	Measured bool
}

// Kind implements hostops.Action.
func (a *InstallBinary) Kind() string { return "install-binary" }

func (a *InstallBinary) file() string { return path.Join(a.State, "bin", a.name()) }
func (a *InstallBinary) link() string { return path.Join(a.State, "bin", "fitout") }

// name is the file's: by version, and by digest where there is none or where
// another build of that version is installed.
func (a *InstallBinary) name() string {
	if a.Name != "" {
		return a.Name
	}
	return "fitout-" + strings.ReplaceAll(a.Version, "/", "_")
}

// choose sets the name once the digest is known.
func (a *InstallBinary) choose(n *hostops.Node) {
	a.Name = ""
	taken := OwnFile{Path: a.file()}
	if a.Version == "" || (taken.there(n) && !(OwnFile{Path: a.file(), SHA256: a.SHA256}).same(n)) {
		a.Name = strings.TrimSuffix(a.name(), "-") + "-" + a.SHA256[:12]
	}
}

// Describe implements hostops.Action.
func (a *InstallBinary) Describe() hostops.Description {
	return hostops.Description{
		Title:    "install the program that boot and upgrade hooks call",
		Text:     []string{fmt.Sprintf("cp %s %s (mode 0755)", a.Source, a.file()), fmt.Sprintf("ln -s %s %s", a.name(), a.link())},
		Undo:     []string{"point the link at the earlier version, or remove " + path.Join(a.State, "bin")},
		Estimate: time.Second, Bytes: a.Size, Into: a.State,
	}
}

// Prepare hashes the program and looks at what is installed.
func (a *InstallBinary) Prepare(_ context.Context, n *hostops.Node) error {
	sum, size, err := hashProgram(n, a.Source)
	if err != nil {
		return fmt.Errorf("reading the program to install: %w", err)
	}
	a.SHA256, a.Size = sum, size
	a.choose(n)
	a.HadFile = OwnFile{Path: a.file(), SHA256: sum}.same(n)
	a.OldLink, _ = n.Readlink(a.link())
	a.Measured = true
	return needSpace(n, a.State, uint64(size), 4, "")
}

// Do copies and links.
func (a *InstallBinary) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if !(OwnFile{Path: a.file(), SHA256: a.SHA256}).same(n) {
		src, err := openProgram(n, a.Source)
		if err != nil {
			return fmt.Errorf("copying %s: %w", a.Source, err)
		}
		err = n.WriteFrom(a.file(), src, 0o755, hostops.LabelProgram)
		_ = src.Close()
		if err != nil {
			return err
		}
	}
	if err := n.Symlink(a.name(), a.link()); err != nil {
		return err
	}
	return a.dropOlder(n)
}

// dropOlder removes copies that are neither this one nor the one before.
func (a *InstallBinary) dropOlder(n *hostops.Node) error {
	for _, p := range n.Glob(path.Join(a.State, "bin", "fitout-*")) {
		if base := path.Base(p); base != a.name() && base != a.OldLink {
			if err := n.Remove(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Done measures: the link leads to a file with the program's digest.
func (a *InstallBinary) Done(_ context.Context, n *hostops.Node) (bool, error) {
	sum := a.SHA256
	if sum == "" {
		var err error
		if sum, _, err = hashProgram(n, a.Source); err != nil {
			return false, nil
		}
	}
	got, _, err := hashFile(n, a.link())
	return err == nil && got == sum, nil
}

// Undo points the link back and removes the copy.
func (a *InstallBinary) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if !a.Measured {
		return nil
	}
	if a.OldLink == "" {
		if err := n.Remove(a.link()); err != nil {
			return err
		}
	} else if err := n.Symlink(a.OldLink, a.link()); err != nil {
		return err
	}
	if !a.HadFile && a.OldLink != a.name() {
		if err := n.Remove(a.file()); err != nil {
			return err
		}
	}
	pruneDirs(n, path.Join(a.State, "bin"), a.State)
	return nil
}
