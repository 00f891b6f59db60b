package workflow

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/node"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
)

// lifelines looks at what hangs on the devices of modules that would go: what
// the node lives on blocks; the session's network, the registry and other users
// are risks.
func (b *builder) lifelines(names []string) error {
	lines, err := node.Lifelines(b.e.Node, append(node.Session(b.e.Node), b.registries()...)...)
	if err != nil {
		return stopf(ExitForbidden, "lifeline", "", "cannot tell what the node lives on: %v", err)
	}
	for _, d := range b.s.Devices {
		if !slices.Contains(names, module.Normalize(d.Module)) && !slices.Contains(names, module.Normalize(d.Driver)) {
			continue
		}
		for _, l := range lines {
			if l.Address != d.Address {
				continue
			}
			f := finding.New("lifeline", d.Address, d.Driver, l.Path)
			if l.Kind == "session-network" || l.Kind == "default-route" || l.Kind == "registry" {
				f = finding.New("session-network", d.Address, d.Driver, l.Path)
			}
			b.note([]finding.Finding{f}, true)
		}
		b.users(d, names)
	}
	return nil
}

// users names who holds a device or its modules.
func (b *builder) users(d Device, names []string) {
	uses, err := node.Users(b.e.Node, d.Address, names)
	if err != nil {
		b.plan.Findings = append(b.plan.Findings, finding.New("in-use", d.Address, "perhaps more: "+err.Error()).As(finding.Note))
	}
	for _, u := range uses {
		f := finding.New("in-use", d.Address, u.Text)
		if pids := u.Processes(); pids != "" {
			f = f.With(pids)
		}
		if u.Kind == "vfio" {
			// The kernel waits until whoever holds the group lets go: accepting
			// that would hang the run.
			f = f.As(finding.Block)
		}
		b.note([]finding.Finding{f}, true)
	}
}

// registries are the machines that the images come from.
func (b *builder) registries() []node.Peer {
	var out []node.Peer
	for _, s := range b.plan.Steps {
		f, ok := s.Action.(interface{ Source() string })
		if !ok {
			continue
		}
		ref, err := image.ParseReference(f.Source())
		if err != nil || ref.Host() == "" {
			continue
		}
		host, _, err := net.SplitHostPort(ref.Host())
		if err != nil {
			host = ref.Host()
		}
		for _, ip := range b.addresses(host) {
			out = append(out, node.Peer{Kind: "registry", IP: ip})
		}
	}
	return out
}

// addresses of a host name, asked for no longer than a second: it was reached a
// moment ago.
func (b *builder) addresses(host string) []netip.Addr {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}
	}
	if b.e.Node.Simulated() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	return ips
}

// drainLimit is how long moving workloads away may take.
const drainLimit = 15 * time.Minute

// maintenance weighs whether the node may be touched now, by what the answers
// say: required (a risk must be accepted where it is in service), enter (the
// plan takes it out of service first and puts it back last), skip.
func (b *builder) maintenance() {
	m := b.s.Maintenance
	switch m.State {
	case "in-maintenance", "not-a-cluster-node":
		return
	case "upgrading":
		b.note([]finding.Finding{finding.New("upgrade-running", m.Why)}, true)
		return
	case "cordoned":
		if m.Cluster != "harvester" && len(m.Workloads) == 0 {
			return
		}
	}
	if b.a.Maintenance == "enter" && m.MayEnter && m.CannotEnter == "" {
		enter := plan.Step{ID: "enter", Action: &node.EnterMaintenance{Cluster: m.Cluster, Node: m.Node, DrainLimit: drainLimit, Workloads: m.Workloads}}
		b.plan.Steps = append([]plan.Step{enter}, b.plan.Steps...)
		b.add("leave", &node.LeaveMaintenance{Cluster: m.Cluster, Node: m.Node, Commands: m.Leave})
		return
	}
	f := finding.New("not-in-maintenance", m.Why).With(m.Evidence...)
	if m.CannotEnter != "" {
		f = f.With(m.CannotEnter)
	}
	for _, w := range m.Workloads {
		f = f.With("still running here: " + w)
	}
	for _, command := range m.Enter {
		f = f.With("to enter it: " + command)
	}
	b.note([]finding.Finding{f}, true)
}
