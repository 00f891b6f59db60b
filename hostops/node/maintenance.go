package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"fitout/hostops"
)

// The states of a node.
const (
	NotAClusterNode = "not-a-cluster-node"
	InMaintenance   = "in-maintenance"
	Entering        = "entering"
	Cordoned        = "cordoned"
	InService       = "in-service"
	Upgrading       = "upgrading"
	Unknown         = "unknown"
)

// apiLimit bounds all questions to the API server together; kubectlLimit does
// where kubectl may have to ask them, a process each.
const (
	apiLimit     = 10 * time.Second
	kubectlLimit = 30 * time.Second
)

// maxAge is how old the kubelet's last report may be. It reports at least
// every 5 minutes (nodeStatusReportFrequency).
const maxAge = 15 * time.Minute

// Harvester's words (harvester pkg/util, controller/master/nodedrain; the
// condition is the coming form, harvester#9022).
const (
	annMaintain   = "harvesterhci.io/maintain-status"
	annDrain      = "harvesterhci.io/drain-requested"
	condMaintain  = "MaintenanceMode"
	labelUpgrade  = "harvesterhci.io/upgradeState"
	upgradesPath  = "/apis/harvesterhci.io/v1beta1/namespaces/harvester-system/upgrades"
	controlPlanes = "/api/v1/nodes?labelSelector=node-role.kubernetes.io%2Fcontrol-plane"
)

// Check finds out the node's maintenance state, in apiLimit at most (kubectlLimit
// where there is a kubectl). It changes
// nothing, neither on the node nor in the cluster: it only ever asks.
func Check(ctx context.Context, n *hostops.Node) Maintenance {
	d := detect(n)
	limit := apiLimit
	if kubectlOf(n, d, "") != nil {
		limit = kubectlLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m := Maintenance{}
	busy := upgradeHere(n)
	if d == nil {
		m.State, m.Why = NotAClusterNode, "no Kubernetes is installed here, so nothing tells whether this node is in service"
		return upgrading(m, busy)
	}
	m.Cluster = d.name
	for _, f := range harvesterFiles {
		if n.Exists(f) {
			m.Cluster = "harvester"
			m.Evidence = append(m.Evidence, f+" is there")
		}
	}
	var err error
	if m.Node, err = nodeName(n, d); err != nil {
		m.Evidence = append(m.Evidence, "the node's name in the cluster is unknown: "+err.Error())
	}
	m.commands(n, d)
	if len(busy) > 0 {
		return upgrading(m, busy)
	}
	m.ask(ctx, n, d)
	return m
}

func upgrading(m Maintenance, busy []string) Maintenance {
	if len(busy) > 0 {
		m.State, m.Why = Upgrading, "an upgrade of this node's operating system is running"
		m.Evidence = append(m.Evidence, busy...)
	}
	return m
}

// ask asks the API server and decides.
func (m *Maintenance) ask(ctx context.Context, n *hostops.Node, d *distribution) {
	if m.Node == "" {
		m.State, m.Why = Unknown, "cannot confirm maintenance mode: the node's name in its cluster is unknown"
		return
	}
	var errs []error
	for _, file := range []string{d.admin, d.kubelet} {
		if !n.Exists(file) {
			continue
		}
		a, err := openAPI(n, file)
		if err == nil {
			a.admin = file == d.admin
			var node nodeObject
			var now time.Time
			if now, err = a.get(ctx, "/api/v1/nodes/"+url.PathEscape(m.Node), &node); err == nil {
				m.decide(ctx, a, &node, now, n.Now())
				m.MayEnter = a.admin && m.CannotEnter == ""
				return
			}
		}
		errs = append(errs, fmt.Errorf("with %s: %w", file, err))
	}
	m.State = Unknown
	if len(errs) == 0 {
		m.Why = "cannot confirm maintenance mode: no kubeconfig is there to ask the cluster with"
		return
	}
	m.Why = "cannot confirm maintenance mode: the cluster could not be asked"
	for _, err := range errs {
		m.Evidence = append(m.Evidence, err.Error())
	}
}

// nodeObject is the part of a Node that decides.
type nodeObject struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool    `json:"unschedulable"`
		Taints        []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

type condition struct {
	Type              string    `json:"type"`
	Status            string    `json:"status"`
	Reason            string    `json:"reason"`
	LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
}

func (o *nodeObject) condition(kind string) *condition {
	i := slices.IndexFunc(o.Status.Conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &o.Status.Conditions[i]
}

// decide applies the decision table.
func (m *Maintenance) decide(ctx context.Context, a *api, o *nodeObject, serverNow, hostNow time.Time) {
	m.Unschedulable = o.Spec.Unschedulable
	m.Evidence = append(m.Evidence, fmt.Sprintf("node %s: unschedulable is %v (asked with %s)", m.Node, o.Spec.Unschedulable, a.file))
	for _, t := range o.Spec.Taints {
		m.Evidence = append(m.Evidence, "taint "+t.Key+"="+t.Value+":"+t.Effect)
	}
	m.findWorkloads(ctx, a)
	if m.Cluster == "harvester" {
		if running := m.clusterUpgrade(ctx, a); running != "" {
			m.State, m.Why = Upgrading, "a Harvester upgrade is running: "+running
			return
		}
		m.countControlPlanes(ctx, a)
		m.harvester(o)
	} else {
		m.plain(o)
	}
	if age, old := stale(o, serverNow, hostNow); old {
		m.Evidence = append(m.Evidence, "by that answer the node would be "+m.State)
		m.State = Unknown
		m.Why = fmt.Sprintf("cannot confirm maintenance mode: the cluster heard from this node %s ago, its answer may be old", age.Round(time.Minute))
	}
}

// stale says how long ago the kubelet reported, by the server's own clock where
// it tells it.
func stale(o *nodeObject, serverNow, hostNow time.Time) (time.Duration, bool) {
	ready := o.condition("Ready")
	if ready == nil || ready.LastHeartbeatTime.IsZero() {
		return 0, false
	}
	now := serverNow
	if now.IsZero() {
		now = hostNow
	}
	age := now.Sub(ready.LastHeartbeatTime)
	return age, age > maxAge
}

// harvester decides by Harvester's own maintenance mode.
func (m *Maintenance) harvester(o *nodeObject) {
	status, requested := o.Metadata.Annotations[annMaintain], o.Metadata.Annotations[annDrain]
	if status != "" {
		m.Evidence = append(m.Evidence, "annotation "+annMaintain+"="+status)
	}
	if requested != "" {
		m.Evidence = append(m.Evidence, "annotation "+annDrain+"="+requested)
	}
	if c := o.condition(condMaintain); c != nil {
		m.Evidence = append(m.Evidence, fmt.Sprintf("condition %s=%s, reason %s", c.Type, c.Status, c.Reason))
	}
	entering, completed := o.harvesterMarks()
	switch {
	case entering:
		m.State, m.Why = Entering, "Harvester is moving this node into maintenance; wait until that is completed"
	case completed && o.Spec.Unschedulable:
		m.State, m.Why = InMaintenance, "Harvester's maintenance mode is completed"
	case completed:
		m.State, m.Why = InService, "Harvester's maintenance mode was completed, but the node was made schedulable since"
	case o.Spec.Unschedulable:
		m.State, m.Why = Cordoned, "the node is cordoned, but not in Harvester's maintenance mode"
	default:
		m.State, m.Why = InService, "the node is in service"
	}
	if m.State == InMaintenance && slices.ContainsFunc(m.Workloads, isVM) {
		m.Why += ", but virtual machines still run here"
	}
}

// plain decides where cordoning and draining is all there is.
func (m *Maintenance) plain(o *nodeObject) {
	unlisted := slices.ContainsFunc(m.Evidence, func(e string) bool { return strings.HasPrefix(e, podsUnknown) })
	switch {
	case !o.Spec.Unschedulable:
		m.State, m.Why = InService, "the node is in service"
	case len(m.Workloads) == 0 && !unlisted:
		m.State, m.Why = InMaintenance, "the node is cordoned and drained"
	case unlisted:
		m.State, m.Why = Cordoned, "the node is cordoned; whether it is drained could not be seen"
	default:
		m.State, m.Why = Cordoned, fmt.Sprintf("the node is cordoned, but not drained: %d pods still run here", len(m.Workloads))
	}
}

// harvesterMarks reads Harvester's marks, in the form of today (annotations) and
// the coming one (a condition).
func (o *nodeObject) harvesterMarks() (entering, completed bool) {
	status := o.Metadata.Annotations[annMaintain]
	completed = status == "completed"
	entering = status != "" && !completed || o.Metadata.Annotations[annDrain] != ""
	if c := o.condition(condMaintain); c != nil && c.Status == "True" {
		completed = completed || c.Reason == "Completed"
		entering = entering || c.Reason != "Completed"
	}
	return entering, completed
}

// countControlPlanes finds out whether Harvester would let this node into
// maintenance at all (drainhelper: not in a cluster with one control plane).
func (m *Maintenance) countControlPlanes(ctx context.Context, a *api) {
	var list struct {
		Items []nodeObject `json:"items"`
	}
	if _, err := a.get(ctx, controlPlanes, &list); err != nil {
		return // a kubelet may not list nodes
	}
	mine := slices.ContainsFunc(list.Items, func(o nodeObject) bool { return o.Metadata.Name == m.Node })
	if mine && len(list.Items) == 1 {
		m.CannotEnter = "this is the only control-plane node of its cluster, and Harvester lets no such node into maintenance"
	}
}

// clusterUpgrade names a Harvester upgrade that is running, "" for none.
func (m *Maintenance) clusterUpgrade(ctx context.Context, a *api) string {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string            `json:"name"`
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"items"`
	}
	_, err := a.get(ctx, upgradesPath, &list)
	var status *statusError
	if errors.As(err, &status) && status.code == 404 {
		return ""
	}
	if err != nil {
		m.Evidence = append(m.Evidence, "whether a cluster upgrade is running could not be seen: "+err.Error())
		return ""
	}
	for _, u := range list.Items {
		state := u.Metadata.Labels[labelUpgrade]
		if state != "Succeeded" && state != "Failed" {
			return strings.TrimSuffix(u.Metadata.Name+" is "+state, " is ")
		}
	}
	return ""
}
