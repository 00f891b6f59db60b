package kmod

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// InUse says that a module cannot be taken out because something uses it.
type InUse struct {
	Usage Usage
	// Foreign are holders that were not to be unloaded.
	Foreign []string
}

func (e *InUse) Error() string {
	if len(e.Foreign) > 0 {
		return fmt.Sprintf("unloading %s: it is used by %v, which nobody asked to unload", e.Usage.Module, e.Foreign)
	}
	return "unloading " + e.Usage.Module + ": " + e.Usage.String()
}

// unloadLimit is how long a module may still be in use after its users were
// told to let go.
const unloadLimit = 10 * time.Second

// unload takes a module out and looks afterwards: only its absence from
// /proc/modules counts (the call has been seen to return 0 without effect). limit
// is how long the call may take.
func unload(ctx context.Context, n *hostops.Node, name string, limit time.Duration) error {
	patience := unloadLimit
	if n.Simulated() {
		patience = 0
	}
	for end := time.Now().Add(patience); ; {
		callErr := away(limit, "its exit code", func() error { return n.Kernel.UnloadModule(name) })
		if isStuck(callErr) {
			return fmt.Errorf("unloading %s: %w", name, callErr)
		}
		m, err := loaded(n, name)
		if err != nil {
			return fmt.Errorf("unloading %s: %w", name, err)
		}
		if m == nil {
			return nil
		}
		again := callErr == nil || errors.Is(callErr, unix.EAGAIN) || errors.Is(callErr, unix.EBUSY)
		if again && time.Now().Before(end) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("unloading %s: %w", name, ctx.Err())
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		return unloadError(n, name, m, callErr)
	}
}

func unloadError(n *hostops.Node, name string, m *LoadedModule, callErr error) error {
	switch {
	case errors.Is(callErr, unix.EAGAIN), errors.Is(callErr, unix.EBUSY):
		usage, err := Users(n, name)
		if err != nil {
			return fmt.Errorf("unloading %s: it is in use: %w", name, callErr)
		}
		return &InUse{Usage: usage}
	case errors.Is(callErr, unix.EPERM):
		p := ReadPolicy(n)
		why := "this process lacks CAP_SYS_MODULE"
		if p.ModulesDisabled {
			why = "kernel.modules_disabled=1 forbids it until the next boot"
		}
		return fmt.Errorf("unloading %s: %s: %w", name, why, callErr)
	case errors.Is(callErr, unix.ENOENT):
		return fmt.Errorf("unloading %s: the kernel does not know it as a module it can unload: %w", name, callErr)
	case callErr == nil:
		return fmt.Errorf("unloading %s: the kernel said yes, and it is still there (state %s, %d references, used by %v)", name, m.State, m.RefCount, m.Holders)
	}
	return fmt.Errorf("unloading %s: %w", name, callErr)
}
