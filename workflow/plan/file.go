package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"fitout/hostops"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// File is the name of the plan in a run's directory.
const File = "plan.json"

// format is the version of the plan file. A plan of another one is refused
// rather than half understood: what it says is carried out.
const format = "fitout.run-plan/1"

// Kinds finds the code of an action again by its kind: each function returns a
// new, empty action (a pointer to its struct).
type Kinds map[string]func() hostops.Action

// Restore makes the action of a kind from its data.
func (k Kinds) Restore(kind string, data []byte) (hostops.Action, error) {
	make, ok := k[kind]
	if !ok {
		return nil, fmt.Errorf("the action kind %q is unknown to this fitout (it knows %s): it was written by another version",
			kind, strings.Join(slices.Sorted(maps.Keys(k)), ", "))
	}
	a := make()
	if err := json.Unmarshal(data, a); err != nil {
		return nil, fmt.Errorf("reading the data of action %q: %w", kind, err)
	}
	return a, nil
}

// file is the plan as it is kept.
type file struct {
	Format   string            `json:"format"`
	Kernel   string            `json:"kernel"`
	Steps    []fileStep        `json:"steps"`
	Answers  *answers.Answers  `json:"answers,omitempty"`
	Findings []finding.Finding `json:"findings,omitempty"`
	Risks    []string          `json:"risks,omitempty"`
	Missing  []string          `json:"missing,omitempty"`
	Drivers  []Driver          `json:"drivers,omitempty"`
	Skipped  []string          `json:"skipped,omitempty"`
}

type fileStep struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Action json.RawMessage `json:"action"`
}

// Save writes p into the run directory dir, a node path.
func Save(n *hostops.Node, dir string, p *Plan) error {
	f := file{Format: format, Kernel: p.Kernel, Answers: p.Answers, Findings: p.Findings,
		Risks: p.Risks, Missing: p.Missing, Drivers: p.Drivers, Skipped: p.Skipped}
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if s.ID == "" || seen[s.ID] {
			return fmt.Errorf("saving the plan: the step id %q is empty or used twice", s.ID)
		}
		seen[s.ID] = true
		data, err := json.Marshal(s.Action)
		if err != nil {
			return fmt.Errorf("saving the plan: step %s: %w", s.ID, err)
		}
		f.Steps = append(f.Steps, fileStep{s.ID, s.Action.Kind(), data})
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if err := n.WriteFile(path.Join(dir, File), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}

// Load reads the plan of the run directory dir, a node path.
func Load(n *hostops.Node, dir string, kinds Kinds) (*Plan, error) {
	name := path.Join(dir, File)
	data, err := n.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", name, err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("reading the plan %s: its format is %q, this fitout knows %q", name, f.Format, format)
	}
	p := &Plan{Kernel: f.Kernel, Answers: f.Answers, Findings: f.Findings,
		Risks: f.Risks, Missing: f.Missing, Drivers: f.Drivers, Skipped: f.Skipped}
	for _, s := range f.Steps {
		a, err := kinds.Restore(s.Kind, s.Action)
		if err != nil {
			return nil, fmt.Errorf("reading the plan %s: step %s: %w", name, s.ID, err)
		}
		p.Steps = append(p.Steps, Step{ID: s.ID, Action: a})
	}
	return p, nil
}

// LoadDrivers reads only which drivers the plan of dir is for; it needs no
// action kinds.
func LoadDrivers(n *hostops.Node, dir string) ([]Driver, error) {
	data, err := n.ReadFile(path.Join(dir, File))
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading the plan %s: %w", path.Join(dir, File), err)
	}
	return f.Drivers, nil
}
