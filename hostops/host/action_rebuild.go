package host

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/hostops"
)

// RebuildImage has Elemental's toolkit build this node's OS image anew from the
// active one, so that its after-upgrade-chroot stage puts the kept drivers into
// it. The toolkit runs in a unit of its own: killed half way it can leave a
// node that does not boot, so neither Ctrl-C nor the death of the runner
// reaches it, and a run that goes on waits for it.
type RebuildImage struct {
	State string
	// Active is the image that boots by default, and what the new one is made of.
	Active string
	// OldToolkit is v1, whose flags are others.
	OldToolkit bool
	// Drivers are the names of those that must be in the new image.
	Drivers []string
	// Was is what Active was before (the target of v2's link, v1's inode), OEM
	// the files of /oem.
	Was string
	OEM []string
}

// rebuildUnit is the transient unit that the toolkit runs in.
const rebuildUnit = "fitout-rebuild"

// upgradeLock is the lock that Elemental's own upgrades take.
const upgradeLock = "/run/elemental/upgrade.lock"

// locked is what flock ends with when somebody else holds the lock.
const locked = 75

// Rebuild implements Family.
func (h *Host) Rebuild() (hostops.Action, error) {
	no := func(why string) (hostops.Action, error) {
		return nil, &Unsupported{h.facts.Family, "building the OS image anew", why}
	}
	active, _ := elementalImages(h.n)
	switch {
	case h.facts.Refusal != "":
		return no(h.facts.Refusal)
	case h.facts.Family == "harvester":
		return no("it would replace the fallback entry, the Harvester version before this one; the hook puts the driver into the image at the next Harvester upgrade. By hand, at that price: elemental upgrade --system.uri file://" + images1 + "/active.img with a --config-dir whose config.yaml sets upgrade.system.size: 3072")
	case !strings.HasPrefix(h.facts.Family, "elemental"):
		return no("only Elemental's toolkit can do it from the running system")
	case active == "":
		return no("the state partition with the active image cannot be seen (" + images2 + "/active, " + images1 + "/active.img)")
	case ImageWaiting(h.n):
		return no("the running system is not the active image " + active + ": building now would make the active one, which has not proved itself, the fallback; boot it and see that its devices work, then try again")
	}
	kept, err := readKept(h.n, h.layout.State)
	if err != nil {
		return nil, err
	}
	a := &RebuildImage{State: h.layout.State, Active: active, OldToolkit: h.facts.Family == "elemental-v1"}
	for _, k := range kept {
		if k.Where == "os-image" {
			a.Drivers = append(a.Drivers, k.Driver.Name)
		}
	}
	if len(a.Drivers) == 0 {
		return no("no driver is kept for the OS image (persistIn: os-image)")
	}
	return a, nil
}

// Kind implements hostops.Action.
func (a *RebuildImage) Kind() string { return "rebuild-image" }

func (a *RebuildImage) log() string { return path.Join(a.State, "rebuild.log") }
func (a *RebuildImage) rc() string  { return path.Join(a.State, "rebuild.exit") }

// command is what the unit runs: the upgrade under Elemental's own lock, its
// exit code kept for whoever waits.
func (a *RebuildImage) command() string {
	source := "--system file://" + images2 + "/active"
	if a.OldToolkit {
		source = "--system.uri file://" + images1 + "/active.img"
	}
	return fmt.Sprintf("flock -n -E %d %s elemental upgrade %s --logfile %s; echo $? > %s", locked, upgradeLock, source, a.log(), a.rc())
}

func (a *RebuildImage) argv() []string {
	return []string{"systemd-run", "--quiet", "--unit=" + rebuildUnit, "--collect", "--property=KillMode=process",
		"--description=fitout: OS image with " + strings.Join(a.Drivers, ", "), "sh", "-c", a.command()}
}

// Describe implements hostops.Action.
func (a *RebuildImage) Describe() hostops.Description {
	return hostops.Description{
		Title: "build the OS image anew with " + strings.Join(a.Drivers, ", "),
		Text: []string{
			"check that no upgrade is running or was cut short, and that the state partition has room for two images",
			strings.Join(a.argv()[:len(a.argv())-1], " ") + " '" + a.command() + "'",
			"look into the new image (debugfs): every driver's modules must be in it, byte for byte",
			"/oem must hold what it held, and no mount may be left over",
			"the image of now becomes the fallback entry; the one that is the fallback now goes",
		},
		Undo:     []string{"nothing is taken back: the image of before is the fallback entry; boot it to go back"},
		Estimate: 2 * time.Minute, Limit: time.Hour,
	}
}

// Prepare refuses what would make the toolkit lose an image.
func (a *RebuildImage) Prepare(ctx context.Context, n *hostops.Node) error {
	if a.Was != "" && a.running(ctx, n) {
		return nil // a run that goes on: the first measure holds
	}
	for _, tool := range []string{"elemental", "systemd-run", "debugfs", "flock"} {
		if !n.Exec.Look(tool) {
			return fmt.Errorf("building the image: this node has no %s", tool)
		}
	}
	if err := a.fit(n); err != nil {
		return err
	}
	files, err := hookFiles(n, "/oem")
	if err != nil {
		return err
	}
	a.OEM, a.Was = files, a.identity(n)
	for _, d := range a.Drivers {
		if p := "/oem/95_fitout_" + d + ".yaml"; !n.Exists(p) {
			return fmt.Errorf("building the image: the hook %s is missing, the new image would lack %s; fitout persist %s", p, d, d)
		}
	}
	broken, _, err := BrokenHooks(n, "/oem")
	if err != nil {
		return err
	}
	if len(broken) > 0 && a.OldToolkit {
		return fmt.Errorf("building the image: %s cannot be read (%w), and with this toolkit no hook of /oem would run", broken[0].Path, broken[0].Err)
	}
	return nil
}

// fit looks at the state partition for what a cut-short upgrade leaves: with
// such leftovers the toolkit can drop the good fallback, or the active link.
func (a *RebuildImage) fit(n *hostops.Node) error {
	for _, m := range readMounts(n) {
		if strings.Contains(m.point, "/workingtree") {
			return fmt.Errorf("building the image: %s is mounted: an upgrade is running, or one was cut short; wait for its end, or reboot, and try again", m.point)
		}
	}
	st, err := n.Stat(a.Active)
	if err != nil {
		return fmt.Errorf("building the image: the active image %s is not there: %w", a.Active, err)
	}
	if !a.OldToolkit {
		if err := knownSnapshots(n); err != nil {
			return err
		}
	}
	return needSpace(n, path.Dir(a.Active), 2*uint64(st.Size()), 16, "the state partition needs room for two images")
}

// identity tells one active image from the next.
func (a *RebuildImage) identity(n *hostops.Node) string {
	active, _ := elementalImages(n)
	st, err := n.Stat(active)
	if err != nil {
		return active
	}
	return fmt.Sprintf("%s %d %s", active, st.Size(), st.ModTime().UTC().Format(time.RFC3339Nano))
}

// Do starts the unit, or finds it running, and waits for it.
func (a *RebuildImage) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	// The toolkit is not to be cut short; only the waiting for it may end.
	whole := context.WithoutCancel(ctx)
	if !a.running(whole, n) {
		if err := n.Remove(a.rc()); err != nil {
			return err
		}
		if err := n.MkdirAll(path.Dir(upgradeLock), 0o755); err != nil {
			return err
		}
		if said, err := n.Exec.Run(whole, a.argv()...); err != nil {
			return fmt.Errorf("starting the toolkit: %w: %s", err, strings.TrimSpace(string(said)))
		}
	}
	if err := a.wait(ctx, n, out); err != nil {
		return err
	}
	return a.verify(whole, n)
}

func (a *RebuildImage) running(ctx context.Context, n *hostops.Node) bool {
	_, err := n.Exec.Run(ctx, "systemctl", "is-active", "--quiet", rebuildUnit+".service")
	return err == nil
}

// wait follows the toolkit's log until its exit code is there.
func (a *RebuildImage) wait(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	seen, told := 0, false
	for {
		seen = tail(n, a.log(), seen, out)
		if code, err := n.ReadString(a.rc()); err == nil && code != "" {
			tail(n, a.log(), seen, out)
			return a.ended(code)
		}
		if ctx.Err() != nil && !told {
			told = true
			out.Line("not stopped: an upgrade that is killed can leave a node that does not boot; waiting for its end")
		}
		if !a.running(context.WithoutCancel(ctx), n) && !n.Exists(a.rc()) {
			return fmt.Errorf("the unit %s ended without a word; see journalctl -u %s and %s", rebuildUnit, rebuildUnit, a.log())
		}
		time.Sleep(time.Second)
	}
}

func (a *RebuildImage) ended(code string) error {
	switch code {
	case "0":
		return nil
	case fmt.Sprint(locked):
		return fmt.Errorf("another upgrade holds %s; nothing was changed", upgradeLock)
	}
	return fmt.Errorf("elemental upgrade ended with %s; see %s", code, a.log())
}

// tail hands on what a log has beyond the first bytes.
func tail(n *hostops.Node, p string, from int, out hostops.Sink) int {
	b, err := n.ReadFile(p)
	if err != nil || len(b) <= from {
		return from
	}
	end := strings.LastIndexByte(string(b), '\n') + 1
	if end <= from {
		return from
	}
	for line := range strings.Lines(string(b[from:end])) {
		out.Line(strings.TrimRight(line, "\n"))
	}
	return end
}

// verify trusts no exit code: hooks that fail, fail in silence.
func (a *RebuildImage) verify(ctx context.Context, n *hostops.Node) error {
	if a.identity(n) == a.Was {
		return fmt.Errorf("the toolkit ended well, but the active image is the one of before; see %s", a.log())
	}
	for _, m := range readMounts(n) {
		if strings.Contains(m.point, "/workingtree") {
			return fmt.Errorf("the toolkit left %s mounted: reboot before anything else is upgraded", m.point)
		}
	}
	for _, f := range a.OEM {
		if !n.Exists(f) {
			return fmt.Errorf("%s is gone from /oem: put it back before the next boot", f)
		}
	}
	if err := a.inImage(ctx, n); err != nil {
		return fmt.Errorf("the new image is NOT complete: %w; do not reboot into it: run this again, or boot the fallback entry", err)
	}
	return nil
}

// Done measures the image that boots next.
func (a *RebuildImage) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	return a.inImage(ctx, n) == nil, nil
}

// inImage looks for every driver's modules, for each kernel of the active image.
func (a *RebuildImage) inImage(ctx context.Context, n *hostops.Node) error {
	active, _ := elementalImages(n)
	kernels := imageKernels(ctx, n, active)
	if len(kernels) == 0 {
		return fmt.Errorf("no kernel can be read in %s", active)
	}
	kept, err := readKept(n, a.State)
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.Where != "os-image" {
			continue
		}
		for _, rel := range kernels {
			if err := imageHas(ctx, n, active, k, rel); err != nil {
				return err
			}
		}
	}
	return nil
}

// Undo has nothing to take back: until the reboot the node runs what it ran,
// and the image of before is the fallback.
func (a *RebuildImage) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	if a.Was == "" || a.identity(n) == a.Was {
		return nil
	}
	return fmt.Errorf("the image that boots next was built anew; the one of before is the fallback entry, boot it to go back")
}
