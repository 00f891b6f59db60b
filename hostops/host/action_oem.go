package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/hostops"
)

// PutHook writes one hook file into Elemental's /oem. Nothing else of fitout's
// goes there: the partition has some 50 MiB, and the toolkit reads every YAML
// file in it.
type PutHook struct {
	OEM, Path, Content string
	// Driver is the one whose self-test step is run, "" for the hold guard.
	Driver string
	// OneBreaksAll: toolkit v1 reads no file of the directory when one of them
	// is broken.
	OneBreaksAll bool
	Before       Before
}

// Kind implements hostops.Action.
func (a *PutHook) Kind() string { return "put-hook" }

// Describe implements hostops.Action.
func (a *PutHook) Describe() hostops.Description {
	d := hostops.Description{Title: "write the upgrade hook " + a.Path, Estimate: 2 * time.Second,
		Bytes: int64(len(a.Content)), Into: a.OEM,
		Undo: []string{"put " + a.Path + " back as it was (remove it if it was not there)"}}
	d.Text = append(d.Text, "check that "+a.OEM+" is the mounted persistent partition and that every YAML file in it can be read",
		"write "+a.Path+" (mode 0600, a temporary name first, synced, renamed):")
	for _, line := range strings.Split(strings.TrimSuffix(a.Content, "\n"), "\n") {
		d.Text = append(d.Text, "  "+line)
	}
	if a.Driver != "" {
		d.Text = append(d.Text, "elemental run-stage fitout-selftest, then look for what the step left: it proves the file is read")
	}
	return d
}

// Prepare checks everything that would make the hook useless or harmful.
func (a *PutHook) Prepare(_ context.Context, n *hostops.Node) error {
	if err := CheckHook([]byte(a.Content)); err != nil {
		return err
	}
	if mounts := readMounts(n); !isMountPoint(mounts, a.OEM) && !(mounts == nil && n.Simulated()) {
		return fmt.Errorf("%s is not a mounted partition here: the upgrade would mount another one and never see the hook; mount the partition labelled COS_OEM there", a.OEM)
	}
	broken, names, err := BrokenHooks(n, a.OEM)
	if err != nil {
		return err
	}
	for _, b := range broken {
		if a.OneBreaksAll && b.Path != a.Path {
			return fmt.Errorf("%s cannot be read (%w): with this toolkit one broken file disables all of %s, this node's own configuration too; repair or remove it first", b.Path, b.Err, a.OEM)
		}
	}
	f, err := parseHook([]byte(a.Content))
	if err != nil {
		return err
	}
	if other := names[f.Name]; other != "" && other != a.Path {
		return fmt.Errorf("%s has the name %q too; the toolkit would drop steps of one of them", other, f.Name)
	}
	if a.Before, err = look(n, a.Path); err != nil {
		return err
	}
	return needSpace(n, a.OEM, uint64(2*len(a.Content)), 2, "remove old files from "+a.OEM+" (logs, unused configuration)")
}

// Do writes the file and has the toolkit itself read it.
func (a *PutHook) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	// The temporary name ends in .tmp, which the toolkit does not read.
	if err := n.WriteFile(a.Path, []byte(a.Content), 0o600); err != nil {
		return err
	}
	broken, _, err := BrokenHooks(n, a.OEM)
	if err != nil {
		return err
	}
	for _, b := range broken {
		if b.Path == a.Path {
			return fmt.Errorf("reading %s back: %w", a.Path, b.Err)
		}
		out.Line(fmt.Sprintf("note: the toolkit cannot read %s (%v) and leaves it out", b.Path, b.Err))
	}
	return a.selftest(ctx, n)
}

// selftest runs the file's own no-op step with the toolkit, where that can be
// run, and looks for what it left: an exit code proves nothing.
func (a *PutHook) selftest(ctx context.Context, n *hostops.Node) error {
	if a.Driver == "" || n.Simulated() || !n.Exec.Look("elemental") {
		return nil
	}
	mark := path.Join("/run/fitout", "selftest-"+a.Driver)
	if err := n.Remove(mark); err != nil {
		return err
	}
	said, runErr := n.Exec.Run(ctx, "elemental", "run-stage", "fitout-selftest")
	if !n.Exists(mark) {
		return fmt.Errorf("the toolkit did not run %s (%w): %s", a.Path,
			errors.Join(runErr, errors.New("its self-test step left nothing")), strings.TrimSpace(string(said)))
	}
	return n.Remove(mark)
}

// Done measures the file's content.
func (a *PutHook) Done(_ context.Context, n *hostops.Node) (bool, error) {
	return a.text().there(n), nil
}

func (a *PutHook) text() TextFile { return TextFile{Path: a.Path, Content: a.Content, Mode: 0o600} }

// Undo puts back what was there.
func (a *PutHook) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if !a.Before.Measured {
		return nil
	}
	now, err := look(n, a.Path)
	if err != nil {
		return err
	}
	if now.Exists && !a.text().there(n) && string(now.Content) != string(a.Before.Content) {
		return &ChangedSince{[]string{a.Path}}
	}
	return restore(n, a.Path, a.Before)
}
