package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"fitout/hostops"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// licenceFile keeps the licence texts that were accepted on this node, by
// digest, below the state directory.
const licenceFile = "licences.json"

// Acceptance is a licence text that was accepted: what, by whom, when, how, and the
// digests of the images that came under it in runs of this node.
type Acceptance struct {
	answers.Licence
	Images []string `json:"images,omitempty"`
}

// AcceptedLicences says which licence texts, by digest, were accepted on this
// node. A file that cannot be read accepts nothing: a person is asked again.
func AcceptedLicences(n *hostops.Node, stateDir string) map[string]bool {
	out := map[string]bool{}
	for _, l := range Licences(n, stateDir) {
		out[l.Digest] = l.Accepted
	}
	return out
}

// Licences are the acceptances recorded on this node, none where the record
// cannot be read.
func Licences(n *hostops.Node, stateDir string) []Acceptance {
	list, err := readLicences(n, stateDir)
	if err != nil {
		return nil
	}
	return list
}

func readLicences(n *hostops.Node, stateDir string) ([]Acceptance, error) {
	var list []Acceptance
	data, err := n.ReadFile(path.Join(stateDir, licenceFile))
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(data, &list)
}

// acceptLicences adds what a plan's answers accept, and the plan's images to what
// was accepted before. It stays when a run is undone: who accepted a text has
// accepted it.
func acceptLicences(n *hostops.Node, stateDir string, p *plan.Plan) error {
	list, err := readLicences(n, stateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Log.Warn("the record of accepted licences is damaged and is begun anew", "err", err)
		list = nil
	}
	changed := false
	for _, l := range p.Answers.Licences {
		if l.Accepted && l.Digest != "" && !slices.ContainsFunc(list, func(o Acceptance) bool { return o.Digest == l.Digest }) {
			l.How = cmp.Or(l.How, answers.InFile)
			list, changed = append(list, Acceptance{Licence: l}), true
		}
	}
	for i := range list {
		for _, d := range p.Drivers {
			if slices.Contains(d.Licences, list[i].Digest) && !slices.Contains(list[i].Images, d.Digest) {
				list[i].Images, changed = append(list[i].Images, d.Digest), true
			}
		}
	}
	if !changed {
		return nil
	}
	data, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return fmt.Errorf("recording accepted licences: %w", err)
	}
	if err := n.WriteFile(path.Join(stateDir, licenceFile), data, 0o600); err != nil {
		return fmt.Errorf("recording accepted licences: %w", err)
	}
	return nil
}
