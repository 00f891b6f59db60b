package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fitout/hostops"
)

// annOurs marks, on the Node object, that fitout took the node out of service.
// What is not marked was somebody else's doing and is left as it is.
const annOurs = "fitout.org/entered-maintenance"

// More of Harvester's words: what leaving its maintenance mode removes.
const (
	annDrainForced = "harvesterhci.io/drain-forced"
	taintDrain     = "kubevirt.io/drain"
)

// askAgain is how often a drain looks whether it may go on; leaveLimit how long a
// cluster is waited for whose network has only just come back, or whose server
// starts with this very node, which the run has restarted.
const (
	askAgain   = 2 * time.Second
	leaveLimit = 10 * time.Minute
)

// EnterMaintenance is the action that takes this node out of service by the
// cluster's own means: Harvester's maintenance mode, elsewhere cordon and
// drain. Undo puts back only what it itself did.
type EnterMaintenance struct {
	Cluster, Node string // as [Check] says
	// DrainLimit is how long moving the workloads may take.
	DrainLimit time.Duration
	// Workloads, for the plan's text.
	Workloads []string
	// WasIn: it was out of service before, or on the way there, by somebody
	// else's doing. Measured by Prepare.
	WasIn bool
}

// Kind implements hostops.Action.
func (*EnterMaintenance) Kind() string { return "enter-maintenance" }

// Describe implements hostops.Action.
func (e *EnterMaintenance) Describe() hostops.Description {
	d := hostops.Description{Title: "take " + e.Node + " out of service", Limit: e.DrainLimit + leaveLimit, Estimate: time.Minute}
	if e.Cluster == "harvester" {
		d.Text = []string{"annotate node " + e.Node + ": " + annDrain + "=true, " + annOurs + "=true", "wait until " + annMaintain + " is completed"}
		d.Undo = []string{"leave Harvester's maintenance mode, if this step entered it"}
		return d
	}
	d.Text = []string{"cordon " + e.Node + " (spec.unschedulable=true, annotation " + annOurs + "=true)"}
	for _, w := range e.Workloads {
		d.Text = append(d.Text, "evict "+w+" (its emptyDir data is lost)")
	}
	d.Undo = []string{"uncordon " + e.Node + ", if this step cordoned it; evicted pods stay where they went"}
	return d
}

// Prepare implements hostops.Action.
func (e *EnterMaintenance) Prepare(ctx context.Context, n *hostops.Node) error {
	a, err := adminAPI(n)
	if err != nil {
		return err
	}
	o, err := a.node(ctx, e.Node)
	if err != nil {
		return err
	}
	entering, _ := o.harvesterMarks()
	e.WasIn = e.in(o) || e.Cluster == "harvester" && entering
	pods, err := a.movable(ctx, e.Node)
	if err != nil || e.Cluster == "harvester" {
		return err
	}
	for _, p := range pods {
		if len(p.Metadata.OwnerReferences) == 0 {
			return fmt.Errorf("draining %s: pod %s belongs to no controller and would be lost; delete or move it first", e.Node, p.title())
		}
	}
	return nil
}

// in says that the node is out of service, workloads aside.
func (e *EnterMaintenance) in(o *nodeObject) bool {
	if e.Cluster != "harvester" {
		return o.Spec.Unschedulable
	}
	entering, completed := o.harvesterMarks()
	return completed && !entering && o.Spec.Unschedulable
}

// Done implements hostops.Action.
func (e *EnterMaintenance) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	a, err := adminAPI(n)
	if err != nil {
		return false, err
	}
	o, err := a.await(ctx, e.Node)
	if err != nil || !e.in(o) || e.Cluster == "harvester" {
		return err == nil && e.in(o), err
	}
	pods, err := a.movable(ctx, e.Node)
	return err == nil && len(pods) == 0, err
}

// Do implements hostops.Action.
func (e *EnterMaintenance) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	ctx, cancel := context.WithTimeout(ctx, e.DrainLimit)
	defer cancel()
	a, err := adminAPI(n)
	if err != nil {
		return err
	}
	if !e.WasIn {
		// The mark and the change are one request: there is no moment in
		// which a change of ours is not marked.
		change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{annOurs: "true"}}, "spec": map[string]any{"unschedulable": true}}
		if e.Cluster == "harvester" {
			change = map[string]any{"metadata": map[string]any{"annotations": map[string]any{annOurs: "true", annDrain: "true"}}}
		}
		if err := a.patch(ctx, e.Node, change); err != nil {
			return fmt.Errorf("taking %s out of service: %w", e.Node, err)
		}
	}
	if e.Cluster == "harvester" {
		return e.awaitHarvester(ctx, a, out)
	}
	return e.drain(ctx, a, out)
}

func (e *EnterMaintenance) awaitHarvester(ctx context.Context, a *api, out hostops.Sink) error {
	out.Line("waiting for Harvester to move everything off " + e.Node)
	for {
		o, err := a.node(ctx, e.Node)
		if err == nil && e.in(o) {
			return nil
		}
		if werr := pause(ctx); werr != nil {
			return errors.Join(fmt.Errorf("Harvester did not complete maintenance mode of %s in %s", e.Node, e.DrainLimit), err)
		}
	}
}

// drain evicts until nothing is left to move. A disruption budget that says no
// is asked again; what it protects is named when time is up.
func (e *EnterMaintenance) drain(ctx context.Context, a *api, out hostops.Sink) error {
	said := map[string]bool{}
	var left []string // after the last round that was answered in time
	for {
		pods, err := a.movable(ctx, e.Node)
		if err == nil && len(pods) == 0 {
			return nil
		}
		var now []string
		for _, p := range pods {
			var why error
			if p.Metadata.DeletionTimestamp == "" {
				why = a.evict(ctx, p)
			}
			if fatal := (*statusError)(nil); errors.As(why, &fatal) && fatal.code != http.StatusTooManyRequests && fatal.code < 500 {
				return fmt.Errorf("draining %s: evicting %s: %w", e.Node, p.title(), why)
			}
			text := p.title()
			if why != nil {
				text += ": " + why.Error()
			}
			now = append(now, text)
			if !said[text] {
				said[text] = true
				out.Line("evicting " + text)
			}
		}
		if err == nil && ctx.Err() == nil {
			left = now
		}
		if werr := pause(ctx); werr != nil {
			if len(left) == 0 {
				return fmt.Errorf("draining %s: not done in %s: %w", e.Node, e.DrainLimit, cmp.Or(err, werr))
			}
			return fmt.Errorf("draining %s: not done in %s; still there: %s", e.Node, e.DrainLimit, strings.Join(left, "; "))
		}
	}
}

// Undo implements hostops.Action.
func (e *EnterMaintenance) Undo(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	return leave(ctx, n, e.Cluster, e.Node, out)
}

// LeaveMaintenance is the action that puts the node back in service at the end
// of a run, if fitout took it out.
type LeaveMaintenance struct {
	Cluster, Node string
	// Commands are what a person would give.
	Commands []string
}

// ByHand implements hostops.Aftercare: a cluster that does not answer is no
// reason to take a good driver away.
func (l *LeaveMaintenance) ByHand() string {
	commands := l.Commands
	if len(commands) == 0 {
		commands = []string{"kubectl uncordon " + l.Node}
	}
	return "put " + l.Node + " back in service: " + strings.Join(commands, "; ")
}

// Kind implements hostops.Action.
func (*LeaveMaintenance) Kind() string { return "leave-maintenance" }

// Describe implements hostops.Action.
func (l *LeaveMaintenance) Describe() hostops.Description {
	return hostops.Description{Title: "put " + l.Node + " back in service", Limit: leaveLimit + time.Minute,
		Text: []string{"uncordon " + l.Node + " (Harvester: leave maintenance mode), only if the annotation " + annOurs + " says that fitout took it out"}}
}

// Prepare implements hostops.Action.
func (*LeaveMaintenance) Prepare(context.Context, *hostops.Node) error { return nil }

// Done implements hostops.Action.
func (l *LeaveMaintenance) Done(ctx context.Context, n *hostops.Node) (bool, error) {
	a, err := adminAPI(n)
	if err != nil {
		return false, err
	}
	o, err := a.await(ctx, l.Node)
	return err == nil && o.Metadata.Annotations[annOurs] == "", nil
}

// Do implements hostops.Action.
func (l *LeaveMaintenance) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	return leave(ctx, n, l.Cluster, l.Node, out)
}

// Undo implements hostops.Action: a node that is in service stays there.
func (*LeaveMaintenance) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }

// leave puts the node back in service if the mark is ours. It tries again
// while the cluster is not reachable: the run may have swapped its network.
func leave(ctx context.Context, n *hostops.Node, cluster, node string, out hostops.Sink) error {
	a, err := adminAPI(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for {
		err := a.leaveOnce(ctx, cluster, node, out)
		if err == nil || answered(err) {
			return err
		}
		if pause(ctx) != nil {
			return fmt.Errorf("putting %s back in service: %w; by hand: kubectl uncordon %s", node, err, node)
		}
	}
}

func (a *api) leaveOnce(ctx context.Context, cluster, node string, out hostops.Sink) error {
	o, err := a.node(ctx, node)
	if err != nil {
		return err
	}
	if o.Metadata.Annotations[annOurs] == "" {
		out.Line("node " + node + " was not taken out of service by fitout and is left as it is")
		return nil
	}
	annotations, spec := map[string]any{annOurs: nil}, map[string]any{"unschedulable": nil}
	if cluster == "harvester" {
		for _, k := range []string{annMaintain, annDrain, annDrainForced} {
			annotations[k] = nil
		}
		// Taints are replaced as a whole; the version makes a change by
		// somebody else in between a conflict.
		spec["taints"] = slices.DeleteFunc(o.Spec.Taints, func(t taint) bool { return t.Key == taintDrain })
	}
	return a.patch(ctx, node, map[string]any{
		"metadata": map[string]any{"annotations": annotations, "resourceVersion": o.Metadata.ResourceVersion}, "spec": spec})
}

// adminAPI opens the API with credentials that may change nodes.
func adminAPI(n *hostops.Node) (*api, error) {
	d := detect(n)
	if d == nil {
		return nil, errors.New("no Kubernetes is installed here")
	}
	if !n.Exists(d.admin) {
		return nil, fmt.Errorf("this node may not change its own maintenance state (%s is on servers only): do it on another machine", d.admin)
	}
	return openAPI(n, d.admin)
}

func (a *api) node(ctx context.Context, name string) (*nodeObject, error) {
	var o nodeObject
	_, err := a.get(ctx, "/api/v1/nodes/"+url.PathEscape(name), &o)
	return &o, err
}

// answered says that the server has spoken its last word: no later try makes
// it another one.
func answered(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.code != http.StatusConflict && status.code < 500
}

// await reads a node, and waits for a server that cannot be reached yet.
func (a *api) await(ctx context.Context, name string) (*nodeObject, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	for {
		o, err := a.node(ctx, name)
		if err == nil || answered(err) {
			return o, err
		}
		if pause(ctx) != nil {
			return nil, err
		}
	}
}

func (a *api) patch(ctx context.Context, name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = a.send(ctx, http.MethodPatch, "/api/v1/nodes/"+url.PathEscape(name), "application/merge-patch+json", body, nil)
	return err
}

// evict asks for one pod to go; one that is gone already is no error.
func (a *api) evict(ctx context.Context, p pod) error {
	body, err := json.Marshal(map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]string{"name": p.Metadata.Name, "namespace": p.Metadata.Namespace}})
	if err != nil {
		return err
	}
	_, err = a.send(ctx, http.MethodPost, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction",
		url.PathEscape(p.Metadata.Namespace), url.PathEscape(p.Metadata.Name)), "application/json", body, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return err
}

// pause waits a little, or says that time is up.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(askAgain):
		return nil
	}
}

// Kinds are the actions of this package, by kind.
func Kinds() map[string]func() hostops.Action {
	return map[string]func() hostops.Action{
		"enter-maintenance": func() hostops.Action { return &EnterMaintenance{} },
		"leave-maintenance": func() hostops.Action { return &LeaveMaintenance{} },
	}
}
