package workflow

import (
	"errors"
	"fmt"
	"os"
	"path"

	"fitout/catalog/strict"
)

// Settings are what an administrator sets for a node once and for all.
type Settings struct {
	APIVersion string       `yaml:"apiVersion"`
	Kind       string       `yaml:"kind"`
	Runs       RunsSettings `yaml:"runs,omitempty"`
}

// RunsSettings are about the record of runs.
type RunsSettings struct {
	// Keep is how many runs are kept. Those that can still be undone are kept
	// beyond that.
	Keep int `yaml:"keep,omitempty"`
}

// keepRuns is how many runs are kept where nothing else is set: 5 MiB each at
// most, some 50 KiB usually.
const keepRuns = 50

// settingsFile is looked for in /etc/fitout and, where that is not kept, in the
// state directory.
const settingsFile = "config.yaml"

// Check implements strict.Checker.
func (s *Settings) Check(r *strict.Report) {
	if s.APIVersion != "fitout/v1" || s.Kind != "Settings" {
		r.Bad(nil, "it must begin with  apiVersion: fitout/v1  and  kind: Settings")
	}
	if s.Runs.Keep < 0 {
		r.Bad([]any{"runs", "keep"}, "a number of runs, 1 or more, is wanted")
	}
}

// settings reads the node's settings. A file that is wrong is an error: what it
// meant to say is not guessed.
func (e *Engine) settings() (*Settings, error) {
	s := &Settings{Runs: RunsSettings{Keep: keepRuns}}
	for _, file := range []string{path.Join("/etc/fitout", settingsFile), path.Join(e.StateDir(), settingsFile)} {
		data, err := e.Node.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the settings: %w", err)
		}
		if err := strict.Decode(file, data, s); err != nil {
			return nil, err
		}
		break
	}
	if s.Runs.Keep == 0 {
		s.Runs.Keep = keepRuns
	}
	return s, nil
}
