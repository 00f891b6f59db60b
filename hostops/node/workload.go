package node

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// podsUnknown begins the evidence that the node's pods could not be listed.
const podsUnknown = "the pods on this node could not be listed"

// pod is the part of a Pod that tells whether draining would move it.
type pod struct {
	Metadata struct {
		Name, Namespace     string
		DeletionTimestamp   string
		Annotations, Labels map[string]string
		OwnerReferences     []struct{ Kind, Name string }
	} `json:"metadata"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// findWorkloads lists the pods that draining would have moved away.
func (m *Maintenance) findWorkloads(ctx context.Context, a *api) {
	pods, err := a.movable(ctx, m.Node)
	if err != nil {
		m.Evidence = append(m.Evidence, podsUnknown+": "+err.Error())
	}
	for _, p := range pods {
		m.Workloads = append(m.Workloads, p.title())
	}
}

// movable lists the pods on a node that draining moves away: not those of
// daemon sets, not the kubelet's own (static) ones, not ended ones. The
// kubelet's credentials may list the pods of its node.
func (a *api) movable(ctx context.Context, node string) ([]pod, error) {
	var list struct {
		Items []pod `json:"items"`
	}
	if _, err := a.get(ctx, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+node), &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p pod) bool {
		return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" ||
			p.Metadata.Annotations["kubernetes.io/config.mirror"] != "" || p.ownedBy("DaemonSet") || p.ownedBy("Node")
	}), nil
}

func (p pod) ownedBy(kind string) bool {
	return slices.ContainsFunc(p.Metadata.OwnerReferences, func(o struct{ Kind, Name string }) bool { return o.Kind == kind })
}

func (p pod) title() string {
	if vm := p.Metadata.Labels["vm.kubevirt.io/name"]; vm != "" {
		return p.Metadata.Namespace + vmMark + vm
	}
	return p.Metadata.Namespace + "/" + p.Metadata.Name
}

const vmMark = "/vm "

func isVM(workload string) bool { return strings.Contains(workload, vmMark) }

// commands fills in what a person would type to enter and leave maintenance.
func (m *Maintenance) commands(n *hostops.Node, d *distribution) {
	name := m.Node
	if name == "" {
		name = "NODE"
	}
	k := d.kubectl + " --kubeconfig " + d.admin
	if !n.Exists(d.admin) {
		k = "kubectl" // on a machine that may change nodes: this one may not
	}
	if m.Cluster == "harvester" {
		m.Enter = []string{
			"Harvester: Hosts > " + name + " > Enable Maintenance Mode, or",
			fmt.Sprintf("%s annotate node %s %s=true", k, name, annDrain),
		}
		m.Leave = []string{"Harvester: Hosts > " + name + " > Disable Maintenance Mode (a node left cordoned blocks Harvester upgrades)"}
		return
	}
	m.Enter = []string{
		fmt.Sprintf("%s cordon %s", k, name),
		fmt.Sprintf("%s drain %s --ignore-daemonsets --delete-emptydir-data", k, name),
	}
	m.Leave = []string{fmt.Sprintf("%s uncordon %s", k, name)}
}

// download is where a Harvester upgrade puts the new system; what is older than
// downloadAge was left behind by one that ended (they take under two hours a
// node).
const (
	download    = "/usr/local/upgrade_tmp"
	downloadAge = 3 * time.Hour
)

// upgradeHere looks for an operating system upgrade on this node: Elemental's
// lock, its process, Harvester's download directory in use.
func upgradeHere(n *hostops.Node) []string {
	var out []string
	const lock = "/run/elemental/upgrade.lock"
	if holder := lockHolder(n, lock); holder != "" {
		out = append(out, lock+" is held by "+holder)
	}
	for _, name := range names(n, download) {
		st, err := n.Stat(path.Join(download, name))
		if err == nil && n.Now().Sub(st.ModTime()) < downloadAge {
			out = append(out, fmt.Sprintf("%s/%s was written at %s", download, name, st.ModTime().Format("15:04")))
		}
	}
	for _, name := range names(n, "/proc") {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		data, err := n.ReadFile("/proc/" + name + "/cmdline")
		if err != nil {
			continue
		}
		argv := strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
		if path.Base(argv[0]) == "elemental" && slices.ContainsFunc(argv[1:], func(a string) bool { return a == "upgrade" || a == "upgrade-recovery" }) {
			out = append(out, "pid "+name+" is "+strings.Join(argv, " "))
		}
	}
	return out
}

// lockHolder says who holds a lock on a file, by /proc/locks: trying to take it
// could make its owner's own try fail. "" for nobody.
func lockHolder(n *hostops.Node, file string) string {
	var st unix.Stat_t
	if err := unix.Stat(n.Path(file), &st); err != nil {
		return ""
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	text, _ := n.ReadString("/proc/locks")
	for line := range strings.SplitSeq(text, "\n") {
		// 1: FLOCK  ADVISORY  WRITE 812 fd:00:1234 0 EOF
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] != "->" && f[5] == want {
			return "pid " + f[4]
		}
	}
	return ""
}
