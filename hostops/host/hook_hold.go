package host

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"fitout/hostops"
)

// ReleaseFile lets a held upgrade go on, once, without its drivers.
const ReleaseFile = "/run/fitout/release"

// HookBeforeUpgrade is the guard of a Harvester node: before anything is
// deployed it looks at the kernels of the image that the toolkit was called
// with, and holds the upgrade until they are covered, or the administrator
// lets go, or limit is over. What it holds for is read anew at every look, so
// a build that arrives meanwhile ends it.
func HookBeforeUpgrade(ctx context.Context, n *hostops.Node, l Layout, pid int, limit, every time.Duration) error {
	log := hookLog{n: n, state: l.State, head: "before-upgrade"}
	source := upgradeSource(n, pid)
	kernels := RootKernels(n, source)
	if source == "" || len(kernels) == 0 {
		text := "fitout: the new image's kernel could not be read before the upgrade (source " + strconv.Quote(source) + "): it is NOT checked here, the hook in the chroot will"
		log.line(text)
		shout(ctx, n, text)
		return nil
	}
	deadline := n.Now().Add(limit)
	for {
		refused := holdAgain(ctx, n, l, kernels)
		if refused == nil {
			log.line("the new image's kernels are covered")
			return nil
		}
		log.line(refused.Sentence())
		if n.Exists(ReleaseFile) {
			if err := n.Remove(ReleaseFile); err != nil {
				return err
			}
			log.line("released by the administrator")
			shout(ctx, n, "fitout: the upgrade was released by the administrator without: "+refused.Sentence())
			return nil
		}
		if !n.Now().Before(deadline) {
			return fmt.Errorf("held for %s: %s", limit, refused.Sentence())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// holdAgain asks the gate about each kernel; the first refusal, or nil.
func holdAgain(ctx context.Context, n *hostops.Node, l Layout, kernels []Kernel) *GateResult {
	kept, err := soundKept(n, l.State)
	if err != nil {
		return &GateResult{Kernel: kernels[0].Release, Misses: []Miss{{Reason: err.Error()}}}
	}
	for _, k := range kernels {
		r := Gate(ctx, n, l.State, k, Persisted(kept), GateOptions{Strength: BlocksFinalize, Losses: Losses(n, k, kept)})
		if !r.Allow {
			r.Override = "touch " + ReleaseFile
			return &r
		}
	}
	return nil
}

// upgradeSource is the directory of the new root, from the command line of the
// toolkit: this process's parent, or one above it.
func upgradeSource(n *hostops.Node, pid int) string {
	for range 8 {
		if pid <= 1 {
			return ""
		}
		b, err := n.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return ""
		}
		if dir := sourceArg(strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")); dir != "" {
			return dir
		}
		pid = n.Parent(pid)
	}
	return ""
}

// sourceArg reads --directory DIR, --directory=DIR, --system.uri dir:DIR and
// --system dir:DIR.
func sourceArg(argv []string) string {
	for i, a := range argv {
		name, value, ok := strings.Cut(a, "=")
		if !ok && i+1 < len(argv) {
			value = argv[i+1]
		}
		switch name {
		case "--directory":
			return path.Clean(strings.TrimPrefix(value, "dir:"))
		case "--system.uri", "--system":
			if dir, ok := strings.CutPrefix(value, "dir:"); ok {
				return path.Clean(dir)
			}
		}
	}
	return ""
}
