package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"fitout/hostops"
	"fitout/workflow/answers"
)

// licenceFile keeps the licence texts that were accepted on this node, by
// digest, below the state directory.
const licenceFile = "licences.json"

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
func Licences(n *hostops.Node, stateDir string) []answers.Licence {
	list, err := readLicences(n, stateDir)
	if err != nil {
		return nil
	}
	return list
}

func readLicences(n *hostops.Node, stateDir string) ([]answers.Licence, error) {
	var list []answers.Licence
	data, err := n.ReadFile(path.Join(stateDir, licenceFile))
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(data, &list)
}

// acceptLicences adds what the answers accept. It stays when a run is undone:
// who accepted a text has accepted it.
func acceptLicences(n *hostops.Node, stateDir string, accepted []answers.Licence) error {
	list, err := readLicences(n, stateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Log.Warn("the record of accepted licences is damaged and is begun anew", "err", err)
		list = nil
	}
	before := len(list)
	for _, l := range accepted {
		if l.Accepted && l.Digest != "" && !slices.ContainsFunc(list, func(o answers.Licence) bool { return o.Digest == l.Digest }) {
			list = append(list, l)
		}
	}
	if len(list) == before {
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
