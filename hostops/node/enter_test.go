package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/node"
)

// change carries out a merge patch of the node, or an eviction, as the API
// server does.
func (c *cluster) change(r *http.Request) (answer any, code int) {
	refuse := func(code int, message string) (any, int) {
		reason := map[int]string{http.StatusConflict: "Conflict", http.StatusTooManyRequests: "TooManyRequests", http.StatusNotFound: "NotFound",
			http.StatusBadRequest: "BadRequest", http.StatusMethodNotAllowed: "MethodNotAllowed"}[code]
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}, code
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	switch {
	case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/"+nodeID && r.Header.Get("Content-Type") == "application/merge-patch+json":
		meta, _ := body["metadata"].(map[string]any)
		if v, ok := meta["resourceVersion"]; ok {
			if v != c.version() {
				return refuse(http.StatusConflict, "the object has been modified")
			}
			delete(meta, "resourceVersion")
		}
		c.node = merge(normal(c.node), body)
		c.bump()
		if c.onPatch != nil {
			c.onPatch()
		}
		return c.node, http.StatusOK
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction"):
		name := strings.Split(r.URL.Path, "/")[6]
		if body["kind"] != "Eviction" || body["apiVersion"] != "policy/v1" {
			return refuse(http.StatusBadRequest, "not an Eviction")
		}
		if c.budget[name] {
			return refuse(http.StatusTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.")
		}
		i := slices.IndexFunc(c.pods, func(p map[string]any) bool { return p["metadata"].(map[string]any)["name"] == name })
		if i < 0 {
			return refuse(http.StatusNotFound, "no such pod")
		}
		c.pods = slices.Delete(c.pods, i, i+1)
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, http.StatusCreated
	}
	return refuse(http.StatusMethodNotAllowed, "not in this stand-in")
}

// merge is RFC 7396.
func merge(target, patch map[string]any) map[string]any {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(target, k)
		case map[string]any:
			t, ok := target[k].(map[string]any)
			if !ok {
				t = map[string]any{}
			}
			target[k] = merge(t, v)
		default:
			target[k] = v
		}
	}
	return target
}

// normal turns a literal into what JSON makes of it.
func normal(m map[string]any) map[string]any {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func (c *cluster) version() any {
	return normal(c.node)["metadata"].(map[string]any)["resourceVersion"]
}
func (c *cluster) bump() {
	c.node["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(time.Now().UnixNano())
}

// seen is the part of the node that maintenance is about.
func (c *cluster) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := normal(c.node)
	meta, spec := n["metadata"].(map[string]any), n["spec"].(map[string]any)
	if spec["taints"] == nil {
		spec["taints"] = []any{}
	}
	return fmt.Sprint(meta["annotations"], spec)
}

// harvesterController moves the node into maintenance, as Harvester's does,
// when it is asked to.
func (c *cluster) harvesterController() {
	meta := c.node["metadata"].(map[string]any)
	a := meta["annotations"].(map[string]any)
	if a[drain] == "true" {
		delete(a, drain)
		a[maintain] = "completed"
		c.node["spec"].(map[string]any)["unschedulable"] = true
		c.node["spec"].(map[string]any)["taints"] = []any{
			map[string]any{"key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule"},
			map[string]any{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}}
	}
}

type lines []string

func (l *lines) Line(s string)         { *l = append(*l, s) }
func (l *lines) Progress(int64, int64) {}

func enterOf(cluster string) *node.EnterMaintenance {
	return &node.EnterMaintenance{Cluster: cluster, Node: nodeID, DrainLimit: 3 * time.Second}
}

func TestEnteringMaintenanceCordonsAndDrainsAndLeavingPutsItBack(t *testing.T) {
	t.Parallel()
	for _, leave := range []string{"undo", "leave"} {
		t.Run(leave, func(t *testing.T) {
			c := newCluster(t)
			c.writable = true
			before := c.seen()
			c.pod("web", "ReplicaSet", nil)
			c.pod("cni", "DaemonSet", nil)
			n := c.nodeOf("rke2", true)
			require.True(t, node.Check(context.Background(), n).MayEnter)
			e := enterOf("rke2")
			out := carryOut(t, n, e)
			require.Equal(t, lines{"evicting default/web"}, out)
			require.Equal(t, node.InMaintenance, node.Check(context.Background(), n).State)

			if leave == "undo" {
				require.NoError(t, again(t, e).Undo(context.Background(), n, &out))
			} else {
				carryOut(t, n, &node.LeaveMaintenance{Cluster: "rke2", Node: nodeID})
			}
			require.Equal(t, before, c.seen())
			require.NoError(t, e.Undo(context.Background(), n, &out), "twice is as once")
		})
	}
}

// again is the action as another process reads it back from the journal.
func again(t *testing.T, a hostops.Action) hostops.Action {
	data, err := json.Marshal(a)
	require.NoError(t, err)
	b := node.Kinds()[a.Kind()]()
	require.NoError(t, json.Unmarshal(data, b))
	require.Equal(t, a, b)
	return b
}

func carryOut(t *testing.T, n *hostops.Node, a hostops.Action) lines {
	ctx := context.Background()
	var out lines
	done, err := a.Done(ctx, n)
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, a.Prepare(ctx, n))
	require.NoError(t, a.Do(ctx, n, &out))
	done, err = a.Done(ctx, n)
	require.NoError(t, err)
	require.True(t, done)
	return out
}

// Cordoned by an administrator before is cordoned after: on success, on
// failure, and on undo.
func TestNodeThatAnAdministratorCordonedStaysCordoned(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	c.cordon()
	c.pod("web", "ReplicaSet", nil)
	n := c.nodeOf("rke2", true)
	before := c.seen()
	e := enterOf("rke2")
	out := carryOut(t, n, e)
	require.Equal(t, before, c.seen(), "not even a mark")
	require.NoError(t, e.Undo(context.Background(), n, &out))
	require.Equal(t, before, c.seen())
	l := &node.LeaveMaintenance{Cluster: "rke2", Node: nodeID}
	done, err := l.Done(context.Background(), n)
	require.NoError(t, err)
	require.True(t, done, "there is nothing of ours to leave")
	require.NoError(t, l.Do(context.Background(), n, &out))
	require.Equal(t, before, c.seen())
}

func TestDisruptionBudgetThatSaysNoIsNamedAndTheCordonUndone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	c.budget = map[string]bool{"db-0": true}
	c.pod("db-0", "StatefulSet", nil)
	before := c.seen()
	n := c.nodeOf("rke2", true)
	e := enterOf("rke2")
	require.NoError(t, e.Prepare(context.Background(), n))
	var out lines
	err := e.Do(context.Background(), n, &out)
	require.ErrorContains(t, err, "default/db-0")
	require.ErrorContains(t, err, "disruption budget")
	require.Len(t, out, 1, "said once, not every two seconds")
	require.NoError(t, e.Undo(context.Background(), n, &out))
	require.Equal(t, before, c.seen())
}

func TestPodWithoutAControllerIsNotDeleted(t *testing.T) {
	c := newCluster(t)
	c.writable = true
	c.pod("by-hand", "", nil)
	before := c.seen()
	err := enterOf("rke2").Prepare(context.Background(), c.nodeOf("rke2", true))
	require.ErrorContains(t, err, "default/by-hand belongs to no controller")
	require.Equal(t, before, c.seen())
}

func TestHarvestersOwnMaintenanceModeIsEnteredAndLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	before := c.seen()
	c.onPatch = c.harvesterController
	n := c.nodeOf("harvester", true)
	e := enterOf("harvester")
	carryOut(t, n, e)
	require.Equal(t, node.InMaintenance, node.Check(context.Background(), n).State)
	carryOut(t, n, &node.LeaveMaintenance{Cluster: "harvester", Node: nodeID})
	require.Equal(t, strings.Replace(before, "taints:[]", "taints:[map[effect:NoSchedule key:node.kubernetes.io/unschedulable]]", 1), c.seen(),
		"the scheduler's own taint is not ours to remove")
}

func TestHarvesterThatIsMovedByAnAdministratorIsWaitedForAndNotLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	c.annotate(drain, "true")
	n := c.nodeOf("harvester", true)
	e := enterOf("harvester")
	require.NoError(t, e.Prepare(context.Background(), n))
	go func() {
		time.Sleep(500 * time.Millisecond)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.node = normal(c.node)
		c.harvesterController()
	}()
	var out lines
	require.NoError(t, e.Do(context.Background(), n, &out))
	in := c.seen()
	require.NoError(t, e.Undo(context.Background(), n, &out))
	require.Equal(t, in, c.seen())
}

func TestAgentMayNotEnterMaintenanceItself(t *testing.T) {
	c := newCluster(t)
	n := c.nodeOf("rke2", false)
	require.False(t, node.Check(context.Background(), n).MayEnter)
	require.ErrorContains(t, enterOf("rke2").Prepare(context.Background(), n), "on servers only")
}

// The cluster goes away in the middle of the drain and comes back while undo
// tries: the node is schedulable again.
func TestClusterGoneHalfWayIsWaitedForByUndo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	c.budget = map[string]bool{"db-0": true}
	c.pod("db-0", "StatefulSet", nil)
	before := c.seen()
	n := c.nodeOf("rke2", true)
	e := enterOf("rke2")
	require.NoError(t, e.Prepare(context.Background(), n))
	c.onPatch = func() { c.broken.Store(true) }
	var out lines
	require.ErrorContains(t, e.Do(context.Background(), n, &out), "503")
	c.onPatch = nil
	time.AfterFunc(time.Second, func() { c.broken.Store(false) })
	require.NoError(t, again(t, e).Undo(context.Background(), n, &out))
	require.Equal(t, before, c.seen())
}

// After a restart of the node its own API server is up later than the run.
func TestServerThatStartsWithTheNodeIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	n := c.nodeOf("rke2", true)
	carryOut(t, n, enterOf("rke2"))
	c.broken.Store(true)
	time.AfterFunc(time.Second, func() { c.broken.Store(false) })
	done, err := enterOf("rke2").Done(context.Background(), n)
	require.NoError(t, err)
	require.True(t, done)
	c.broken.Store(true)
	time.AfterFunc(time.Second, func() { c.broken.Store(false) })
	carryOut(t, n, &node.LeaveMaintenance{Cluster: "rke2", Node: nodeID})
}

func TestEnteringIsDescribedWithEveryPodAndItsUndo(t *testing.T) {
	e := enterOf("rke2")
	e.Workloads = []string{"default/web"}
	text := strings.Join(e.Describe().Text, "\n")
	require.Contains(t, text, "cordon "+nodeID)
	require.Contains(t, text, "evict default/web (its emptyDir data is lost)")
	require.Contains(t, e.Describe().Undo[0], "if this step cordoned it")
	require.Contains(t, strings.Join(enterOf("harvester").Describe().Text, "\n"), drain+"=true")
}
