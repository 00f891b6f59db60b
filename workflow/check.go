package workflow

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// Check says whether every kept driver, and every device that has a driver now,
// would have one on a kernel.
type Check struct {
	Kernel  string         `json:"kernel"`
	OK      bool           `json:"ok"`
	Drivers []CheckDriver  `json:"drivers"`
	Devices []DeviceLosing `json:"devices"`
	// Lacks is what the OS image lacks that waits for the next boot, if it is the
	// one that was asked for.
	Lacks []host.Lack `json:"lacks,omitempty"`
	// Gate is what the upgrade gate would answer; nil when it was not asked.
	Gate *host.GateResult `json:"gate,omitempty"`

	kernel host.Kernel
}

// CheckDriver is a kept driver on that kernel.
type CheckDriver struct {
	Name     string            `json:"name"`
	Verdict  finding.Verdict   `json:"verdict"`
	Findings []finding.Finding `json:"findings"`
}

// DeviceLosing is a device that would lose its driver.
type DeviceLosing struct {
	Address string `json:"address"`
	Name    string `json:"name"`
	Driver  string `json:"driver"`
	Reason  string `json:"reason"`
}

// CheckKernel checks one kernel: the one waiting to boot when release is "", or
// one below another OS root.
func (e *Engine) CheckKernel(ctx context.Context, release, osRoot string) (*Check, error) {
	s, err := e.Hardware(ctx)
	if err != nil {
		return nil, err
	}
	kernel, err := e.pickKernel(s, release, osRoot)
	if err != nil {
		return nil, err
	}
	c, err := e.checkKernel(ctx, s, kernel)
	if err != nil || osRoot != "" {
		return c, err
	}
	// A build that the driver's image has is of no use to an OS image whose
	// upgrade did not take it.
	lacks, err := host.WaitingLacks(ctx, e.Node, s.Host.StateDir, s.Kernels)
	if err != nil {
		return nil, stopf(ExitForbidden, "kernel-unreadable", "", "%v", err)
	}
	for _, l := range lacks {
		if l.Kernel == c.Kernel {
			c.Lacks = append(c.Lacks, l)
			c.OK = c.OK && l.Kept
		}
	}
	return c, nil
}

func (e *Engine) checkKernel(ctx context.Context, s *Survey, kernel host.Kernel) (*Check, error) {
	c := &Check{Kernel: kernel.Release, OK: true, Drivers: []CheckDriver{}, Devices: []DeviceLosing{}, kernel: kernel}
	if kernel.Dir == "" { // in an image that is not mounted
		root, done, err := e.OSImage(ctx, kernel.OSRoot)
		if err != nil {
			return nil, err
		}
		defer done()
		if kernel, err = e.pickKernel(s, kernel.Release, root); err != nil {
			return nil, err
		}
	}
	k, err := kmod.OpenKernel(e.Node, kernel.Release, kernel.Dir)
	hint := ""
	if err == nil {
		// A root that was never indexed, or whose disk was full then, lists no
		// device at all; depmod writes a heading at least.
		list, rerr := e.Node.ReadString(path.Join(kernel.Dir, "modules.alias"))
		switch {
		case rerr != nil:
			err = fmt.Errorf("%s has no modules.alias", kernel.Dir)
		case !strings.HasPrefix(list, "#") && !strings.HasPrefix(list, "alias "):
			err = fmt.Errorf("%s/modules.alias is empty or damaged", kernel.Dir)
		}
		if hint = "have it written anew: depmod " + kernel.Release; kernel.OSRoot != "/" {
			hint += ", where that OS is built or installed"
		}
	}
	if err != nil {
		return nil, stopf(ExitForbidden, "kernel-unreadable", hint, "reading the modules of %s: %v", kernel.Release, err)
	}
	records, err := run.Installed(e.Node, s.Host.StateDir)
	if err != nil {
		return nil, &Error{Exit: ExitForbidden, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	kept, err := host.ReadKept(e.Node, s.Host.StateDir)
	if err != nil {
		return nil, &Error{Exit: ExitForbidden, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	for _, r := range records {
		if r.Driver.When != answers.Persist && r.Driver.When != answers.LoadNowPersist {
			continue
		}
		cd := e.checkDriver(s, kernel, r, cmp.Or(buildOf(kept, r.Driver.Name, kernel.Release).Digest, r.Driver.Digest))
		c.OK = c.OK && usable(cd.Verdict)
		c.Drivers = append(c.Drivers, cd)
	}
	for _, m := range host.Losses(e.Node, kernel, kept) {
		c.Devices = append(c.Devices, s.losing(k, m))
		c.OK = false
	}
	return c, nil
}

// RehearseUninstalled asks the upgrade gate about a kernel of which nothing is
// on this node yet, as the gate itself is asked by a package manager. There is
// nothing else to check of it.
func (e *Engine) RehearseUninstalled(ctx context.Context, release string) (*Check, error) {
	c := &Check{Kernel: release, OK: true, Drivers: []CheckDriver{}, Devices: []DeviceLosing{},
		kernel: host.Kernel{Release: release, OSRoot: "/", Roles: []host.Role{host.Staged}}}
	return c, e.Rehearse(ctx, c)
}

// Rehearse asks the upgrade gate about the kernel that was checked, dry: no
// override is used up, nothing is put into the tree or recorded; an image that is
// asked for stays in the store. The answer is added to c.
func (e *Engine) Rehearse(ctx context.Context, c *Check) error {
	facts := host.Detect(e.Node).Facts()
	kept, err := host.SoundKept(e.Node, facts.StateDir)
	if err != nil {
		return &Error{Exit: ExitForbidden, Code: "state-damaged", Message: err.Error(), Err: err}
	}
	find, done := e.builds()
	defer done()
	res := host.Gate(ctx, e.Node, facts.StateDir, c.kernel, host.Persisted(kept), host.GateOptions{
		Rehearse: true, Strength: facts.Gate, Build: find, Losses: host.Losses(e.Node, c.kernel, kept),
	})
	c.Gate = &res
	c.OK = c.OK && res.Allow
	return nil
}

// losing puts a loss into words: the module that comes nearest is named.
func (s *Survey) losing(k *kmod.Kernel, m host.Miss) DeviceLosing {
	out := DeviceLosing{Address: m.Devices[0], Driver: m.Driver, Reason: m.Reason}
	for _, d := range s.Devices {
		if d.Address != out.Address {
			continue
		}
		out.Name = displayName(d.Device)
		out.Reason = fmt.Sprintf("no module of %s has %s", k.Release, d.ID())
		if misses := k.Tables.NearMisses(d.Modalias); len(misses) > 0 {
			out.Reason = fmt.Sprintf("%s of %s is there, but its list lacks %s", misses[0], k.Release, d.ID())
		}
	}
	return out
}

func (e *Engine) pickKernel(s *Survey, release, osRoot string) (host.Kernel, error) {
	if osRoot != "" {
		for _, k := range host.RootKernels(e.Node, osRoot) {
			if release == "" || k.Release == release {
				return k, nil
			}
		}
		hint := "name the directory that holds lib/modules or usr/lib/modules of the other OS"
		var found []string
		for _, k := range host.RootKernels(e.Node, osRoot) {
			found = append(found, k.Release)
		}
		if len(found) > 0 {
			hint = "name one of: " + strings.Join(found, ", ")
		}
		return host.Kernel{}, stopf(ExitNoMatch, "no-kernel", hint, "%s", strings.TrimSpace("below "+osRoot+" is no kernel "+release))
	}
	if release == "" {
		return host.NextBoot(s.Kernels), nil
	}
	for _, k := range s.Kernels {
		if k.Release == release {
			return k, nil
		}
	}
	if dir := "/lib/modules/" + release; e.Node.Exists(dir + "/modules.dep") {
		return host.Kernel{Release: release, OSRoot: "/", Dir: dir}, nil
	}
	return host.Kernel{}, stopf(ExitNoMatch, "no-kernel", "name one of: "+strings.Join(s.releases(), ", "), "this node has no kernel %s", release)
}

// buildOf is a kept driver's build for a kernel, empty when there is none.
func buildOf(kept []host.Kept, driver, release string) host.Build {
	i := slices.IndexFunc(kept, func(k host.Kept) bool { return k.Driver.Name == driver })
	if i < 0 {
		return host.Build{}
	}
	return kept[i].Driver.Builds[release]
}

// checkDriver judges a kept driver's image, from the store, for a kernel.
func (e *Engine) checkDriver(s *Survey, kernel host.Kernel, r run.Record, digest string) CheckDriver {
	cd := CheckDriver{Name: r.Driver.Name, Verdict: finding.NoModule, Findings: []finding.Finding{}}
	inv, err := image.ReadInventory(e.Node.Path(e.storeDir(digest, r.Driver.Place)))
	if err != nil {
		f := finding.New("image-missing", r.Driver.Image, kernel.Release)
		f.Evidence = []string{"the image store has no " + digest}
		if image.CodeOf(err) == image.StoreDamaged {
			f = finding.New("store-damaged", r.Driver.Image)
			f.Evidence = []string{err.Error()}
		}
		cd.Findings = append(cd.Findings, f)
		return cd
	}
	q := question{offer: Offer{Driver: e.entryOf(r)}, parameters: r.Driver.Params, accepted: []string{"kabi-match"}}
	for _, dev := range s.Devices {
		if slices.Contains(r.Driver.DeviceIDs, dev.ID()) && dev.PhysFn == "" {
			q.devices = append(q.devices, dev.Modalias)
		}
	}
	j := e.judge(s, kernel, q, inv)
	cd.Verdict = j.Verdict
	cd.Findings = append(cd.Findings, j.Findings...)
	return cd
}
