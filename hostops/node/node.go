// Package node answers whether the node may be touched now: is it in
// maintenance, who uses a device, and which devices the node lives on.
package node

import (
	"fmt"
	"strings"
)

// Maintenance is what is known of the node's maintenance state.
type Maintenance struct {
	// Cluster is "", "harvester", "rke2", "k3s" or "kubelet".
	Cluster string
	// Node is its name in the cluster, "" when unknown.
	Node string
	// State is "not-a-cluster-node", "in-maintenance", "entering",
	// "cordoned", "in-service", "upgrading" or "unknown".
	State string
	// Unschedulable is spec.unschedulable as it was found. Who cordons the node
	// for a run must find it false, and only then may make it schedulable again.
	Unschedulable bool
	// Why is the sentence; Evidence what was measured, one fact a line.
	Why      string
	Evidence []string
	// Workloads still running here that maintenance would have moved away
	// ("namespace/pod"; virtual machines as "namespace/vm NAME").
	Workloads []string
	// CannotEnter says why this node can never enter maintenance by the
	// cluster's own means, "" when it can (or that is unknown).
	CannotEnter string
	// MayEnter: this node holds the credentials to enter and leave maintenance
	// itself (see [EnterMaintenance]); agents do not.
	MayEnter bool
	// Enter and Leave are the commands a person would give.
	Enter, Leave []string
}

// Lifeline is something the node, or the operator's session, lives on.
type Lifeline struct {
	// Kind is "root-disk", "boot-disk", "state-disk", "swap", "session-network",
	// "default-route" or "registry".
	Kind string
	// Path is how it was found ("/ on dm-0 on nvme0n1 on 0000:03:00.0").
	Path string
	// Address is the PCI function at the end of it.
	Address string
}

// Use is one user of a device or module.
type Use struct {
	// Kind is "process", "mount", "netdev-up", "virtual-functions", "vfio",
	// "module" or "unexplained".
	Kind string `json:"kind"`
	// Text names it ("pid 812 qemu-system-x86 has /dev/vfio/31 open", "python x 37
	// have /dev/nvidia0 open"), PIDs are all the processes it stands for.
	Text string `json:"text"`
	PIDs []int  `json:"pids,omitempty"`
}

// Processes lists those that Text only counts, "" for none.
func (u Use) Processes() string {
	if len(u.PIDs) < 2 {
		return ""
	}
	return "pids " + strings.Trim(fmt.Sprint(u.PIDs), "[]")
}
