package node_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/node"
)

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

const (
	maintain = "harvesterhci.io/maintain-status"
	drain    = "harvesterhci.io/drain-requested"
)

// The decision table.
func TestMaintenanceIsDecidedByTheHostsOwnMark(t *testing.T) {
	tests := []struct {
		name      string
		cluster   string // "harvester" is rke2 with Harvester's file
		agent     bool
		set       func(*cluster)
		want, why string
	}{
		{"in service", "harvester", false, func(c *cluster) {}, node.InService, "in service"},
		{"annotation completed", "harvester", false, func(c *cluster) { c.cordon(); c.annotate(maintain, "completed") }, node.InMaintenance, "completed"},
		{"the same seen by an agent", "harvester", true, func(c *cluster) { c.cordon(); c.annotate(maintain, "completed") }, node.InMaintenance, "completed"},
		{"coming condition completed", "harvester", false, func(c *cluster) { c.cordon(); c.condition("MaintenanceMode", "True", "Completed") }, node.InMaintenance, "completed"},
		{"coming condition running", "harvester", false, func(c *cluster) { c.cordon(); c.condition("MaintenanceMode", "True", "Draining") }, node.Entering, "wait"},
		{"coming condition false", "harvester", false, func(c *cluster) { c.condition("MaintenanceMode", "False", "Completed") }, node.InService, "in service"},
		{"annotation running", "harvester", false, func(c *cluster) { c.cordon(); c.annotate(maintain, "running") }, node.Entering, "wait"},
		{"drain requested", "harvester", false, func(c *cluster) { c.annotate(drain, "true") }, node.Entering, "wait"},
		{"completed but schedulable again", "harvester", false, func(c *cluster) { c.annotate(maintain, "completed") }, node.InService, "schedulable since"},
		{"cordoned only", "harvester", false, func(c *cluster) { c.cordon() }, node.Cordoned, "not in Harvester's maintenance"},
		{"a cluster upgrade runs", "harvester", false, func(c *cluster) {
			c.cordon()
			c.annotate(maintain, "completed")
			c.upgrades["hvst-upgrade-bcq9d"] = "UpgradingNodes"
		}, node.Upgrading, "hvst-upgrade-bcq9d is UpgradingNodes"},
		{"an upgrade that ended", "harvester", false, func(c *cluster) {
			c.cordon()
			c.annotate(maintain, "completed")
			c.upgrades["a"], c.upgrades["b"] = "Succeeded", "Failed"
		}, node.InMaintenance, "completed"},
		{"rke2 in service", "rke2", false, func(c *cluster) {}, node.InService, "in service"},
		{"rke2 cordoned and drained", "rke2", true, func(c *cluster) { c.cordon() }, node.InMaintenance, "drained"},
		{"k3s cordoned, a pod left", "k3s", true, func(c *cluster) { c.cordon(); c.pod("web", "ReplicaSet", nil) }, node.Cordoned, "1 pods still run"},
		{"kubelet of kubeadm", "kubelet", true, func(c *cluster) { c.cordon() }, node.InMaintenance, "drained"},
		{"last heard of 3 h ago", "rke2", false, func(c *cluster) {
			c.cordon()
			c.node["status"] = map[string]any{"conditions": []map[string]any{ready(3 * time.Hour)}}
		}, node.Unknown, "3h0m0s ago"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			test.set(c)
			n := c.nodeOf(test.cluster, !test.agent)
			m := node.Check(context.Background(), n)
			require.Equal(t, test.want, m.State, "%s %q", m.Why, m.Evidence)
			require.Contains(t, m.Why, test.why)
			require.Equal(t, test.cluster, m.Cluster)
			require.Equal(t, nodeID, m.Node)
			require.NotEmpty(t, m.Enter)
			require.NotEmpty(t, m.Leave)
		})
	}
}

func (c *cluster) nodeOf(cluster string, server bool) *hostops.Node {
	if cluster != "harvester" {
		return c.member(cluster, server)
	}
	n := c.member("rke2", server)
	require.NoError(c.t, n.WriteFile("/etc/harvester-release.yaml", []byte("harvester: v1.6.0\n"), 0o644))
	return n
}

func TestWorkloadsThatDrainingWouldMoveAreListed(t *testing.T) {
	c := newCluster(t)
	c.cordon()
	c.annotate(maintain, "completed")
	c.pod("web", "ReplicaSet", nil)
	c.pod("cni", "DaemonSet", nil)
	c.pod("virt-launcher-db-x7k", "VirtualMachineInstance", map[string]string{"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": "db"})
	c.pods = append(c.pods,
		map[string]any{"metadata": map[string]any{"name": "done", "namespace": "default"}, "status": map[string]string{"phase": "Succeeded"}},
		map[string]any{"metadata": map[string]any{"name": "etcd", "namespace": "kube-system", "annotations": map[string]string{"kubernetes.io/config.mirror": "x"}}, "status": map[string]string{"phase": "Running"}})
	m := node.Check(context.Background(), c.nodeOf("harvester", true))
	require.Equal(t, []string{"default/web", "default/vm db"}, m.Workloads)
	require.Equal(t, node.InMaintenance, m.State)
	require.Contains(t, m.Why, "virtual machines still run here")
}

// Cordoned before is cordoned after: a check leaves schedulability alone (the
// stand-in fails the test on anything but GET) and says how it found it.
func TestCheckNeverTouchesSchedulability(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		c := newCluster(t)
		if cordoned {
			c.cordon()
		}
		m := node.Check(context.Background(), c.nodeOf("rke2", true))
		require.Equal(t, cordoned, m.Unschedulable)
		require.NotEmpty(t, c.asked)
	}
}

func TestSingleControlPlaneCanNeverEnterHarvestersMaintenance(t *testing.T) {
	c := newCluster(t)
	c.planes = []string{nodeID}
	m := node.Check(context.Background(), c.nodeOf("harvester", true))
	require.Contains(t, m.CannotEnter, "only control-plane node")
	c.planes = []string{nodeID, "b", "c"}
	require.Empty(t, node.Check(context.Background(), c.nodeOf("harvester", true)).CannotEnter)
}

func TestAgentIsToldToUseAnotherMachine(t *testing.T) {
	c := newCluster(t)
	server := node.Check(context.Background(), c.nodeOf("rke2", true))
	require.Equal(t, "/var/lib/rancher/rke2/bin/kubectl --kubeconfig /etc/rancher/rke2/rke2.yaml cordon "+nodeID, server.Enter[0])
	agent := node.Check(context.Background(), c.nodeOf("rke2", false))
	require.Equal(t, "kubectl cordon "+nodeID, agent.Enter[0])
	require.Equal(t, []string{"kubectl uncordon " + nodeID}, agent.Leave)
}

func TestUnreachableClusterIsNotConfirmedMaintenance(t *testing.T) {
	t.Parallel()
	t.Run("it does not answer", func(t *testing.T) {
		c := newCluster(t)
		c.cordon()
		c.hang = make(chan struct{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m := node.Check(ctx, c.nodeOf("rke2", true))
		require.Equal(t, node.Unknown, m.State)
		require.Contains(t, m.Why, "cannot confirm maintenance mode")
	})
	t.Run("it is gone", func(t *testing.T) {
		c := newCluster(t)
		n := c.nodeOf("rke2", true)
		c.server.Close()
		m := node.Check(context.Background(), n)
		require.Equal(t, node.Unknown, m.State)
		require.Contains(t, fmt.Sprint(m.Evidence), "connection refused")
	})
	t.Run("its certificate is of another authority", func(t *testing.T) {
		c, other := newCluster(t), newCluster(t)
		n := c.nodeOf("rke2", false)
		ca, err := other.nodeOf("rke2", false).ReadFile("/var/lib/rancher/rke2/agent/server-ca.crt")
		require.NoError(t, err)
		require.NoError(t, n.WriteFile("/var/lib/rancher/rke2/agent/server-ca.crt", ca, 0o600))
		m := node.Check(context.Background(), n)
		require.Equal(t, node.Unknown, m.State)
		require.Contains(t, fmt.Sprint(m.Evidence), "certificate")
		require.Empty(t, c.asked)
	})
	t.Run("it refuses the admin, the kubelet still may", func(t *testing.T) {
		c := newCluster(t)
		c.cordon()
		n := c.nodeOf("rke2", true)
		require.NoError(t, n.WriteFile("/etc/rancher/rke2/rke2.yaml", []byte("apiVersion: v1\nkind: Config\n"), 0o600))
		require.Equal(t, node.InMaintenance, node.Check(context.Background(), n).State)
	})
}

func TestSilentAPIServerIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hang = make(chan struct{})
	m := node.Check(context.Background(), c.nodeOf("rke2", true))
	require.Equal(t, node.Unknown, m.State)
}

func TestNodeOutsideAClusterIsNotAsked(t *testing.T) {
	m := node.Check(context.Background(), hostops.At(t.TempDir(), nil))
	require.Equal(t, node.NotAClusterNode, m.State)
	require.Empty(t, m.Cluster)
	require.Empty(t, m.Enter)
}

func TestRunningUpgradeOfTheSystemIsSeen(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		n := hostops.At(t.TempDir(), nil)
		require.NoError(t, n.WriteFile("/proc/812/cmdline", []byte("/usr/bin/elemental\x00upgrade\x00--debug\x00"), 0o644))
		require.NoError(t, n.WriteFile("/proc/813/cmdline", []byte("/usr/bin/elemental\x00version\x00"), 0o644))
		m := node.Check(context.Background(), n)
		require.Equal(t, node.Upgrading, m.State)
		require.Equal(t, []string{"pid 812 is /usr/bin/elemental upgrade --debug"}, m.Evidence)
	})
	t.Run("download", func(t *testing.T) {
		n := hostops.At(t.TempDir(), nil)
		require.NoError(t, n.WriteFile("/usr/local/upgrade_tmp/rootfs.squashfs", []byte("x"), 0o644))
		require.Equal(t, node.Upgrading, node.Check(context.Background(), n).State)
		old := time.Now().Add(-24 * time.Hour)
		require.NoError(t, os.Chtimes(n.Path("/usr/local/upgrade_tmp/rootfs.squashfs"), old, old))
		require.Equal(t, node.NotAClusterNode, node.Check(context.Background(), n).State, "left behind by an old one")
	})
	t.Run("lock", func(t *testing.T) {
		n := hostops.At(t.TempDir(), nil)
		require.NoError(t, n.WriteFile("/run/elemental/upgrade.lock", nil, 0o644))
		require.Equal(t, node.NotAClusterNode, node.Check(context.Background(), n).State, "there, but not held")
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(n.Root, "run/elemental/upgrade.lock"), &st))
		line := fmt.Sprintf("1: FLOCK  ADVISORY  WRITE 4242 %02x:%02x:%d 0 EOF\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
		require.NoError(t, n.WriteFile("/proc/locks", []byte(line), 0o644))
		m := node.Check(context.Background(), n)
		require.Equal(t, node.Upgrading, m.State)
		require.Contains(t, m.Evidence[0], "pid 4242")
	})
}

func TestKubeletCertificateWithoutANodeNameIsSaid(t *testing.T) {
	c := newCluster(t)
	n := c.nodeOf("rke2", false)
	require.NoError(t, n.WriteFile("/var/lib/rancher/rke2/agent/client-kubelet.crt", []byte("not a certificate"), 0o600))
	m := node.Check(context.Background(), n)
	require.Equal(t, node.Unknown, m.State)
	require.Contains(t, fmt.Sprint(m.Evidence), "holds no certificate")
	require.Contains(t, m.Enter[0], "cordon NODE")
}
