package node

import (
	"fmt"
	"slices"
	"strings"

	"fitout/hostops"
)

// vital are the places a node lives on, and what kind of lifeline each is. Of
// places that lie on one mount the first one names it.
var vital = []struct{ path, kind string }{
	{"/", "root-disk"},
	{"/usr", "root-disk"},
	{"/etc", "root-disk"},
	{"/sysroot", "root-disk"},                        // ostree
	{"/run/initramfs/live", "root-disk"},             // live systems: what the overlay lies on
	{"/run/rootfsbase", "root-disk"},                 // dracut dmsquash-live
	{"/run/initramfs/cos-state", "state-disk"},       // Elemental, toolkit v1
	{"/run/initramfs/elemental-state", "state-disk"}, // toolkit v1, later
	{"/run/cos/state", "state-disk"},                 // toolkit v1, passive boot
	{"/run/elemental", "state-disk"},                 // toolkit v2
	{"/boot", "boot-disk"}, {"/boot/efi", "boot-disk"}, {"/efi", "boot-disk"},
	{"/oem", "state-disk"}, {"/usr/local", "state-disk"}, // Elemental
	{"/var", "state-disk"}, {"/var/lib", "state-disk"}, {"/var/lib/fitout", "state-disk"},
	{"/var/lib/rancher", "state-disk"}, {"/var/lib/kubelet", "state-disk"}, {"/var/lib/etcd", "state-disk"},
}

// Lifelines says what the node, and the session this process runs in, live on:
// one entry for each PCI function that is under a vital file system or swap,
// or on the way to a peer. Bridges on the way are listed, too. peers are
// machines the run needs besides (the registry). Read-only.
func Lifelines(n *hostops.Node, peers ...Peer) ([]Lifeline, error) {
	w, err := newWalker(n)
	if err != nil {
		return nil, fmt.Errorf("finding out what the node lives on: %w", err)
	}
	var out []Lifeline
	seen := map[mount]bool{}
	for _, v := range vital {
		m, ok := covering(w.mounts, v.path)
		if !ok || seen[m] || m.point != v.path && !n.Exists(v.path) {
			continue
		}
		seen[m] = true
		out = add(out, v.kind, m.point, w.mount(m, 0))
	}
	for _, s := range swaps(n) {
		ends := w.file(s, 0)
		if strings.HasPrefix(s, "/dev/") {
			ends = nil
			if dir := blockByName(n, s); dir != "" {
				ends = w.block(dir, 0)
			}
		}
		out = add(out, "swap", "swap "+s, ends)
	}
	out = add(out, "default-route", "the default route", w.defaultRoutes())
	if !n.Simulated() {
		peers = append(Session(n), peers...)
	}
	for _, p := range peers {
		what := "the session with " + p.IP.String()
		if p.Kind == "registry" {
			what = "the way to the registry " + p.IP.String()
		}
		out = add(out, p.Kind, what, w.host(p.IP.String()))
	}
	return out, nil
}

// add appends one lifeline an address, once for each kind.
func add(out []Lifeline, kind, what string, ends []end) []Lifeline {
	for _, e := range ends {
		known := slices.ContainsFunc(out, func(l Lifeline) bool { return l.Kind == kind && l.Address == e.address })
		if !known {
			out = append(out, Lifeline{Kind: kind, Path: what + " on " + e.path, Address: e.address})
		}
	}
	return out
}
