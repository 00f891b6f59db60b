// Package program runs commands of this host for tests, and builds those of this
// repository.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds a command of this repository as one static binary.
func Build(to, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=0.1.0-test", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Main is a package's TestMain: while its tests run, fitout is the path of the
// binary under test, built from this tree, or $FITOUT_PROGRAM.
func Main(m *testing.M, fitout *string) { os.Exit(withFitout(m, fitout)) }

func withFitout(m *testing.M, fitout *string) int {
	if *fitout = os.Getenv("FITOUT_PROGRAM"); *fitout != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fitout-")
	if err == nil {
		defer os.RemoveAll(dir)
		*fitout = filepath.Join(dir, "fitout")
		err = Build(*fitout, "fitout/cmd/fitout")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
