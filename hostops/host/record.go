package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"time"

	"fitout/hostops"
)

// Kept is the record of a driver that is kept: what the hooks and the gate go
// by, and the list of its files. One file a driver, below <state>/kept; the
// source of truth, also when /etc was rolled back.
type Kept struct {
	Format int       `json:"format"` // 1
	Driver Driver    `json:"driver"`
	When   string    `json:"when"`  // "persist" or "at-boot"
	Where  string    `json:"where"` // "side-tree" or "os-image"
	At     time.Time `json:"at"`
	// Firmware names are relative to <state>/firmware.
	Firmware []string `json:"firmware,omitempty"`
	// Files are its own files with their digests.
	Files []OwnFile `json:"files"`
	// Texts are the configuration files it needs, so that they can be put
	// back after a rollback of /etc.
	Texts []TextFile `json:"texts,omitempty"`
	// Dirs were made for the texts, parents first.
	Dirs []string `json:"dirs,omitempty"`
}

// Gone are the configuration files that are not there any more.
func (k Kept) Gone(n *hostops.Node) []string {
	var out []string
	for _, t := range k.Texts {
		if !t.own().there(n) {
			out = append(out, t.Path)
		}
	}
	return out
}

func keptDir(state string) string { return path.Join(state, "kept") }

func keptPath(state, name string) string { return path.Join(keptDir(state), name+".json") }

// ReadKept reads the records of all kept drivers, sorted by name. A damaged
// record is an error beside the records that could be read, never "nothing is
// kept"; its previous copy is used when that is whole.
func ReadKept(n *hostops.Node, state string) ([]Kept, error) { return readKept(n, state) }

func readKept(n *hostops.Node, state string) ([]Kept, error) {
	entries, err := n.ReadDir(keptDir(state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is kept: %w", err)
	}
	var out []Kept
	var broken []error
	for _, e := range entries {
		name, isRecord := trimSuffix(e.Name(), ".json")
		if !isRecord {
			continue
		}
		k, err := readRecord(n, path.Join(keptDir(state), e.Name()))
		if err != nil {
			old, oldErr := readRecord(n, path.Join(keptDir(state), name+".old"))
			if oldErr != nil {
				broken = append(broken, fmt.Errorf("the record of driver %s is damaged: %w; run fitout persist %s", name, err, name))
				continue
			}
			k = old
		}
		out = append(out, *k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Driver.Name < out[j].Driver.Name })
	return out, errors.Join(broken...)
}

func trimSuffix(s, suffix string) (string, bool) {
	if len(s) > len(suffix) && s[len(s)-len(suffix):] == suffix {
		return s[:len(s)-len(suffix)], true
	}
	return s, false
}

func readRecord(n *hostops.Node, p string) (*Kept, error) {
	b, err := n.ReadFile(p)
	if err != nil {
		return nil, err
	}
	var k Kept
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if k.Format != 1 || k.Driver.Name == "" {
		return nil, fmt.Errorf("%s: format %d is not known to this version", p, k.Format)
	}
	return &k, nil
}

func writeRecord(n *hostops.Node, p string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return n.WriteFile(p, append(b, '\n'), 0o644)
}

// Keep writes the record of a kept driver: the last step of persisting.
type Keep struct {
	State string
	Kept  Kept
	// Dirs are scanned for own files.
	Dirs   []string
	Before Before
	// Others are the records of other drivers as they were, by path: the
	// configuration they share with this one may be written anew.
	Others map[string]Before `json:",omitempty"`
}

// Kind implements hostops.Action.
func (a *Keep) Kind() string { return "keep-record" }

// Describe implements hostops.Action.
func (a *Keep) Describe() hostops.Description {
	p := keptPath(a.State, a.Kept.Driver.Name)
	return hostops.Description{
		Title:    "record that " + a.Kept.Driver.Name + " is kept",
		Text:     []string{"write " + p + " (driver, kernels, its files with their SHA-256)"},
		Undo:     []string{"put " + p + " back as it was"},
		Estimate: time.Second,
	}
}

// Prepare keeps the earlier record.
func (a *Keep) Prepare(_ context.Context, n *hostops.Node) (err error) {
	if a.Before, err = look(n, keptPath(a.State, a.Kept.Driver.Name)); err != nil {
		return err
	}
	all, err := readKept(n, a.State)
	if err != nil {
		return err
	}
	a.Others = map[string]Before{}
	for _, k := range all {
		if k.Driver.Name == a.Kept.Driver.Name {
			continue
		}
		p := keptPath(a.State, k.Driver.Name)
		if a.Others[p], err = look(n, p); err != nil {
			return err
		}
	}
	return nil
}

// Do lists the driver's files as they are and writes the record.
func (a *Keep) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	files, err := a.list(n)
	if err != nil {
		return fmt.Errorf("listing the files of %s: %w", a.Kept.Driver.Name, err)
	}
	a.Kept.Files, a.Kept.At, a.Kept.Format = files, n.Now().UTC(), 1
	p := keptPath(a.State, a.Kept.Driver.Name)
	if a.Before.Exists {
		if err := n.WriteFile(path.Join(keptDir(a.State), a.Kept.Driver.Name+".old"), a.Before.Content, 0o644); err != nil {
			return err
		}
	}
	if err := writeRecord(n, p, a.Kept); err != nil {
		return err
	}
	if err := a.refreshOthers(n); err != nil {
		return err
	}
	ClearBlocked(n, a.State) // what stood against kernels that have their build now
	return nil
}

// refreshOthers gives the records of other drivers the new content of the
// files they share with this one.
func (a *Keep) refreshOthers(n *hostops.Node) error {
	all, err := readKept(n, a.State)
	if err != nil {
		return err
	}
	for _, k := range all {
		p := keptPath(a.State, k.Driver.Name)
		if k.Driver.Name == a.Kept.Driver.Name || !k.takeTexts(a.Kept.Texts) {
			continue
		}
		if err := writeRecord(n, p, k); err != nil {
			return err
		}
	}
	return nil
}

// takeTexts replaces shared texts in a record; it says whether any differed.
func (k *Kept) takeTexts(from []TextFile) bool {
	changed := false
	for _, t := range from {
		for i := range k.Texts {
			if k.Texts[i].Path == t.Path && k.Texts[i] != t {
				k.Texts[i], changed = t, true
			}
		}
		for i := range k.Files {
			if k.Files[i].Path == t.Path {
				k.Files[i] = t.own()
			}
		}
	}
	return changed
}

// own is the text as a recorded file.
func (f TextFile) own() OwnFile {
	if f.Link != "" {
		return OwnFile{Path: f.Path, Link: f.Link}
	}
	return OwnFile{Path: f.Path, SHA256: hashBytes([]byte(f.Content))}
}

// list hashes what the driver has on the node now. Foreign firmware that is
// joined by links belongs to no driver.
func (a *Keep) list(n *hostops.Node) ([]OwnFile, error) {
	var out []OwnFile
	for _, d := range a.Dirs {
		files, err := ownFiles(n, d)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	for _, name := range a.Kept.Firmware {
		p := path.Join(firmwareDir(a.State), name)
		sum, _, err := hashFile(n, p)
		if err != nil {
			return nil, err
		}
		out = append(out, OwnFile{Path: p, SHA256: sum})
	}
	for _, t := range a.Kept.Texts {
		out = append(out, t.own())
	}
	return out, nil
}

// Done measures: the record is there, says the same, and its files are there.
func (a *Keep) Done(_ context.Context, n *hostops.Node) (bool, error) {
	k, err := readRecord(n, keptPath(a.State, a.Kept.Driver.Name))
	if err != nil {
		return false, nil
	}
	want, err := json.Marshal([]any{a.Kept.Driver, a.Kept.When, a.Kept.Where, a.Kept.Texts})
	if err != nil {
		return false, err
	}
	got, err := json.Marshal([]any{k.Driver, k.When, k.Where, k.Texts})
	if err != nil {
		return false, err
	}
	files, err := a.list(n)
	if err != nil || string(want) != string(got) || len(files) != len(k.Files) {
		return false, nil
	}
	for _, f := range k.Files {
		if !f.same(n) {
			return false, nil
		}
	}
	return true, nil
}

// Undo puts the earlier record back.
func (a *Keep) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	if !a.Before.Measured {
		return nil
	}
	p := keptPath(a.State, a.Kept.Driver.Name)
	if err := n.Remove(path.Join(keptDir(a.State), a.Kept.Driver.Name+".old")); err != nil {
		return err
	}
	if err := restore(n, p, a.Before); err != nil {
		return err
	}
	for p, b := range a.Others {
		if err := restore(n, p, b); err != nil {
			return err
		}
	}
	pruneDirs(n, keptDir(a.State), a.State)
	return nil
}
