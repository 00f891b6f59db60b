package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/hostops"
)

// SoundKept is what the gate goes by.
func SoundKept(n *hostops.Node, state string) ([]Kept, error) { return soundKept(n, state) }

// soundKept reads what is kept for the gate and for the boot, to which "nothing
// is kept" is an answer with consequences: records that are gone although
// something else says that drivers are kept are an error. The records that could
// be read come with it.
func soundKept(n *hostops.Node, state string) ([]Kept, error) {
	kept, err := readKept(n, state)
	return kept, errors.Join(err, lost(n, state, kept))
}

// witnesses are files that are only there while a driver is kept.
var witnesses = []string{
	"/etc/kernel/preinst.d/fitout",
	"/etc/systemd/system/" + finalizeUnit + ".d/10-fitout.conf",
	"/etc/systemd/system/" + bootUnit,
}

// lost says which records are gone: those of drivers that were installed to
// stay, and all of them when a hook of ours is there and no record is.
func lost(n *hostops.Node, state string, kept []Kept) error {
	var out []error
	for _, p := range n.Glob(path.Join(state, "drivers", "*.json")) {
		var r struct {
			Driver struct{ Name, When string }
		}
		b, err := n.ReadFile(p)
		if err != nil || json.Unmarshal(b, &r) != nil {
			continue // a record with a copy of its own, read by whoever installs
		}
		stays := strings.Contains(r.Driver.When, "persist") || strings.Contains(r.Driver.When, "at-boot")
		damaged := n.Exists(keptPath(state, r.Driver.Name)) // readKept has said so
		if stays && !damaged && !slices.ContainsFunc(kept, func(k Kept) bool { return k.Driver.Name == r.Driver.Name }) {
			out = append(out, fmt.Errorf("the record %s is gone: run fitout persist %s", keptPath(state, r.Driver.Name), r.Driver.Name))
		}
	}
	if len(kept) > 0 || len(out) > 0 {
		return errors.Join(out...)
	}
	if entries, err := n.ReadDir(keptDir(state)); err == nil && len(entries) > 0 {
		return nil // there is something, which readKept has judged
	}
	for _, w := range witnesses {
		if n.Exists(w) {
			return fmt.Errorf("fitout's state is lost: %s is there, and no driver is recorded in %s; fit the drivers again, or remove that file if none is wanted", w, keptDir(state))
		}
	}
	return nil
}
