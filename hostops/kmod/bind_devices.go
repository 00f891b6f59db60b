package kmod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
)

const (
	pciDevices = "/sys/bus/pci/devices/"
	pciDrivers = "/sys/bus/pci/drivers/"
	pciProbe   = "/sys/bus/pci/drivers_probe"
)

// bindLimit is how long a driver may take to answer for a device: probes run
// in the background and wait for firmware and links.
const bindLimit = 30 * time.Second

// BindDevices gives devices to a driver. A device that another driver holds is
// given over with driver_override, and given back when the new one does not
// take it: no device is left without a driver that had one.
type BindDevices struct {
	Addresses []string
	// Driver is the driver's name or its module's.
	Driver string
	// Limit is how long a driver's code may take with one device, 0: 2 minutes.
	Limit time.Duration
	// Before is how each device was bound, of Prepare.
	Before   []Binding
	Prepared bool
}

// Kind implements hostops.Action.
func (*BindDevices) Kind() string { return "bind-devices" }

// Describe implements hostops.Action.
func (a *BindDevices) Describe() hostops.Description {
	d := hostops.Description{
		Title: "bind " + strings.Join(a.Addresses, ", ") + " to " + a.Driver, Estimate: 2 * time.Second,
		Limit: time.Duration(max(1, len(a.Addresses)))*(a.limit()+2*bindLimit) + time.Minute,
	}
	for _, addr := range a.Addresses {
		d.Text = append(d.Text,
			fmt.Sprintf("%s: nothing when %s took it by itself; else", addr, a.Driver),
			fmt.Sprintf("  %s > %s%s/driver_override, unbind it, %s > %s", a.Driver, pciDevices, addr, addr, pciProbe))
		d.Undo = append(d.Undo, "bind "+addr+" to the driver it had, with the driver_override it had")
	}
	return d
}

func (a *BindDevices) limit() time.Duration { return cmp.Or(a.Limit, loadLimit) }

// driversOf are the PCI drivers that a module registered. A module may register
// one of another name (mlx5_core's is the same, i2c_i801's "i801_smbus").
func driversOf(n *hostops.Node, mod string) []string {
	mod = module.Normalize(mod)
	var drivers []string
	entries, _ := n.ReadDir("/sys/module/" + mod + "/drivers")
	for _, e := range entries {
		if drv, ok := strings.CutPrefix(e.Name(), "pci:"); ok {
			drivers = append(drivers, drv)
		}
	}
	for _, dir := range n.Glob(pciDrivers + "*") {
		drv := path.Base(dir)
		if slices.Contains(drivers, drv) {
			continue
		}
		link, err := n.Readlink(dir + "/module")
		if (err == nil && path.Base(link) == mod) || (err != nil && module.Normalize(drv) == mod) {
			drivers = append(drivers, drv)
		}
	}
	return drivers
}

// driverOf is the driver that a PCI function is bound to, "" for none.
func driverOf(n *hostops.Node, addr string) string {
	link, err := n.Readlink(pciDevices + addr + "/driver")
	if err != nil {
		return ""
	}
	return path.Base(link)
}

func overrideOf(n *hostops.Node, addr string) string {
	s, _ := n.ReadString(pciDevices + addr + "/driver_override")
	if s == "(null)" {
		return ""
	}
	return s
}

// boundAs says that a device is bound to the driver, or to one of the module of
// that name.
func boundAs(n *hostops.Node, addr, driver string) bool {
	now := driverOf(n, addr)
	return now != "" && (now == driver || slices.Contains(driversOf(n, driver), now))
}

// Prepare implements hostops.Action.
func (a *BindDevices) Prepare(_ context.Context, n *hostops.Node) error {
	a.Before = nil
	for _, addr := range a.Addresses {
		if !n.Exists(pciDevices + addr) {
			return fmt.Errorf("binding %s to %s: there is no such device", addr, a.Driver)
		}
		a.Before = append(a.Before, Binding{addr, driverOf(n, addr), overrideOf(n, addr)})
	}
	a.Prepared = true
	return nil
}

// Done implements hostops.Action.
func (a *BindDevices) Done(_ context.Context, n *hostops.Node) (bool, error) {
	for _, addr := range a.Addresses {
		if !boundAs(n, addr, a.Driver) {
			return false, nil
		}
	}
	return true, nil
}

// Do implements hostops.Action.
func (a *BindDevices) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	var failed []error
	for i, b := range a.Before {
		out.Progress(int64(i), int64(len(a.Before)))
		err := a.bind(ctx, n, b, out)
		if isStuck(err) {
			return err // what the kernel keeps locked now, the next one would wait for
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (a *BindDevices) bind(ctx context.Context, n *hostops.Node, b Binding, out hostops.Sink) error {
	if waitFor(ctx, n, 2*time.Second, func() bool { return boundAs(n, b.Address, a.Driver) || driverOf(n, b.Address) != "" }) &&
		boundAs(n, b.Address, a.Driver) {
		out.Line(b.Address + " is bound to " + driverOf(n, b.Address))
		return nil
	}
	drivers := driversOf(n, a.Driver)
	if len(drivers) == 0 {
		return fmt.Errorf("binding %s to %s: the loaded module registered no driver for PCI devices", b.Address, a.Driver)
	}
	if err := give(ctx, n, a.limit(), b.Address, drivers[0]); err != nil {
		err = fmt.Errorf("binding %s to %s: %w", b.Address, a.Driver, err)
		if isStuck(err) {
			return err
		}
		return errors.Join(err, rebind(ctx, n, a.limit(), b))
	}
	// The override served its purpose: left behind it would keep other drivers
	// off when this one is unloaded.
	if err := setOverride(n, a.limit(), b.Address, b.Override); isStuck(err) {
		return err
	} else if err != nil {
		out.Line("warning: " + err.Error())
	}
	out.Line(b.Address + " is bound to " + driverOf(n, b.Address))
	return nil
}

// give takes a device from the driver it has and asks for one by name.
func give(ctx context.Context, n *hostops.Node, limit time.Duration, addr, driver string) error {
	if err := setOverride(n, limit, addr, driver); err != nil {
		return err
	}
	if now := driverOf(n, addr); now != "" {
		if err := command(n, limit, pciDrivers+now+"/unbind", addr); err != nil {
			return err
		}
	}
	if err := command(n, limit, pciProbe, addr); err != nil {
		return err
	}
	if !waitFor(ctx, n, bindLimit, func() bool { return driverOf(n, addr) == driver }) {
		return fmt.Errorf("the driver did not take it within %s; the kernel log of the device says why", bindLimit)
	}
	return nil
}

// rebind restores a device's override and driver.
func rebind(ctx context.Context, n *hostops.Node, limit time.Duration, b Binding) error {
	if err := setOverride(n, limit, b.Address, b.Override); err != nil {
		return err
	}
	now := driverOf(n, b.Address)
	if now == b.Driver {
		return nil
	}
	if b.Driver != "" && waitFor(ctx, n, 2*time.Second, func() bool { return driverOf(n, b.Address) == b.Driver }) {
		return nil // it came back by itself
	}
	if now = driverOf(n, b.Address); now != "" {
		if err := command(n, limit, pciDrivers+now+"/unbind", b.Address); err != nil {
			return err
		}
	}
	if b.Driver == "" {
		return nil
	}
	if !n.Exists(pciDrivers + b.Driver) {
		return fmt.Errorf("%s was bound to %s, which is not loaded now", b.Address, b.Driver)
	}
	// Its answer shows in the driver link; an errno here only repeats it.
	bindErr := command(n, limit, pciDrivers+b.Driver+"/bind", b.Address)
	if isStuck(bindErr) {
		return bindErr
	}
	if !waitFor(ctx, n, bindLimit, func() bool { return driverOf(n, b.Address) == b.Driver }) {
		return errors.Join(fmt.Errorf("%s was bound to %s, which did not take it back", b.Address, b.Driver), bindErr)
	}
	return nil
}

// setOverride writes driver_override; a newline alone clears it (kernel,
// drivers/base/driver.c, driver_set_override). Reading it waits for the driver that
// is at work on the device, as writing does.
func setOverride(n *hostops.Node, limit time.Duration, addr, driver string) error {
	file := pciDevices + addr + "/driver_override"
	return away(limit, fmt.Sprintf("writing %q to %s", driver, file), func() error {
		if overrideOf(n, addr) == driver {
			return nil
		}
		return n.WriteKernel(file, cmp.Or(driver, "\n"))
	})
}

// command writes an address to a file of sysfs that has a driver's code run: the
// write comes back when that code does.
func command(n *hostops.Node, limit time.Duration, file, addr string) error {
	return away(limit, fmt.Sprintf("writing %s to %s", addr, file), func() error { return n.WriteKernel(file, addr) })
}

// waitFor asks until it is so, at most for limit; a simulated node answers at
// once or never.
func waitFor(ctx context.Context, n *hostops.Node, limit time.Duration, so func() bool) bool {
	for end := time.Now().Add(limit); ; {
		if so() {
			return true
		}
		if n.Simulated() || time.Now().After(end) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Undo implements hostops.Action.
func (a *BindDevices) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	var failed []error
	for _, b := range a.Before {
		if b.Driver != "" && !n.Exists(pciDrivers+b.Driver) {
			// Undoing the step that unloaded it brings driver and device back.
			if err := setOverride(n, a.limit(), b.Address, b.Override); err != nil {
				failed = append(failed, err)
			}
			out.Line(fmt.Sprintf("%s stays as it is until %s is loaded again", b.Address, b.Driver))
			continue
		}
		err := rebind(ctx, n, a.limit(), b)
		if isStuck(err) {
			return err
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		out.Line(fmt.Sprintf("%s is bound to %s", b.Address, orNone(b.Driver)))
	}
	return errors.Join(failed...)
}

func orNone(driver string) string {
	if driver == "" {
		return "no driver"
	}
	return driver
}
