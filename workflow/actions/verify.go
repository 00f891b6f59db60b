package actions

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/workflow/journal"
)

// Verify measures that each device is driven by the module that was staged, and
// that the kernel says nothing bad about it for a bounded time. It changes
// nothing.
type Verify struct {
	Driver  string
	Devices []VerifyDevice
	// Window is how long the kernel's log is watched.
	Window time.Duration
	// Measured is filled by Do.
	Measured []journal.DeviceResult
}

// VerifyDevice is one device and what should drive it. Module may bind through
// a driver of another name; what counts is the module behind it.
type VerifyDevice struct {
	Address, Name, Module, Srcversion, BuildID, Version string
}

// Kind implements hostops.Action.
func (*Verify) Kind() string { return "verify-devices" }

// Describe implements hostops.Action.
func (v *Verify) Describe() hostops.Description {
	d := hostops.Description{Title: "check that the devices work", Estimate: v.Window, Limit: v.Window + 30*time.Second}
	for _, dev := range v.Devices {
		d.Text = append(d.Text, fmt.Sprintf("%s is bound to %s, loaded module srcversion %s", dev.Address, dev.Module, orUnknown(dev.Srcversion)))
	}
	d.Text = append(d.Text, fmt.Sprintf("its kernel log stays clean for %s", v.Window))
	return d
}

func orUnknown(s string) string {
	if s == "" {
		return "(none recorded)"
	}
	return s
}

// Prepare implements hostops.Action.
func (*Verify) Prepare(context.Context, *hostops.Node) error { return nil }

// Undo implements hostops.Action: there is nothing to undo.
func (*Verify) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }

// Done implements hostops.Action: only a measurement of this run counts.
func (v *Verify) Done(context.Context, *hostops.Node) (bool, error) {
	for _, m := range v.Measured {
		if !m.OK {
			return false, nil
		}
	}
	return len(v.Measured) == len(v.Devices), nil
}

// Do implements hostops.Action.
func (v *Verify) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	// What the kernel said while this run loaded the driver counts too.
	log, logErr := kmod.OpenLogSince(n, kmod.ProcessStart())
	if logErr != nil {
		out.Line("the kernel log cannot be read: " + logErr.Error())
	}
	defer log.Close()
	v.waitBound(ctx, n)
	if log != nil && !n.Simulated() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(v.Window):
		}
	}
	v.Measured = nil
	var bad []string
	for _, dev := range v.Devices {
		r := Measure(n, dev)
		if log != nil {
			r.Log = unclean(log.About(dev.Address))
		}
		if len(r.Log) > 0 && r.OK {
			r.OK, r.Text = false, r.Text+"; but the kernel log says: "+r.Log[0]
		}
		out.Line(r.Text)
		v.Measured = append(v.Measured, r)
		if !r.OK {
			bad = append(bad, r.Text)
		}
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

// waitBound gives drivers that probe in the background up to 10 s.
func (v *Verify) waitBound(ctx context.Context, n *hostops.Node) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		all := true
		for _, dev := range v.Devices {
			_, err := n.Readlink("/sys/bus/pci/devices/" + dev.Address + "/driver")
			all = all && err == nil
		}
		if all || n.Simulated() {
			return
		}
	}
}

// Results implements the runner's hook for device results.
func (v *Verify) Results() []journal.DeviceResult { return v.Measured }

// Measure says what drives a device now.
func Measure(n *hostops.Node, want VerifyDevice) journal.DeviceResult {
	r := journal.DeviceResult{Address: want.Address, Name: want.Name, Want: want.Module}
	link, err := n.Readlink("/sys/bus/pci/devices/" + want.Address + "/driver")
	if err != nil {
		r.Text = fmt.Sprintf("%s has no driver, %s was expected", want.Address, want.Module)
		return r
	}
	r.Driver = path.Base(link)
	mod := r.Driver
	if m, err := n.Readlink("/sys/bus/pci/drivers/" + r.Driver + "/module"); err == nil {
		mod = path.Base(m)
	}
	if mod != want.Module {
		r.Text = fmt.Sprintf("%s is bound to %s of module %s, %s was expected", want.Address, r.Driver, mod, want.Module)
		return r
	}
	r.Version, _ = n.ReadString("/sys/module/" + mod + "/version")
	loaded, _ := n.ReadString("/sys/module/" + mod + "/srcversion")
	if want.Srcversion != "" && loaded != "" {
		same := loaded == want.Srcversion
		r.SrcversionMatches = &same
		if !same {
			r.Text = fmt.Sprintf("%s is bound to %s, but the loaded module is another build (srcversion %s, staged %s)",
				want.Address, r.Driver, loaded, want.Srcversion)
			return r
		}
	}
	if other := otherBuild(n, mod, want); other != "" {
		no := false
		r.SrcversionMatches = &no
		r.Text = fmt.Sprintf("%s is bound to %s, but the loaded module is another build (build id %s, staged %s)", want.Address, r.Driver, other, want.BuildID)
		return r
	}
	r.OK = true
	r.Text = strings.TrimSpace(fmt.Sprintf("%s is bound to %s %s", want.Address, r.Driver, r.Version))
	return r
}

// otherBuild is the build id of the loaded module when it is not the staged one;
// modules without a srcversion are told apart by it.
func otherBuild(n *hostops.Node, mod string, want VerifyDevice) string {
	if want.Srcversion != "" || want.BuildID == "" {
		return ""
	}
	loaded, err := kmod.Loaded(n)
	if err != nil {
		return ""
	}
	for _, m := range loaded {
		if m.Name == mod && m.BuildID != "" && m.BuildID != want.BuildID {
			return m.BuildID
		}
	}
	return ""
}

// badWords mark a kernel line about a device as "does not work". They are
// whole phrases that drivers and the driver core print for failure.
var badWords = []string{"probe failed", "failed with error", "probe with driver", "RmInitAdapter failed",
	"firmware: failed to load", "Direct firmware load", "hardware initialization failed", "BUG:", "Oops", "call trace"}

func unclean(lines []string) []string {
	var out []string
	for _, l := range lines {
		for _, w := range badWords {
			if strings.Contains(strings.ToLower(l), strings.ToLower(w)) {
				out = append(out, l)
				break
			}
		}
	}
	return out
}
