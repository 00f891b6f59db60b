package host

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/hostops"
)

// Lack is what the OS image that boots next lacks.
type Lack struct {
	Driver string `json:"driver"`
	Kernel string `json:"kernel"`
	Reason string `json:"reason"`
	// Kept says that the kept tree has a build for that kernel: the driver comes
	// at boot all the same, after the first services of the boot.
	Kept bool `json:"kept"`
}

// Sentence says it in one line.
func (l Lack) Sentence() string {
	if l.Kept {
		return fmt.Sprintf("the new OS image lacks %s for kernel %s (%s); it will be loaded at boot from the kept tree", l.Driver, l.Kernel, l.Reason)
	}
	return fmt.Sprintf("THE NEW OS IMAGE LACKS %s for kernel %s: do not reboot into it before that is mended (%s)", l.Driver, l.Kernel, l.Reason)
}

// WaitingLacks looks into an OS image of Elemental's that waits for the next
// boot, whatever its upgrade's hook has said, or whether it ran: that is how a
// hook that was never run is found. kernels are those that may boot. Nothing
// waits: none. The error says that the image could not be read.
func WaitingLacks(ctx context.Context, n *hostops.Node, state string, kernels []Kernel) ([]Lack, error) {
	active, _ := elementalImages(n)
	if active == "" || !ImageWaiting(n) {
		return nil, nil
	}
	kept, err := soundKept(n, state)
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	kernels = slices.DeleteFunc(slices.Clone(kernels), func(k Kernel) bool { return !slices.Contains(k.Roles, Next) })
	if len(kernels) == 0 {
		return nil, fmt.Errorf("no kernel can be read in %s, which boots next", active)
	}
	var out []Lack
	for _, k := range kept {
		if k.When != "persist" {
			continue
		}
		for _, kernel := range kernels {
			lack := Lack{Driver: k.Driver.Name, Kernel: kernel.Release}
			missing := coveredAt(n, state, &k, kernel.Release)
			lack.Kept = missing == nil
			if k.Where == "os-image" && lack.Kept {
				missing = imageHas(ctx, n, active, k, kernel.Release)
			}
			if missing != nil {
				lack.Reason = missing.Error()
				out = append(out, lack)
			}
		}
	}
	return out, nil
}

// HookImageWaiting is called when something happens to the OS images: it waits
// a little for another image to become the next boot's, which is an upgrade's
// last step, and tells people what that one lacks while it can still be mended.
func HookImageWaiting(ctx context.Context, n *hostops.Node, state string, limit, every time.Duration) error {
	deadline := n.Now().Add(limit)
	for !ImageWaiting(n) && n.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	lacks, err := WaitingLacks(ctx, n, state, elementalKernels(ctx, n, runningKernel(n)))
	if err != nil {
		shout(ctx, n, "fitout: "+err.Error()+": it is NOT checked for drivers")
		return err
	}
	ClearBlocked(n, state)
	var lost []string
	for _, l := range lacks {
		text := l.Sentence()
		hookLog{n: n, state: state, head: "image-waiting"}.line(text)
		if l.Kept {
			shout(ctx, n, "fitout: "+text)
			continue
		}
		tellMiss(ctx, n, state, l, n.Kernel.Release(), n.Now().UTC())
		lost = append(lost, text)
	}
	writeMotd(n, state)
	if len(lost) > 0 {
		return fmt.Errorf("%s", strings.Join(lost, "; "))
	}
	return nil
}

// tellMiss records that a kernel of an image that is made already lacks a
// driver, and says it in the journal. running is the kernel that runs, "" where
// it is not to be asked.
func tellMiss(ctx context.Context, n *hostops.Node, state string, l Lack, running string, at time.Time) {
	r := GateResult{Kernel: l.Kernel, Driver: l.Driver, Reason: l.Reason,
		Cure:     "look before you reboot: unless it runs strict, this host goes on after a failed hook, and the new image lacks the driver; fit it for " + l.Kernel + " and upgrade again, or boot the fallback entry",
		Override: "set onMissingModule: continue for it",
		Misses:   []Miss{{Driver: l.Driver, Reason: l.Reason}}}
	b := Blocked{GateResult: r, Running: running, Since: at, Checked: at, Retryable: true}
	if err := writeRecord(n, blockedPath(state, l.Kernel), b); err != nil {
		n.Log.Warn("the miss could not be recorded", "err", err)
	}
	shout(ctx, n, "fitout: "+r.Sentence())
}

// imageTexts watch the directories of OS images, and have what waits there
// looked into.
func imageTexts(l Layout) []TextFile {
	if l.UnitDir == "" {
		return nil
	}
	return []TextFile{
		{Path: path.Join(l.UnitDir, "fitout-staged.path"), Mode: 0o644, Content: fmt.Sprintf(`# Made by fitout.
[Unit]
Description=Watch for OS images that were made anew

[Path]
PathChanged=%s
PathChanged=%s

[Install]
WantedBy=multi-user.target
`, images1, images2)},
		enable(l, "fitout-staged.path", "multi-user.target"),
		{Path: path.Join(l.UnitDir, "fitout-staged.service"), Mode: 0o644, Content: fmt.Sprintf(`# Made by fitout.
[Unit]
Description=Look whether the OS image that boots next has its drivers

[Service]
Type=oneshot
ExecStart=%s hook image-waiting --state %s --limit 1m --every 5s
`, l.bin(), l.State)},
	}
}
