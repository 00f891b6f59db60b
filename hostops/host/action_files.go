package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"fitout/hostops"
)

// TextFile is a small file, or a link, that fitout writes.
type TextFile struct {
	Path    string
	Content string      `json:",omitempty"`
	Mode    os.FileMode `json:",omitempty"`
	Link    string      `json:",omitempty"`
}

// Before is what was at a path.
type Before struct {
	Measured bool
	Exists   bool
	Content  []byte      `json:",omitempty"`
	Mode     os.FileMode `json:",omitempty"`
	Link     string      `json:",omitempty"`
}

// WriteFiles writes configuration: modprobe.d, units, scripts of the OS's hook
// directories.
type WriteFiles struct {
	Title string
	Files []TextFile
	// Reload makes systemd read its units again.
	Reload bool
	// Start are units to start once they are there; Undo stops them.
	Start []string `json:",omitempty"`
	// Dirs are directories that are not there yet, parents first; Undo removes
	// those that are empty again.
	Dirs   []string `json:",omitempty"`
	Before []Before
}

// Kind implements hostops.Action.
func (a *WriteFiles) Kind() string { return "write-files" }

// Describe implements hostops.Action: the whole content, to be read first.
func (a *WriteFiles) Describe() hostops.Description {
	d := hostops.Description{Title: a.Title, Estimate: time.Second}
	for _, f := range a.Files {
		if f.Link != "" {
			d.Text = append(d.Text, "ln -s "+f.Link+" "+f.Path)
		} else {
			d.Text = append(d.Text, fmt.Sprintf("write %s (mode %04o):", f.Path, f.Mode))
			for _, line := range strings.Split(strings.TrimSuffix(f.Content, "\n"), "\n") {
				d.Text = append(d.Text, "  "+line)
			}
		}
		d.Undo = append(d.Undo, "put "+f.Path+" back as it was (remove it if it was not there)")
		d.Bytes += int64(len(f.Content))
		d.Into = path.Dir(a.Files[0].Path) // files of one action lie in one place
	}
	if a.Reload {
		d.Text = append(d.Text, "systemctl daemon-reload")
	}
	for _, u := range a.Start {
		d.Text = append(d.Text, "systemctl start "+u)
		d.Undo = append([]string{"systemctl stop " + u}, d.Undo...)
	}
	return d
}

// Prepare keeps what is there now.
func (a *WriteFiles) Prepare(_ context.Context, n *hostops.Node) error {
	a.Before = make([]Before, len(a.Files))
	for i, f := range a.Files {
		b, err := look(n, f.Path)
		if err != nil {
			return fmt.Errorf("reading %s before it is written: %w", f.Path, err)
		}
		a.Before[i] = b
	}
	return nil
}

// look reads what is at p.
func look(n *hostops.Node, p string) (Before, error) {
	st, err := n.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return Before{Measured: true}, nil
	}
	if err != nil {
		return Before{}, err
	}
	b := Before{Measured: true, Exists: true, Mode: st.Mode().Perm()}
	if st.Mode()&fs.ModeSymlink != 0 {
		b.Link, err = n.Readlink(p)
		return b, err
	}
	b.Content, err = n.ReadFile(p)
	return b, err
}

// Do writes what differs.
func (a *WriteFiles) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	for _, f := range a.Files {
		if f.there(n) {
			continue
		}
		if err := f.write(n); err != nil {
			return err
		}
		out.Line("wrote " + f.Path)
	}
	if err := a.systemctl(ctx, n, "daemon-reload"); err != nil {
		return err
	}
	for _, u := range a.Start {
		if err := a.systemctl(ctx, n, "start", u); err != nil {
			return err
		}
	}
	return nil
}

func (f TextFile) write(n *hostops.Node) error {
	if f.Link != "" {
		return n.Symlink(f.Link, f.Path)
	}
	return n.WriteFile(f.Path, []byte(f.Content), f.Mode)
}

// there says that the very file is there.
func (f TextFile) there(n *hostops.Node) bool {
	b, err := look(n, f.Path)
	if err != nil || !b.Exists || b.Link != f.Link {
		return false
	}
	return f.Link != "" || (string(b.Content) == f.Content && b.Mode == f.Mode)
}

// Done measures.
func (a *WriteFiles) Done(_ context.Context, n *hostops.Node) (bool, error) {
	for _, f := range a.Files {
		if !f.there(n) {
			return false, nil
		}
	}
	return true, nil
}

// Undo puts back what was there. A file that somebody else has changed since
// is left and named.
func (a *WriteFiles) Undo(ctx context.Context, n *hostops.Node, _ hostops.Sink) error {
	if len(a.Before) == 0 {
		return nil
	}
	var changed []string
	for _, u := range a.Start {
		if !a.Before[0].Exists {
			// A unit that is not loaded cannot be stopped, and need not be.
			_ = a.systemctl(ctx, n, "stop", u)
		}
	}
	for i := len(a.Files) - 1; i >= 0; i-- {
		if i >= len(a.Before) || !a.Before[i].Measured {
			continue
		}
		f, b := a.Files[i], a.Before[i]
		now, err := look(n, f.Path)
		if err := errors.Join(err, n.DropTemp(f.Path)); err != nil {
			return err
		}
		switch {
		case now.Exists == b.Exists && now.Link == b.Link && bytes.Equal(now.Content, b.Content):
			continue
		case now.Exists && !f.there(n):
			changed = append(changed, f.Path)
			continue
		}
		if err := restore(n, f.Path, b); err != nil {
			return fmt.Errorf("putting %s back: %w", f.Path, err)
		}
	}
	removeEmpty(n, a.Dirs)
	if err := a.systemctl(ctx, n, "daemon-reload"); err != nil {
		return err
	}
	if len(changed) > 0 {
		return &ChangedSince{changed}
	}
	return nil
}

func restore(n *hostops.Node, p string, b Before) error {
	switch {
	case !b.Exists:
		return n.Remove(p)
	case b.Link != "":
		return n.Symlink(b.Link, p)
	}
	return n.WriteFile(p, b.Content, b.Mode)
}

// removeEmpty removes the directories of a list, made parents first, that hold
// nothing any more.
func removeEmpty(n *hostops.Node, dirs []string) {
	for i := len(dirs) - 1; i >= 0; i-- {
		if entries, err := n.ReadDir(dirs[i]); err == nil && len(entries) == 0 {
			_ = n.Remove(dirs[i])
		}
	}
}

// missingDirs lists the directories that writing files will make, parents
// first.
func missingDirs(n *hostops.Node, files []TextFile) []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range files {
		var chain []string
		for d := path.Dir(f.Path); d != "/" && !n.Exists(d) && !seen[d]; d = path.Dir(d) {
			chain = append([]string{d}, chain...)
			seen[d] = true
		}
		out = append(out, chain...)
	}
	return out
}

// systemctl speaks to systemd where it runs and the files concern it.
func (a *WriteFiles) systemctl(ctx context.Context, n *hostops.Node, args ...string) error {
	if !a.Reload {
		return nil
	}
	return systemctl(ctx, n, args...)
}

// systemctl does nothing on a host that is not running systemd.
func systemctl(ctx context.Context, n *hostops.Node, args ...string) error {
	if !n.Exists("/run/systemd/system") {
		return nil
	}
	if out, err := n.Exec.Run(ctx, append([]string{"systemctl"}, args...)...); err != nil {
		return fmt.Errorf("speaking to systemd: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
