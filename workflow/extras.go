package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"fitout/catalog/image"
	"fitout/hostops/kmod"
	"fitout/workflow/run"
)

// Cancel asks a run to stop after its step and to undo what it did.
func (e *Engine) Cancel(_ context.Context, id string) error {
	return run.Cancel(e.Node, e.StateDir(), id)
}

// History lists past runs, the oldest first.
func (e *Engine) History(context.Context) ([]run.Listed, error) {
	return run.List(e.Node, e.StateDir())
}

// KernelLog returns the kernel's lines about a device since boot, as far as its
// buffer goes back.
func (e *Engine) KernelLog(_ context.Context, address string) ([]string, error) {
	return kmod.LogSinceBoot(e.Node, address)
}

// Login keeps credentials for the registry of a reference in a file of the form
// that docker and podman use, readable by root alone, and returns its node
// path. Unless keep is set it is gone after the next reboot. Images that are
// examined from now on are read with it, and with those of earlier logins.
func (e *Engine) Login(_ context.Context, reference, user string, password []byte, keep bool) (string, error) {
	ref, err := image.ParseReference(reference)
	if err != nil {
		return "", err
	}
	if ref.Host() == "" {
		return "", stopf(ExitUsage, "bad-reference", "", "%s is not in a registry, it needs no login", reference)
	}
	file := path.Join(volatile, "auth.json")
	if keep {
		file = path.Join(e.StateDir(), "auth.json")
	}
	type entry struct {
		Auth []byte `json:"auth"` // base64 of user:password, as []byte marshals
	}
	doc := struct {
		Auths map[string]entry `json:"auths"`
	}{map[string]entry{}}
	if old, err := e.Node.ReadFile(file); err == nil {
		_ = json.Unmarshal(old, &doc)
	}
	doc.Auths[ref.Host()] = entry{append([]byte(user+":"), password...)}
	data, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	if err := e.Node.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("keeping the login: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.logins, file) {
		e.logins = append(e.logins, file)
	}
	return file, nil
}

// typed are the files of the logins that were typed in the wizard.
func (e *Engine) typed() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.logins)
}
