package workflow

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"

	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/hostops/node"
	"fitout/hostops/pci"
	"fitout/workflow/finding"
	"fitout/workflow/run"
)

// Survey looks at the node: devices, kernels, host, maintenance. It changes
// nothing and needs no network but the node's own Kubernetes API.
func (e *Engine) Survey(ctx context.Context) (*Survey, error) {
	s, err := e.Hardware(ctx)
	if err != nil {
		return nil, err
	}
	s.Maintenance = node.Check(ctx, e.Node)
	return s, nil
}

// Hardware is the part of a survey that only reads local files.
func (e *Engine) Hardware(ctx context.Context) (*Survey, error) {
	devices, err := pci.Scan(e.Node)
	if err != nil {
		return nil, err
	}
	_ = pci.AddNames(e.Node, devices) // names are a nicety
	family := host.Detect(e.Node)
	s := &Survey{
		NodeName:    e.nodeName(),
		Host:        family.Facts(),
		CatalogDate: e.Catalog.Date,
		SecureBoot:  kmod.ReadPolicy(e.Node).SecureBoot,
		Simulated:   e.Node.Simulated(),
	}
	if s.Kernels, err = family.Kernels(ctx); err != nil {
		return nil, fmt.Errorf("listing the kernels that may boot: %w", err)
	}
	look := e.newLook(s)
	for _, d := range devices {
		s.Devices = append(s.Devices, look.device(d))
	}
	s.Kinds, s.Rest = kinds(s.Devices)
	return s, nil
}

// Users says who holds a device or its driver's module. The error says what could
// not be looked at; the list is then what could.
func (e *Engine) Users(d Device) ([]node.Use, error) {
	var modules []string
	if d.Module != "" {
		modules = []string{d.Module}
	}
	return node.Users(e.Node, d.Address, modules)
}

func (e *Engine) nodeName() string {
	if name, err := e.Node.ReadString("/proc/sys/kernel/hostname"); err == nil && name != "" {
		return name
	}
	if name, err := e.Node.ReadString("/etc/hostname"); err == nil && name != "" {
		return name
	}
	if name, err := os.Hostname(); err == nil && !e.Node.Simulated() {
		return name
	}
	return "node"
}

// StateDir is where this node keeps fitout's state.
func (e *Engine) StateDir() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stateDir == "" {
		e.stateDir = host.Detect(e.Node).Facts().StateDir
	}
	return e.stateDir
}

// RunDir is the directory of a run, on this machine's file system.
func (e *Engine) RunDir(id string) string {
	return e.Node.Path(path.Join(e.StateDir(), "runs", id))
}

// Current is the id of the run in progress, "" for none.
func (e *Engine) Current() string { return run.Current(e.Node) }

// stateOrder sorts kinds: what needs a person first.
var stateOrder = []finding.State{
	finding.StateFailed, finding.StateNeedsDriver, finding.StateWrongDriver, finding.StateUpdate,
	finding.StateNoImage, finding.StateOK, finding.StatePassedThrough,
	finding.StateVirtualFunction, finding.StateNotNeeded,
}

func rank(s finding.State) int { return slices.Index(stateOrder, s) }

// kinds groups equal devices: those to fit out, worst state first, and the rest.
// Virtual functions are served through their parent's kind, and functions that
// need no driver not at all.
func kinds(devices []Device) (serve, rest []Kind) {
	var out []Kind
	at := map[string]int{}
	for i, d := range devices {
		key := d.ID() + " " + d.SubsystemID()
		if !served(d.State) {
			key += " " + string(d.State)
		}
		k, ok := at[key]
		if !ok {
			k = len(out)
			at[key] = k
			out = append(out, Kind{ID: d.ID(), Subsystem: d.SubsystemID(), Class: d.ClassCode[:min(4, len(d.ClassCode))],
				Name: displayName(d.Device), Driver: d.Driver, State: d.State})
		}
		out[k].Devices = append(out[k].Devices, i)
		if rank(d.State) < rank(out[k].State) {
			out[k].State, out[k].Driver = d.State, d.Driver
		}
	}
	slices.SortStableFunc(out, func(a, b Kind) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	for _, k := range out {
		if served(k.State) {
			serve = append(serve, k)
		} else {
			rest = append(rest, k)
		}
	}
	return serve, rest
}

// served says that a device in this state is there to be fitted out.
func served(s finding.State) bool {
	return s != finding.StateVirtualFunction && s != finding.StateNotNeeded
}

func displayName(d pci.Device) string {
	switch {
	case d.Name != "" && d.VendorName != "":
		return shortVendor(d.VendorName) + " " + d.Name
	case d.Name != "":
		return d.Name
	case d.VendorName != "":
		return shortVendor(d.VendorName) + " device " + d.DeviceID
	case d.ClassName != "":
		return fmt.Sprintf("%s (%s)", d.ID(), d.ClassName)
	}
	return fmt.Sprintf("%s (class %s)", d.ID(), d.ClassCode)
}
