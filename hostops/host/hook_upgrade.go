package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
	"fitout/hostops"
)

// UpgradeArgs are what the hook in an upgrade's chroot is called with.
type UpgradeArgs struct {
	// State is the path under which this chroot sees the state directory.
	State, Driver, Stage string
	// CheckOnly: the driver is kept in the side tree; nothing goes into the
	// image, only whether its kernels are covered is recorded.
	CheckOnly bool
}

// UpgradeResult is the hook's own record: <state>/upgrade/DRIVER.json. The
// toolkit hides a hook's output and, unless strict, ignores its failure.
type UpgradeResult struct {
	Driver  string          `json:"driver"`
	Stage   string          `json:"stage"`
	At      time.Time       `json:"at"`
	Kernels []UpgradeKernel `json:"kernels"`
	// Error is set when the hook itself could not work.
	Error string `json:"error,omitempty"`
}

// UpgradeKernel is one kernel of the new image.
type UpgradeKernel struct {
	Release string `json:"release"`
	// Verdict is "ok" (in the image, indexed), "in-tree-dir" (covered by the
	// side tree) or "missing".
	Verdict string `json:"verdict"`
	Detail  string `json:"detail,omitempty"`
}

// NotCovered says that a new image has a kernel for which a driver has no
// build.
type NotCovered struct {
	Driver  string
	Kernels []string
	Detail  string
}

func (e *NotCovered) Error() string {
	return fmt.Sprintf("driver %s has no build for kernel %s of the new image: %s", e.Driver, strings.Join(e.Kernels, ", "), e.Detail)
}

// HookAfterUpgrade runs inside the chroot of an upgrade, a reinstall or a
// reset: it puts the driver's build into every kernel of the new root, indexes
// it and looks whether the index names it. n's root is the new root. It asks
// the running kernel nothing, needs no network, mounts nothing, and leaves no
// process behind. Running it again changes nothing.
func HookAfterUpgrade(ctx context.Context, n *hostops.Node, a UpgradeArgs) error {
	if err := checkName(a.Driver); err != nil {
		return err
	}
	unlock, err := lockHooks(n, a.State)
	if err != nil {
		return err
	}
	defer unlock()
	res := UpgradeResult{Driver: a.Driver, Stage: a.Stage, At: n.Now().UTC()}
	log := hookLog{n: n, state: a.State, head: a.Stage + " " + a.Driver}
	err = upgradeDriver(ctx, n, a, &res, log)
	if err != nil {
		res.Error = err.Error()
		log.line(err.Error())
	}
	tellHost(ctx, n, a.State, res)
	if werr := writeRecord(n, upgradePath(a.State, a.Driver), res); werr != nil {
		err = errors.Join(err, werr)
	}
	return err
}

// tellHost makes the outcome seen on the running system, before anybody
// reboots it: refusals as records, message of the day and kernel log of the
// host, whose /run is not this chroot's.
func tellHost(ctx context.Context, n *hostops.Node, state string, res UpgradeResult) {
	for _, k := range res.Kernels {
		p := blockedPath(state, k.Release)
		if k.Verdict != "missing" {
			_ = n.Remove(p)
			pruneDirs(n, path.Dir(p), state)
			continue
		}
		tellMiss(ctx, n, state, Lack{Driver: res.Driver, Kernel: k.Release, Reason: k.Detail}, "", res.At)
	}
	if host := "/proc/1/root"; n.Exists(host + "/run") {
		writeMotdAt(n, state, host+motdPath)
	}
}

func upgradePath(state, driver string) string { return path.Join(state, "upgrade", driver+".json") }

// ReadUpgrade reads the last result of a driver's hook.
func ReadUpgrade(n *hostops.Node, state, driver string) (*UpgradeResult, error) {
	b, err := n.ReadFile(upgradePath(state, driver))
	if err != nil {
		return nil, err
	}
	var r UpgradeResult
	return &r, json.Unmarshal(b, &r)
}

func upgradeDriver(ctx context.Context, n *hostops.Node, a UpgradeArgs, res *UpgradeResult, log hookLog) error {
	rec, err := readRecord(n, keptPath(a.State, a.Driver))
	if err != nil {
		return fmt.Errorf("reading what is kept of %s: %w", a.Driver, err)
	}
	kernels := RootKernels(n, "/")
	if len(kernels) == 0 {
		return fmt.Errorf("the new root has no kernel modules below /lib/modules")
	}
	var missing []string
	detail := ""
	for _, k := range kernels {
		uk := UpgradeKernel{Release: k.Release, Verdict: "ok"}
		err := coveredAt(n, a.State, rec, k.Release)
		switch {
		case err != nil:
		case a.CheckOnly:
			uk.Verdict = "in-tree-dir"
		default:
			err = intoImage(ctx, n, a.State, rec, k)
		}
		if err != nil {
			uk.Verdict, uk.Detail = "missing", err.Error()
			missing, detail = append(missing, k.Release), err.Error()
		}
		log.line(fmt.Sprintf("kernel %s: %s %s", uk.Release, uk.Verdict, uk.Detail))
		res.Kernels = append(res.Kernels, uk)
	}
	if len(missing) > 0 {
		if rec.Driver.OnMissing == "continue" {
			log.line("onMissingModule is continue: the upgrade goes on without it")
			return nil
		}
		return &NotCovered{Driver: a.Driver, Kernels: missing, Detail: detail}
	}
	if a.CheckOnly {
		return nil
	}
	return imageConf(n, rec)
}

// RootKernels are the kernels of an OS root that is not running: directories
// of lib/modules with the kernel's own lists in them. An empty directory is an
// orphan; where any has vmlinuz, here or in /boot, the others are orphans too.
func RootKernels(n *hostops.Node, root string) []Kernel {
	var all, booting []Kernel
	for _, base := range []string{"usr/lib/modules", "lib/modules"} {
		dir := path.Join(root, base)
		entries, err := n.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			k := Kernel{Release: e.Name(), OSRoot: root, Dir: path.Join(dir, e.Name()), Roles: []Role{Staged}}
			known := slices.ContainsFunc(all, func(o Kernel) bool { return o.Release == k.Release })
			if known || !(n.Exists(k.Dir+"/modules.order") || n.Exists(k.Dir+"/modules.dep") || n.Exists(k.Dir+"/modules.builtin")) {
				continue
			}
			all = append(all, k)
			if n.Exists(k.Dir+"/vmlinuz") || n.Exists(path.Join(root, "boot/vmlinuz-"+k.Release)) || n.Exists(path.Join(root, "boot/Image-"+k.Release)) {
				booting = append(booting, k)
			}
		}
	}
	if len(booting) > 0 {
		all = booting
	}
	sort.Slice(all, func(i, j int) bool { return CompareReleases(all[i].Release, all[j].Release) > 0 })
	return all
}

// coveredAt looks whether the tree, seen from here under state, has the build
// whole. The record's paths are those of the running system; what is compared
// is what follows the tree's own part.
func coveredAt(n *hostops.Node, state string, rec *Kept, rel string) error {
	build, ok := rec.Driver.Builds[rel]
	if !ok {
		return fmt.Errorf("no build for it was kept (kept are: %s)", strings.Join(releases(rec.Driver), ", "))
	}
	sums := map[string]string{}
	mark := path.Join("/lib/modules", rel, "updates", rec.Driver.Name) + "/"
	for _, f := range rec.Files {
		if _, name, ok := strings.Cut(f.Path, mark); ok {
			sums[name] = f.SHA256
		}
	}
	for _, m := range build.Modules {
		own := OwnFile{Path: path.Join(treeDir(state), "lib/modules", rel, "updates", rec.Driver.Name, m), SHA256: sums[m]}
		if !own.same(n) {
			return fmt.Errorf("%s is missing or not as it was put there", own.Path)
		}
	}
	return nil
}

// intoImage puts one build into the new root: modules to updates/fitout, where
// they win over the kernel's own, firmware beside the image's, the index anew.
func intoImage(ctx context.Context, n *hostops.Node, state string, rec *Kept, k Kernel) error {
	d := rec.Driver
	from := path.Join(treeDir(state), "lib/modules", k.Release, "updates", d.Name)
	to := path.Join(k.Dir, "updates/fitout", d.Name)
	var need uint64
	for _, m := range d.Builds[k.Release].Modules {
		if st, err := n.Stat(path.Join(from, m)); err == nil {
			need += uint64(st.Size())
		}
	}
	if err := needSpace(n, k.Dir, need, 16, "the new image has no room for the driver"); err != nil {
		return err
	}
	var names []string
	for _, m := range d.Builds[k.Release].Modules {
		sum, _, err := hashFile(n, path.Join(from, m))
		if err != nil {
			return err
		}
		names = append(names, "updates/fitout/"+d.Name+"/"+m)
		if (OwnFile{Path: path.Join(to, m), SHA256: sum}).same(n) {
			continue
		}
		if err := copyFile(n, path.Join(from, m), path.Join(to, m), 0o644, hostops.LabelModule); err != nil {
			return err
		}
	}
	for _, name := range rec.Firmware {
		if err := copyFile(n, path.Join(firmwareDir(state), name), path.Join("/lib/firmware/updates", name), 0o644, ""); err != nil {
			return err
		}
	}
	return indexImage(ctx, n, k, names)
}

// indexImage runs the new root's own depmod and reads what it made.
func indexImage(ctx context.Context, n *hostops.Node, k Kernel, names []string) error {
	said := ""
	if n.Simulated() || !n.Exec.Look("depmod") {
		if err := writeIndex(n, k.Dir, k.Dir); err != nil {
			return err
		}
	} else {
		out, err := n.Exec.Run(ctx, "depmod", "-a", k.Release)
		said = strings.TrimSpace(string(out))
		if err != nil {
			said += " (" + err.Error() + ")"
		}
	}
	b, err := n.ReadFile(k.Dir + "/modules.dep")
	if err != nil {
		return err
	}
	for _, name := range names {
		if module.IsModuleFile(name) && !strings.Contains("\n"+string(b), "\n"+name+":") {
			return &NotIndexed{Release: k.Release, Module: name, Index: k.Dir + "/modules.dep", Output: said}
		}
	}
	return nil
}

// imageConf writes aliases, soft dependencies and options into the image, for
// the case that the persistent partition is not there at boot.
func imageConf(n *hostops.Node, rec *Kept) error {
	var b strings.Builder
	b.WriteString("# Put into this image by fitout's upgrade hook for driver " + rec.Driver.Name + ".\n")
	for _, t := range rec.Texts {
		if !strings.HasSuffix(t.Path, "/modprobe.d/fitout-"+rec.Driver.Name+".conf") {
			continue
		}
		for _, line := range strings.Split(t.Content, "\n") {
			for _, verb := range []string{"alias ", "softdep ", "options "} {
				if strings.HasPrefix(line, verb) {
					b.WriteString(line + "\n")
				}
			}
		}
	}
	return n.WriteFile("/etc/modprobe.d/fitout-image-"+rec.Driver.Name+".conf", []byte(b.String()), 0o644)
}

// lockHooks makes the hooks of several drivers wait for each other: the
// executor runs files in parallel, and two depmods of one kernel would lose
// one another's work.
func lockHooks(n *hostops.Node, state string) (unlock func(), err error) {
	f, err := os.OpenFile(n.Path(path.Join(state, ".hook.lock")), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the hooks: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the hooks: %w", err)
	}
	return func() { f.Close() }, nil
}

// maxLog bounds the hook log, in bytes; the older half goes first.
const maxLog = 256 << 10

// hookLog is the hooks' own log: <state>/hook.log.
type hookLog struct {
	n           *hostops.Node
	state, head string
}

func (l hookLog) line(text string) {
	p := path.Join(l.state, "hook.log")
	old, _ := l.n.ReadFile(p)
	if len(old) > maxLog {
		old = old[len(old)-maxLog/2:]
	}
	line := fmt.Sprintf("%s %s: %s\n", l.n.Now().UTC().Format(time.RFC3339), l.head, strings.TrimSpace(text))
	if err := l.n.WriteFile(p, append(old, line...), 0o644); err != nil {
		l.n.Log.Warn("hook log", "err", err)
	}
}
