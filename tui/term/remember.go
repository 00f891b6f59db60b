package term

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Place names what a choice of screen is remembered for: the kind of line and
// what the terminal on it is said to be ("ttyS vt220", "pts xterm-256color").
func Place(tty, termName string) string {
	kind := strings.TrimPrefix(tty, "/dev/")
	kind = strings.TrimRight(kind, "0123456789")
	return strings.TrimSpace(strings.TrimSuffix(kind, "/") + " " + termName)
}

// Recall is the mode that was chosen for a place before, "" for none. A file
// that cannot be read says nothing.
func Recall(file, place string) Mode {
	return recalled(file)[place]
}

func recalled(file string) map[string]Mode {
	all := map[string]Mode{}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &all) != nil {
		return map[string]Mode{}
	}
	return all
}

// Remember keeps the mode that was chosen for a place. The file is replaced
// whole or not at all.
func Remember(file, place string, m Mode) error {
	all := recalled(file)
	all[place] = m
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := replace(file, append(data, '\n')); err != nil {
		return fmt.Errorf("remembering the kind of screen: %w", err)
	}
	return nil
}

func replace(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".screens-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if serr := tmp.Sync(); err == nil {
		err = serr
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
