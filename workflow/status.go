package workflow

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/hostops/pci"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fitout/workflow/run"
)

// Status is what is true of the node now: measured, not remembered.
type Status struct {
	Kernel  string         `json:"kernel"`
	BootID  string         `json:"bootId"`
	Drivers []DriverStatus `json:"drivers"`
	Gate    GateStatus     `json:"gate"`
	Store   *Store         `json:"store"`
	Run     *string        `json:"run"`
	// Unfinished is a run that was cut short and is neither resumed nor undone.
	Unfinished   *string  `json:"unfinished"`
	RebootNeeded bool     `json:"rebootNeeded"`
	Why          []string `json:"rebootReasons,omitempty"`
	// Boot is what the boot hook found at this boot, nil where there is none.
	Boot *host.BootResult `json:"boot,omitempty"`
	// Upgrades are what the OS upgrade's hook found for each driver.
	Upgrades []host.UpgradeResult `json:"upgrades,omitempty"`
	// Lacks is what an OS image that waits for the next boot lacks, by looking
	// into it.
	Lacks []host.Lack `json:"lacks,omitempty"`
	// Leftover is what an upgrade that was cut short has left, "" for nothing.
	Leftover string `json:"leftover,omitempty"`
}

// DriverStatus is one installed driver against the node as it is.
type DriverStatus struct {
	Name              string         `json:"name"`
	Version           string         `json:"version"`
	Image             string         `json:"image"`
	Digest            string         `json:"digest"`
	When              answers.When   `json:"when"`
	Loaded            bool           `json:"loaded"`
	SrcversionMatches *bool          `json:"srcversionMatches"`
	Devices           []DeviceStatus `json:"devices"`
	Kernels           []KernelStatus `json:"kernels"`
	Drift             []string       `json:"drift"`
}

// DeviceStatus is a device that the driver should drive.
type DeviceStatus struct {
	Address string `json:"address"`
	Driver  string `json:"driver"`
	Bound   bool   `json:"bound"`
}

// KernelStatus is what the driver has for a kernel that may boot.
type KernelStatus struct {
	Release string          `json:"release"`
	Role    string          `json:"role"`
	Verdict finding.Verdict `json:"verdict"`
	Kept    bool            `json:"kept"` // its build lies where that kernel finds it
}

// GateStatus is the upgrade gate.
type GateStatus struct {
	Armed    bool           `json:"armed"`
	Strength host.Strength  `json:"strength"`
	Blocked  []host.Blocked `json:"blocked"`
	Allowed  []string       `json:"allowed,omitempty"` // kernels that are let through once
}

// Status measures every installed driver anew.
func (e *Engine) Status(ctx context.Context) (*Status, error) {
	family := host.Detect(e.Node)
	facts := family.Facts()
	kernels, err := family.Kernels(ctx)
	if err != nil {
		return nil, err
	}
	st := &Status{Kernel: kernels[0].Release, Drivers: []DriverStatus{}, Gate: GateStatus{Strength: facts.Gate, Blocked: []host.Blocked{}}}
	st.BootID, _ = e.Node.ReadString("/proc/sys/kernel/random/boot_id")
	if id := e.Current(); id != "" {
		st.Run = &id
	}
	if open, err := run.Unfinished(e.Node, facts.StateDir); err == nil && open != nil {
		st.Unfinished = &open.ID
	}
	records, err := run.Installed(e.Node, facts.StateDir)
	if err != nil {
		return nil, &Error{Exit: ExitDrift, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	devices, _ := pci.Scan(e.Node)
	loaded, _ := kmod.Loaded(e.Node)
	if boot, err := host.ReadBoot(e.Node, facts.StateDir); err == nil && boot.BootID == st.BootID {
		st.Boot = boot
	}
	// A record that is damaged is told by the boot check and by the gate.
	kept, _ := host.ReadKept(e.Node, facts.StateDir)
	armed, blocked := host.GateState(e.Node, facts)
	st.Gate.Armed, st.Gate.Blocked, st.Gate.Allowed = armed, append(st.Gate.Blocked, blocked...), host.Allowed(e.Node, facts.StateDir)
	next := host.NextBoot(kernels, blocked...).Release
	for _, r := range records {
		ds := e.driverStatus(kept, kernels, devices, loaded, r)
		if up, err := host.ReadUpgrade(e.Node, facts.StateDir, r.Driver.Name); err == nil {
			st.Upgrades = append(st.Upgrades, *up)
		}
		st.Drivers = append(st.Drivers, ds)
		st.reboot(ds, r, next)
	}
	// A settings file that is not valid is told by the verbs that need it.
	st.Store, _ = e.Store()
	if err := host.UpgradeLeftover(e.Node); err != nil {
		st.Leftover = err.Error()
	}
	if host.ImageWaiting(e.Node, blocked...) {
		st.RebootNeeded = true
		st.Why = append(st.Why, "the next boot starts another OS image than the one that runs")
		st.lacks(ctx, e, facts.StateDir, kernels)
	}
	return st, nil
}

// lacks looks into the image that waits.
func (s *Status) lacks(ctx context.Context, e *Engine, state string, kernels []host.Kernel) {
	lacks, err := host.WaitingLacks(ctx, e.Node, state, kernels)
	if err != nil {
		s.Why = append(s.Why, "what that image lacks is not known: "+err.Error())
	}
	s.Lacks = lacks
	for _, l := range lacks {
		if !l.Kept {
			s.Why = append(s.Why, fmt.Sprintf("that image LACKS %s for kernel %s: do not reboot into it before that is mended", l.Driver, l.Kernel))
		}
	}
}

// keeps says that a choice outlives a reboot.
func keeps(w answers.When) bool {
	return w == answers.Persist || w == answers.AtBoot || w == answers.LoadNowPersist || w == answers.LoadNowAtBoot
}

func (e *Engine) driverStatus(kept []host.Kept, kernels []host.Kernel, devices []pci.Device, loaded []kmod.LoadedModule, r run.Record) DriverStatus {
	d := r.Driver
	out := DriverStatus{Name: d.Name, Version: d.Version, Image: d.Image, Digest: d.Digest, When: d.When,
		Devices: []DeviceStatus{}, Kernels: []KernelStatus{}, Drift: []string{}}
	for _, k := range kernels {
		out.Kernels = append(out.Kernels, e.kernelStatus(kept, k, r, &out))
	}
	out.Loaded = true
	for _, k := range kept {
		if k.Driver.Name != d.Name {
			continue
		}
		if gone := k.Gone(e.Node); len(gone) > 0 {
			out.drift("%s not there any more, and the driver is kept by that; fitout persist %s writes what is missing", isAre(gone), d.Name)
		}
	}
	for _, m := range d.Modules {
		i := slices.IndexFunc(loaded, func(l kmod.LoadedModule) bool { return l.Name == module.Normalize(m) })
		if i < 0 {
			out.Loaded = false
			out.drift("module %s is recorded as installed, but it is not loaded now; fitout load %s", m, d.Name)
			continue
		}
		if want := r.Srcversions[kernels[0].Release][module.Normalize(m)]; want != "" && loaded[i].Srcversion != "" {
			same := want == loaded[i].Srcversion
			if out.SrcversionMatches == nil || !same {
				out.SrcversionMatches = &same
			}
			if !same {
				out.drift("module %s is loaded from another build (srcversion %s, staged %s); fitout unload %s, then fitout load %s", m, loaded[i].Srcversion, want, d.Name, d.Name)
			}
		}
	}
	e.replacedAgain(kept, kernels[0], loaded, &out)
	for _, dev := range devices {
		if !slices.Contains(d.DeviceIDs, dev.ID()) || dev.PhysFn != "" {
			continue
		}
		bound := slices.Contains(d.Modules, module.Normalize(dev.Module)) || slices.Contains(d.Modules, module.Normalize(dev.Driver))
		out.Devices = append(out.Devices, DeviceStatus{Address: dev.Address, Driver: dev.Driver, Bound: bound})
		if !bound {
			out.drift("device %s (%s) is not driven by it; it has %s", dev.Address, dev.ID(), orNone(dev.Driver))
		}
	}
	return out
}

// replacedAgain says which of the modules that a kept driver replaces are loaded
// all the same, and who may have brought them in: what keeps a module from being
// loaded for a device does not keep others from loading it.
func (e *Engine) replacedAgain(kept []host.Kept, running host.Kernel, loaded []kmod.LoadedModule, out *DriverStatus) {
	if len(out.Kernels) == 0 || !out.Kernels[0].Kept {
		return // the kernel's own driver is meant to serve
	}
	for _, k := range kept {
		for _, name := range k.Driver.Replaces {
			name = module.Normalize(name)
			if k.Driver.Name != out.Name || slices.Contains(k.Driver.Load, name) ||
				!slices.ContainsFunc(loaded, func(l kmod.LoadedModule) bool { return l.Name == name }) {
				continue
			}
			var by []string
			for _, p := range kmod.OpenTables(e.Node, running.Dir).PulledInBy(name) {
				by = append(by, p.String())
			}
			out.drift("module %s, which it replaces, is loaded all the same; %s", name, cmp.Or(strings.Join(by, ", "), "no other module asks for it"))
		}
	}
}

// isAre begins a sentence about files.
func isAre(files []string) string {
	if len(files) == 1 {
		return files[0] + " is"
	}
	return strings.Join(files, ", ") + " are"
}

func orNone(s string) string {
	if s == "" {
		return "no driver"
	}
	return s
}

func (d *DriverStatus) drift(format string, args ...any) {
	d.Drift = append(d.Drift, fmt.Sprintf(format, args...))
}

// kernelStatus says whether the kept tree has the driver for kernel k.
func (e *Engine) kernelStatus(kept []host.Kept, k host.Kernel, r run.Record, out *DriverStatus) KernelStatus {
	ks := KernelStatus{Release: k.Release, Verdict: finding.NoModule}
	if len(k.Roles) > 0 {
		ks.Role = string(k.Roles[0])
	}
	judged := false
	for _, b := range r.Driver.Kernels {
		if b.Release == k.Release {
			ks.Verdict, judged = b.Verdict, usable(b.Verdict)
		}
	}
	ks.Kept = len(e.Node.Glob(path.Join(e.StateDir(), "tree/lib/modules", k.Release, "updates", r.Driver.Name, "*"))) > 0
	if ks.Kept && !judged {
		ks.Verdict = finding.Unsure // it was kept before this kernel came
		if v := buildOf(kept, r.Driver.Name, k.Release).Verdict; v != "" {
			ks.Verdict = finding.Verdict(v)
		}
	}
	if keeps(r.Driver.When) && !ks.Kept {
		out.drift("there is no build for kernel %s (%s): after a boot into it the devices have no driver", k.Release, ks.Role)
	}
	return ks
}

// reboot says whether a reboot would make true what is recorded: only one into a
// kernel that has a build does.
func (s *Status) reboot(d DriverStatus, r run.Record, next string) {
	if !keeps(r.Driver.When) || d.Loaded {
		return
	}
	if !slices.ContainsFunc(d.Kernels, func(k KernelStatus) bool { return k.Release == next && k.Kept }) {
		return
	}
	why := d.Name + " is kept for the next boot and not loaded now"
	if next != s.Kernel {
		why = fmt.Sprintf("%s is kept for kernel %s, which boots next, and not loaded now", d.Name, next)
	}
	s.RebootNeeded = true
	s.Why = append(s.Why, why)
}

// Drifted says that the node is not as recorded.
func (s *Status) Drifted() bool {
	return slices.ContainsFunc(s.Drivers, func(d DriverStatus) bool { return len(d.Drift) > 0 })
}

// Text is the status as lines.
func (s *Status) Text() []string {
	out := []string{"Running kernel " + s.Kernel}
	if s.Run != nil {
		out = append(out, "Run in progress: "+*s.Run+"   (fitout attach)")
	}
	if s.Unfinished != nil {
		out = append(out, "RUN CUT SHORT: "+*s.Unfinished+"   go on: fitout apply --resume   undo: fitout rollback "+*s.Unfinished)
	}
	if len(s.Drivers) == 0 {
		out = append(out, "No driver was installed by fitout on this node.")
	}
	for _, d := range s.Drivers {
		out = append(out, "", strings.TrimSpace(fmt.Sprintf("%s %s", d.Name, d.Version)),
			"  image    "+d.Image, "  digest   "+d.Digest, "  when     "+string(d.When),
			"  loaded   "+yesNo(d.Loaded))
		for _, dev := range d.Devices {
			out = append(out, fmt.Sprintf("  device   %s  %s", dev.Address, orNone(dev.Driver)))
		}
		for _, k := range d.Kernels {
			kept := "not kept"
			if k.Kept {
				kept = "kept"
			}
			out = append(out, fmt.Sprintf("  kernel   %s (%s)  %s, %s", k.Release, k.Role, finding.VerdictWord(k.Verdict), kept))
		}
		for _, t := range d.Drift {
			out = append(out, "  DRIFT    "+t)
		}
	}
	out = append(append(append(out, s.gateText()...), s.bootText()...), s.upgradeText()...)
	for _, b := range s.Gate.Blocked {
		out = append(out, "", fmt.Sprintf("UPGRADE BLOCKED for kernel %s: %s", b.Kernel, b.Reason),
			"  since    "+b.Since.Format("2006-01-02 15:04")+", checked "+b.Checked.Format("2006-01-02 15:04"),
			"  cure     "+b.Cure, "  or       "+b.Override)
	}
	if st := s.Store; st != nil && len(st.Images) > 0 {
		out = append(out, "", fmt.Sprintf("Image store %s: %s, %s of %s", st.Dir, plan.Count(len(st.Images), "image"), plan.Size(st.Bytes), plan.Size(st.Limit)))
	}
	if s.RebootNeeded {
		out = append(out, "", "A reboot is needed: "+strings.Join(s.Why, "; "))
	}
	return out
}

// bootText is what the boot check found wrong and what is still so.
func (s *Status) bootText() []string {
	if s.Boot == nil {
		return nil
	}
	var out []string
	if s.Boot.Damaged != "" {
		out = append(out, "", "AT BOOT: "+s.Boot.Damaged)
	}
	for _, b := range s.Boot.Drivers {
		if b.Bad() && slices.ContainsFunc(s.Drivers, func(d DriverStatus) bool { return d.Name == b.Name && !d.Loaded }) {
			out = append(out, "", fmt.Sprintf("AT BOOT: %s is not in use on kernel %s: %s", b.Name, s.Boot.Kernel, b.Detail))
		}
	}
	return out
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// upgradeText says what the image that boots next lacks, and which hook of the
// last upgrade could not do its work.
func (s *Status) upgradeText() []string {
	var out []string
	if s.Leftover != "" {
		out = append(out, "", "LEFT OVER: "+s.Leftover)
	}
	for _, l := range s.Lacks {
		out = append(out, "", l.Sentence())
	}
	for _, u := range s.Upgrades {
		// What an image lacked is told as long as it waits.
		missing := slices.ContainsFunc(u.Kernels, func(k host.UpgradeKernel) bool { return k.Verdict == "missing" })
		if u.Error != "" && !missing {
			out = append(out, "", fmt.Sprintf("The upgrade hook of %s failed (%s, %s): %s", u.Driver, u.Stage, u.At.Format("2006-01-02 15:04"), u.Error))
		}
	}
	return out
}
