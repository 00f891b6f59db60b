// Package stages is elemental's run-stage around the real stage executor
// (github.com/rancher/yip): the same directories in the same order, X.before, X
// and X.after over all of them, and the two toolkits' ways with a broken file
// and a failing step.
package stages

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rancher/yip/pkg/console"
	"github.com/rancher/yip/pkg/executor"
	"github.com/rancher/yip/pkg/schema"
	"github.com/sirupsen/logrus"
	"github.com/twpayne/go-vfs/v4"
)

// dirs are read in this order, whatever is configured.
var dirs = []string{"/system/oem", "/oem", "/usr/local/cloud-config"}

// Run executes a stage of a toolkit, "v1" or "v2". The executor's own output is dropped: the toolkit
// raises the log level for hooks, so that what they print is lost.
func Run(stage, form string) error {
	log := logrus.New()
	log.SetOutput(io.Discard)
	var failed error
	for _, part := range []string{stage + ".before", stage, stage + ".after"} {
		for _, dir := range dirs {
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			if bad := broken(dir); bad != "" && form == "v1" {
				failed = fmt.Errorf("%s cannot be read: nothing in %s is run", bad, dir)
				continue
			}
			e := executor.NewExecutor(executor.WithLogger(log))
			if err := e.Run(part, vfs.OSFS, console.NewStandardConsole(console.WithLogger(log)), dir); err != nil {
				failed = err
			}
		}
	}
	return failed
}

// broken names a file that the executor cannot read, "" for none.
func broken(dir string) string {
	found := ""
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if ext := filepath.Ext(p); err != nil || d.IsDir() || (ext != ".yaml" && ext != ".yml") {
			return nil
		}
		if _, err := schema.Load(p, vfs.OSFS, schema.FromFile, nil); err != nil {
			found = p
		}
		return nil
	})
	return found
}
