package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"
	"time"

	"fitout/hostops"
	"fitout/workflow/plan"
)

// recordFormat is the version of a driver's record.
const recordFormat = "fitout.driver/1"

// Record is one installed driver, kept as <state>/drivers/<name>.json. It says
// what was wanted; what is so now is measured (status).
type Record struct {
	Format string      `json:"format"`
	Driver plan.Driver `json:"driver"`
	// Run installed it, At that time.
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Srcversions are those of the staged modules, by kernel release and
	// module name.
	Srcversions map[string]map[string]string `json:"srcversions,omitempty"`
	// Recovered says why the record was read from its previous copy, "" when
	// it was not.
	Recovered string `json:"-"`
}

// ErrDamaged says that a record and its copy cannot be read.
var ErrDamaged = errors.New("state damaged")

func recordPath(stateDir, name string) string {
	return path.Join(stateDir, "drivers", name+".json")
}

// copyPath is the second copy of a record: the content before the last write.
func copyPath(stateDir, name string) string { return recordPath(stateDir, name) + ".prev" }

// Installed reads the records of all installed drivers, by name. A damaged one
// is read from its copy. When both are damaged the error is ErrDamaged, beside
// the records that could be read: damaged is never "nothing installed".
func Installed(n *hostops.Node, stateDir string) ([]Record, error) {
	dir := path.Join(stateDir, "drivers")
	entries, err := n.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the installed drivers: %w", err)
	}
	var out []Record
	var broken []error
	seen := map[string]bool{}
	for _, e := range entries {
		name, isRecord := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".prev"), ".json")
		if !isRecord || seen[name] {
			continue
		}
		seen[name] = true
		r, err := readRecord(n, stateDir, name)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		out = append(out, r)
	}
	return out, errors.Join(broken...)
}

func readRecord(n *hostops.Node, stateDir, name string) (Record, error) {
	r, err := parseRecord(n, recordPath(stateDir, name))
	if err == nil {
		return r, nil
	}
	old, err2 := parseRecord(n, copyPath(stateDir, name))
	if err2 != nil {
		return r, fmt.Errorf("%w: the record of driver %s: %w; its copy: %w", ErrDamaged, name, err, err2)
	}
	old.Recovered = err.Error()
	return old, nil
}

func parseRecord(n *hostops.Node, file string) (Record, error) {
	data, err := n.ReadFile(file)
	if err != nil {
		return Record{}, err
	}
	r, err := decodeRecord(data)
	if err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func decodeRecord(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	if r.Format != recordFormat {
		return r, fmt.Errorf("its format is %q, this fitout knows %q", r.Format, recordFormat)
	}
	return r, nil
}

// RecordDriver is the action that records a driver as installed.
type RecordDriver struct {
	StateDir string
	Record   Record
	// Before and BeforeCopy are the files' contents before, nil for none.
	Before, BeforeCopy []byte
}

// Kind implements hostops.Action.
func (*RecordDriver) Kind() string { return "record-driver" }

// Describe implements hostops.Action.
func (a *RecordDriver) Describe() hostops.Description {
	file := recordPath(a.StateDir, a.Record.Driver.Name)
	return hostops.Description{Title: "record " + a.Record.Driver.Name, Text: []string{"write " + file},
		Undo: []string{"put the former " + file + " back, or remove it"}, Limit: time.Minute}
}

// Prepare implements hostops.Action.
func (a *RecordDriver) Prepare(_ context.Context, n *hostops.Node) error {
	a.Record.Format, a.Record.At = recordFormat, n.Now().UTC()
	var err error
	a.Before, a.BeforeCopy, err = keepRecord(n, a.StateDir, a.Record.Driver.Name)
	return err
}

func keepRecord(n *hostops.Node, stateDir, name string) (main, second []byte, err error) {
	if main, err = optional(n, recordPath(stateDir, name)); err == nil {
		second, err = optional(n, copyPath(stateDir, name))
	}
	return main, second, err
}

func optional(n *hostops.Node, file string) ([]byte, error) {
	data, err := n.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Done implements hostops.Action: a record of this driver says the same, and has
// its copy.
func (a *RecordDriver) Done(_ context.Context, n *hostops.Node) (bool, error) {
	r, err := parseRecord(n, recordPath(a.StateDir, a.Record.Driver.Name))
	if err != nil {
		return false, nil
	}
	if _, err := parseRecord(n, copyPath(a.StateDir, a.Record.Driver.Name)); err != nil {
		return false, nil
	}
	return reflect.DeepEqual(content(r), content(a.Record)), nil
}

// content is a record as JSON keeps it, without when and by which run.
func content(r Record) any {
	r.Format, r.Run, r.At = recordFormat, "", time.Time{}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return string(data)
}

// Do implements hostops.Action. The copy gets the former content when that can
// be read, else the new one, so that there are always two.
func (a *RecordDriver) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	name := a.Record.Driver.Name
	data, err := json.MarshalIndent(a.Record, "", " ")
	if err != nil {
		return fmt.Errorf("recording driver %s: %w", name, err)
	}
	file, copied := recordPath(a.StateDir, name), copyPath(a.StateDir, name)
	_, damaged := decodeRecord(a.Before)
	if damaged == nil {
		err = n.WriteFile(copied, a.Before, 0o600)
	}
	if err == nil {
		err = n.WriteFile(file, data, 0o600)
	}
	if err == nil && damaged != nil {
		err = n.WriteFile(copied, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording driver %s: %w", name, err)
	}
	return nil
}

// Undo implements hostops.Action.
func (a *RecordDriver) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return putBack(n, a.StateDir, a.Record.Driver.Name, a.Before, a.BeforeCopy)
}

// putBack restores both files of a record: what is to go goes copy first, what
// is to come comes record first, so that a cut never leaves a copy alone.
func putBack(n *hostops.Node, stateDir, name string, main, second []byte) error {
	file, copied := recordPath(stateDir, name), copyPath(stateDir, name)
	var err error
	if second == nil {
		err = n.Remove(copied)
	}
	if err == nil && main == nil {
		err = n.Remove(file)
		_ = n.Remove(path.Dir(file)) // only when it is empty
	}
	if err == nil && main != nil {
		err = n.WriteFile(file, main, 0o600)
	}
	if err == nil && second != nil {
		err = n.WriteFile(copied, second, 0o600)
	}
	if err != nil {
		return fmt.Errorf("putting the record of driver %s back: %w", name, err)
	}
	return nil
}

// ForgetDriver is the action that takes a driver's record away.
type ForgetDriver struct {
	StateDir, Name     string
	Before, BeforeCopy []byte
}

// Kind implements hostops.Action.
func (*ForgetDriver) Kind() string { return "forget-driver" }

// Describe implements hostops.Action.
func (a *ForgetDriver) Describe() hostops.Description {
	file := recordPath(a.StateDir, a.Name)
	return hostops.Description{Title: "forget " + a.Name, Text: []string{"remove " + file},
		Undo: []string{"write " + file + " again"}, Limit: time.Minute}
}

// Prepare implements hostops.Action.
func (a *ForgetDriver) Prepare(_ context.Context, n *hostops.Node) (err error) {
	a.Before, a.BeforeCopy, err = keepRecord(n, a.StateDir, a.Name)
	return err
}

// Done implements hostops.Action.
func (a *ForgetDriver) Done(_ context.Context, n *hostops.Node) (bool, error) {
	return !n.Exists(recordPath(a.StateDir, a.Name)) && !n.Exists(copyPath(a.StateDir, a.Name)), nil
}

// Do implements hostops.Action.
func (a *ForgetDriver) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return putBack(n, a.StateDir, a.Name, nil, nil)
}

// Undo implements hostops.Action.
func (a *ForgetDriver) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return putBack(n, a.StateDir, a.Name, a.Before, a.BeforeCopy)
}

// Kinds are the actions of this package.
func Kinds() plan.Kinds {
	return plan.Kinds{
		"reboot":        func() hostops.Action { return &Reboot{} },
		"record-driver": func() hostops.Action { return &RecordDriver{} },
		"forget-driver": func() hostops.Action { return &ForgetDriver{} },
	}
}
