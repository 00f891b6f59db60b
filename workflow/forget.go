package workflow

import (
	"fmt"
	"path"
	"slices"

	"fitout/workflow/run"
)

// Forget takes an image that was only read for judging out of the store again:
// when its licence is declined, nothing that contains the driver stays. An image
// that an installed driver came from stays, and all stay while a run is in
// progress or the records cannot be read.
func (e *Engine) Forget(x *Examined) error {
	if e.Current() != "" {
		return nil
	}
	state := e.StateDir()
	installed, err := run.Installed(e.Node, state)
	if err != nil {
		return fmt.Errorf("taking the image out of the store: %w", err)
	}
	for _, dir := range x.Stores {
		used := slices.ContainsFunc(installed, func(r run.Record) bool { return e.storeDir(r.Driver.Digest, r.Driver.Place) == dir })
		if used || path.Dir(dir) != path.Join(state, "store") {
			continue
		}
		if err := e.Node.RemoveAll(dir); err != nil {
			return fmt.Errorf("taking the image out of the store: %w", err)
		}
	}
	return nil
}
