package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/hostops"
)

// motdPath is read by pam_motd at every login; /run clears it at reboot, the
// boot hook writes it anew.
const motdPath = "/run/motd.d/fitout"

// Blocked is the record of a refusal: one file a kernel, below
// <state>/blocked. It is a report, never an answer: each attempt is judged
// anew, and the record goes away by itself.
type Blocked struct {
	GateResult
	// Running is the kernel that ran when it was refused.
	Running   string    `json:"running,omitempty"`
	Since     time.Time `json:"since"`
	Checked   time.Time `json:"checked"`
	Retryable bool      `json:"retryable"` // always true: nothing is to be cleaned up by hand
}

func blockedPath(state, kernel string) string {
	return path.Join(state, "blocked", strings.ReplaceAll(kernel, "/", "_")+".json")
}

// ReadBlocked reads the refusals that stand.
func ReadBlocked(n *hostops.Node, state string) []Blocked {
	var out []Blocked
	for _, p := range n.Glob(path.Join(state, "blocked", "*.json")) {
		b, err := n.ReadFile(p)
		if err != nil {
			continue
		}
		var r Blocked
		if json.Unmarshal(b, &r) == nil {
			out = append(out, r)
		}
	}
	return out
}

// record keeps or clears what is known of a kernel, and says it where people
// look: message of the day and journal.
func (r GateResult) record(ctx context.Context, n *hostops.Node, state string) {
	p := blockedPath(state, r.Kernel)
	if r.Allow {
		_ = n.Remove(p)
		pruneDirs(n, path.Dir(p), state)
		if r.Loud != "" {
			shout(ctx, n, "fitout: "+r.Sentence())
		}
	} else {
		b := Blocked{GateResult: r, Running: n.Kernel.Release(), Since: n.Now().UTC(), Checked: n.Now().UTC(), Retryable: true}
		for _, old := range ReadBlocked(n, state) {
			if old.Kernel == r.Kernel {
				b.Since = old.Since
			}
		}
		if err := writeRecord(n, p, b); err != nil {
			n.Log.Warn("the refusal could not be recorded", "err", err)
		}
		shout(ctx, n, "fitout: "+r.Sentence())
	}
	writeMotd(n, state)
}

// forgetBlocked drops, at boot, the refusals made under another kernel: the node
// has gone on, and whatever is tried from now on is judged anew. An OS image that
// does not wait for the next boot any more is nobody's concern either.
func forgetBlocked(n *hostops.Node, l Layout) {
	for _, b := range ReadBlocked(n, l.State) {
		if b.Running != "" && b.Running != n.Kernel.Release() || l.OEM != "" && !ImageWaiting(n) {
			_ = n.Remove(blockedPath(l.State, b.Kernel))
		}
	}
	pruneDirs(n, path.Join(l.State, "blocked"), l.State)
}

// ClearBlocked drops the refusals whose obstacle is gone: the kernel has its
// drivers now, or nothing is persisted any more. What was refused for a driver
// of the OS's own stands until the kernel is judged again. It returns how many
// stand.
func ClearBlocked(n *hostops.Node, state string) int {
	kept, err := readKept(n, state)
	left := 0
	for _, b := range ReadBlocked(n, state) {
		gone := err == nil && !b.losses(kept)
		for _, d := range Persisted(kept) {
			if covered(n, state, kept, d.Name, d.Load, b.Kernel) != nil && d.OnMissing != "continue" {
				gone = false
			}
		}
		if !gone {
			left++
			continue
		}
		_ = n.Remove(blockedPath(state, b.Kernel))
	}
	pruneDirs(n, path.Join(state, "blocked"), state)
	writeMotd(n, state)
	return left
}

// losses says that a refusal was for more than the drivers that are kept.
func (b Blocked) losses(kept []Kept) bool {
	for _, m := range b.Misses {
		if m.Driver != "" && !slices.ContainsFunc(kept, func(k Kept) bool { return k.Driver.Name == m.Driver }) {
			return true
		}
	}
	return false
}

// writeMotd makes the message of the day from what stands: refusals, and
// drivers the boot hook found missing. Nothing standing removes it.
func writeMotd(n *hostops.Node, state string) { writeMotdAt(n, state, motdPath) }

// writeMotdAt is for a hook in a chroot, which sees the host's /run elsewhere.
func writeMotdAt(n *hostops.Node, state, at string) {
	var lines []string
	for _, b := range ReadBlocked(n, state) {
		lines = append(lines, fmt.Sprintf("fitout: %s (checked %s, will be checked at the next attempt)", b.Sentence(), b.Checked.Format("2006-01-02 15:04")))
	}
	kept, err := soundKept(n, state)
	if err != nil {
		lines = append(lines, "fitout: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if r, err := ReadBoot(n, state); err == nil {
		for _, d := range r.Drivers {
			if d.Bad() && stillBad(n, state, kept, d, r.Kernel) {
				lines = append(lines, fmt.Sprintf("fitout: driver %s is not in use on kernel %s: %s", d.Name, r.Kernel, d.Detail))
			}
		}
	}
	if len(lines) == 0 {
		_ = n.Remove(at)
		return
	}
	if err := n.WriteFile(at, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		n.Log.Warn("the message of the day could not be written", "err", err)
	}
}

// stillBad says that what the boot hook found of a driver is still so.
func stillBad(n *hostops.Node, state string, kept []Kept, d BootDriver, rel string) bool {
	for _, k := range kept {
		if k.Driver.Name != d.Name {
			continue
		}
		if covered(n, state, kept, d.Name, k.Driver.Load, rel) != nil {
			return true
		}
		_, wrong := claimed(n, k.Driver)
		return len(wrong) > 0 || !loadedAll(n, k.Driver)
	}
	return false // it is kept no more
}

// shout puts a line into the journal, or into the kernel log where there is
// none. It is best effort: the caller has its own record.
func shout(ctx context.Context, n *hostops.Node, text string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if n.Exec.Look("logger") || n.Simulated() {
		if _, err := n.Exec.Run(ctx, "logger", "-t", "fitout", "-p", "daemon.err", text); err == nil {
			return
		}
	}
	if err := n.WriteKernel("/dev/kmsg", "<3>"+text); err != nil {
		n.Log.Warn("no log took the message", "message", text, "err", err)
	}
}
