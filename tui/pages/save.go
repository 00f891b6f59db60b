package pages

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
)

// saveText writes a text where the operator said, as a command.
func saveText(c *Common, path, text string) tea.Cmd {
	if path == "" {
		return notice("Nothing was saved: no file was named.")
	}
	return work("saving "+path, func(context.Context, image.Progress) tea.Msg {
		if err := WriteFile(path, []byte(text), 0o644); err != nil {
			return Notice("Not saved: " + err.Error())
		}
		return Notice("Saved as " + path)
	})
}

// WriteFile replaces a file in one step: the old content or the new one is
// there, also after a full disk or a power cut.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	if strings.HasSuffix(path, "/") {
		return fmt.Errorf("saving %s: that is a directory", path)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a directory for %s: %w", path, err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	for _, next := range []func() error{f.Sync, func() error { return f.Chmod(perm) }, f.Close, func() error { return os.Rename(f.Name(), path) }} {
		if err == nil {
			err = next()
		}
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("saving %s: %w", path, err)
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}
