package host

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

// GateResult is the gate's answer about one kernel.
type GateResult struct {
	Allow  bool   `json:"allow"`
	Kernel string `json:"kernel"`
	// Driver, Devices, Reason are of the first miss; Misses holds all.
	Driver   string   `json:"driver,omitempty"`
	Devices  []string `json:"devices,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Cure     string   `json:"cure,omitempty"`
	Override string   `json:"override,omitempty"` // the command that lets it through once
	Misses   []Miss   `json:"misses,omitempty"`
	// Cured names drivers whose build was found on the spot.
	Cured []string `json:"cured,omitempty"`
	// Loud says that it was let through although something is missing, and
	// why: "allowed once", "onMissingModule: continue", "advisory".
	Loud string `json:"loud,omitempty"`
}

// Miss is a driver that the kernel would not have.
type Miss struct {
	Driver    string   `json:"driver"`
	Devices   []string `json:"devices,omitempty"`
	Reason    string   `json:"reason"`
	OnMissing string   `json:"onMissingModule,omitempty"`
}

// GateOptions say how a gate asks.
type GateOptions struct {
	// Rehearse changes nothing: no override is used up, nothing is recorded,
	// and what would be cured is looked for, not put into the tree.
	Rehearse bool
	// Look says that the attempt itself is still to come: an override holds, and
	// is left for it, also one that is given while this looks.
	Look bool
	// Strength is the family's: an advisory gate reports and lets through.
	Strength Strength
	// Build looks for a build that is not in the tree (an older one whose
	// symbol versions fit, the image store, a registry with a short limit);
	// nil: nothing more is tried. (nil, nil) means that there is none; an error
	// says why none was found.
	Build func(ctx context.Context, d Driver, k Kernel) (*Build, error)
	// Losses are devices bound now whose own driver the kernel lacks, found
	// by the caller from its tables.
	Losses []Miss
}

// Gate says whether a kernel may become bootable: whether every driver that is
// persisted has a build for it, by the files themselves. It cures what it can,
// records a refusal (file, message of the day, journal), and clears the record
// when the obstacle is gone; a refusal is never remembered as an answer.
func Gate(ctx context.Context, n *hostops.Node, state string, k Kernel, installed []Driver, o GateOptions) GateResult {
	r := GateResult{Kernel: k.Release, Override: "fitout allow " + k.Release}
	records, err := readKept(n, state)
	if err != nil {
		r.Misses = append(r.Misses, Miss{Reason: err.Error()})
	}
	for _, d := range installed {
		miss := covered(n, state, records, d.Name, d.Load, k.Release)
		if miss == nil {
			continue
		}
		why := cure(ctx, n, state, d, k, o)
		if why == nil {
			r.Cured = append(r.Cured, d.Name)
			continue
		}
		reason := miss.Error()
		if o.Build != nil {
			reason += "; looked further: " + why.Error()
		}
		r.Misses = append(r.Misses, Miss{Driver: d.Name, Devices: d.Devices, Reason: reason, OnMissing: d.OnMissing})
	}
	r.Misses = append(r.Misses, o.Losses...)
	r.decide(o)
	if o.Rehearse {
		return r
	}
	if !r.Allow && o.overridden(n, state, k.Release) {
		r.Allow, r.Loud = true, "allowed once by the administrator"
	}
	r.record(ctx, n, state)
	return r
}

// decide fills in the answer from the misses.
func (r *GateResult) decide(o GateOptions) {
	r.Allow = true
	for i, m := range r.Misses {
		if i == 0 {
			r.Driver, r.Devices, r.Reason = m.Driver, m.Devices, m.Reason
			r.Cure = fmt.Sprintf("fit it for that kernel (fitout apply with an image that has a build for %s), or wait until one exists: every attempt is judged anew", r.Kernel)
		}
		if m.OnMissing == "continue" {
			r.Loud = "onMissingModule: continue"
			continue
		}
		r.Allow = false
	}
	if !r.Allow && (o.Strength == Advisory || o.Strength == NoGate) {
		r.Allow, r.Loud = true, "this host's gate is advisory"
		if o.Strength == NoGate {
			r.Loud = "nothing on this host stops an upgrade"
		}
	}
}

// Sentence is the refusal, or the loud consent, as one paragraph.
func (r GateResult) Sentence() string {
	if len(r.Misses) == 0 && len(r.Cured) > 0 {
		return "kernel " + r.Kernel + " has every kept driver, with builds found for " + strings.Join(r.Cured, ", ")
	}
	if len(r.Misses) == 0 {
		return "kernel " + r.Kernel + " has every kept driver"
	}
	var b strings.Builder
	verb := "refused"
	if r.Allow {
		verb = "let through (" + r.Loud + ")"
	}
	fmt.Fprintf(&b, "kernel %s %s: ", r.Kernel, verb)
	for i, m := range r.Misses {
		if i > 0 {
			b.WriteString("; ")
		}
		if m.Driver != "" {
			b.WriteString("driver " + m.Driver)
			if len(m.Devices) > 0 {
				b.WriteString(" (device " + strings.Join(m.Devices, ", ") + ")")
			}
			b.WriteString(": ")
		}
		b.WriteString(m.Reason)
	}
	if !r.Allow {
		b.WriteString(". To cure it: " + r.Cure + ". To let it through once: " + r.Override)
	}
	return b.String()
}

// covered is nil when the tree has a driver whole for a release: its files are
// as recorded, every module to load is there, and the index names them.
func covered(n *hostops.Node, state string, records []Kept, driver string, load []string, rel string) error {
	dir := path.Join(treeDir(state), "lib/modules", rel)
	own := path.Join(dir, "updates", driver)
	files, err := ownFiles(n, own)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no build for %s is in %s", rel, treeDir(state))
	}
	for _, k := range records {
		for _, f := range k.Files {
			if k.Driver.Name == driver && strings.HasPrefix(f.Path, own+"/") && !f.same(n) {
				return fmt.Errorf("%s is not as it was put there (missing or changed)", f.Path)
			}
		}
	}
	names := map[string]bool{}
	for _, f := range files {
		if module.IsModuleFile(f.Path) {
			names[module.NameOf(f.Path)] = true
		}
	}
	// What else a build needs may be the OS's own there; the driver proper is
	// the last to load.
	if len(load) > 0 && !names[module.Normalize(load[len(load)-1])] {
		return fmt.Errorf("the build for %s lacks module %s", rel, load[len(load)-1])
	}
	return indexed(n, dir, driver, rel)
}

// Covered is covered for callers outside: nil when driver d has a whole build
// for the release in the tree.
func Covered(n *hostops.Node, state string, d Driver, rel string) error {
	records, err := readKept(n, state)
	if err != nil {
		return err
	}
	return covered(n, state, records, d.Name, d.Load, rel)
}

// cure puts a build that was found elsewhere into the tree, and records it. In
// a rehearsal it only looks.
func cure(ctx context.Context, n *hostops.Node, state string, d Driver, k Kernel, o GateOptions) error {
	if o.Build == nil {
		return fmt.Errorf("nothing to cure with")
	}
	b, err := o.Build(ctx, d, k)
	if err != nil || b == nil {
		return errOr(err, "no build for it was found")
	}
	if o.Rehearse {
		return nil
	}
	return AddBuild(ctx, n, state, d.Name, k, *b)
}

// AddBuild puts one more kernel's build of a kept driver into the tree and into
// its record.
func AddBuild(ctx context.Context, n *hostops.Node, state, driver string, k Kernel, b Build) error {
	rec, err := readRecord(n, keptPath(state, driver))
	if err != nil {
		return fmt.Errorf("adding a build of %s: %w", driver, err)
	}
	a := &PutTree{State: state, Driver: driver, Release: k.Release, Source: b.Dir, OSDir: k.Dir}
	a.Files = treeFiles(n, b)
	if err := a.Prepare(ctx, n); err != nil {
		return err
	}
	if err := a.Do(ctx, n, Quiet{}); err != nil {
		return err
	}
	firmware := firmwareFiles(Driver{Builds: map[string]Build{k.Release: b}})
	if len(firmware) > 0 {
		f := &PutFirmware{State: state, Driver: driver, Files: firmware}
		if err := f.Prepare(ctx, n); err != nil {
			return err
		}
		if err := f.Do(ctx, n, Quiet{}); err != nil {
			return err
		}
	}
	b.Release = k.Release
	b = inTree(n, b, a.dest(), state)
	rec.Driver.Builds[k.Release] = b
	rec.Firmware = sortedUnique(append(rec.Firmware, b.Firmware...))
	keep := &Keep{State: state, Kept: *rec}
	for rel := range rec.Driver.Builds {
		keep.Dirs = append(keep.Dirs, path.Join(treeDir(state), "lib/modules", rel, "updates", driver))
	}
	if layered(n, state, driver) {
		if err := writeRepo(n, state, driver, rec.Driver.Version, layerBuilds(n, rec.Driver, state)); err != nil {
			return err
		}
		keep.Dirs = append(keep.Dirs, repoDir(state, driver))
	}
	if err := keep.Prepare(ctx, n); err != nil {
		return err
	}
	return keep.Do(ctx, n, Quiet{})
}

// Persisted are the drivers whose loss the gate stops.
func Persisted(kept []Kept) []Driver {
	var out []Driver
	for _, k := range kept {
		if k.When == "persist" {
			out = append(out, k.Driver)
		}
	}
	return out
}

// Quiet is a Sink for hooks, which have a log of their own.
type Quiet struct{}

// Line drops a line.
func (Quiet) Line(string) {}

// Progress drops a figure.
func (Quiet) Progress(int64, int64) {}

// Allow lets one kernel through the gate once.
func Allow(n *hostops.Node, state, kernel, who string) error {
	if kernel == "" || strings.ContainsAny(kernel, "/\x00") || strings.HasPrefix(kernel, ".") {
		return fmt.Errorf("%q is no kernel release", kernel)
	}
	return writeRecord(n, allowPath(state, kernel), map[string]any{"kernel": kernel, "by": who, "at": n.Now().UTC().Format(time.RFC3339)})
}

func allowPath(state, kernel string) string { return path.Join(state, "allow", kernel) }

// Allowed are the kernels with an override that is not used up.
func Allowed(n *hostops.Node, state string) []string {
	var out []string
	for _, p := range n.Glob(allowPath(state, "*")) {
		out = append(out, path.Base(p))
	}
	return out
}

// overridden says that the kernel is let through once.
func (o GateOptions) overridden(n *hostops.Node, state, kernel string) bool {
	if o.Look {
		return n.Exists(allowPath(state, kernel))
	}
	return useAllowance(n, state, kernel)
}

// useAllowance uses up a one-shot override.
func useAllowance(n *hostops.Node, state, kernel string) bool {
	p := allowPath(state, kernel)
	if !n.Exists(p) {
		return false
	}
	if err := n.Remove(p); err != nil {
		// An override that cannot be used up would be one for ever.
		return false
	}
	pruneDirs(n, path.Dir(p), state)
	return true
}
