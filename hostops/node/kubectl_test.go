package node_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/node"
	"fitout/testdata/vm/debian"
)

// onlyKubectl lets one command be run: Debian's real kubectl, from wherever the
// rig has put it.
type onlyKubectl struct{ program string }

func (o onlyKubectl) Look(name string) bool { return name == "kubectl" }

func (o onlyKubectl) Run(ctx context.Context, argv ...string) ([]byte, error) {
	for i, arg := range argv {
		if arg == "kubectl" {
			argv[i] = o.program
		}
	}
	return hostops.Live(nil).Exec.Run(ctx, argv...)
}

// byProgram is a server whose kubeconfigs name a program that hands out the
// credentials: only kubectl can use them.
func (c *cluster) byProgram() *hostops.Node {
	n := c.nodeOf("rke2", true)
	program, err := debian.Program("kubernetes-client", "usr/bin/kubectl")
	require.NoError(c.t, err)
	n.Exec = onlyKubectl{program}
	require.NoError(c.t, n.MkdirAll("/run", 0o755))
	cert, key := c.issue("system:admin", "system:masters", x509.ExtKeyUsageClientAuth)
	credential, err := json.Marshal(map[string]any{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential",
		"status": map[string]string{"clientCertificateData": string(cert), "clientKeyData": string(key)}})
	require.NoError(c.t, err)
	script := filepath.Join(c.t.TempDir(), "credentials")
	require.NoError(c.t, os.WriteFile(script, []byte("#!/bin/sh\ncat <<'END'\n"+string(credential)+"\nEND\n"), 0o755))
	ca, err := n.ReadFile("/var/lib/rancher/rke2/agent/server-ca.crt")
	require.NoError(c.t, err)
	text := strings.Replace(c.kubeconfig("CA", "-", "-"), "certificate-authority: CA", "certificate-authority-data: "+encode(ca), 1)
	head, _, _ := strings.Cut(text, "    client-certificate:")
	text = head + fmt.Sprintf("    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: %q}\n", script)
	for _, file := range []string{"/etc/rancher/rke2/rke2.yaml", "/var/lib/rancher/rke2/agent/kubelet.kubeconfig"} {
		require.NoError(c.t, n.WriteFile(file, []byte(text), 0o600))
	}
	return n
}

func TestWhereOnlyKubectlIsTakenItIsAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	before := c.seen()
	c.pod("web", "ReplicaSet", nil)
	c.pod("cni", "DaemonSet", nil)
	n := c.byProgram()
	m := node.Check(context.Background(), n)
	require.Equal(t, node.InService, m.State, m.Evidence)
	require.True(t, m.MayEnter)
	require.Equal(t, []string{"default/web"}, m.Workloads)

	e := enterOf("rke2")
	e.DrainLimit = time.Minute
	require.Equal(t, lines{"evicting default/web"}, carryOut(t, n, e))
	require.Equal(t, node.InMaintenance, node.Check(context.Background(), n).State)
	carryOut(t, n, &node.LeaveMaintenance{Cluster: "rke2", Node: nodeID})
	require.Equal(t, before, c.seen())
	require.Empty(t, n.Glob("/run/*"), "nothing is left behind")
}

func TestKubectlsRefusalsAreTheServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.writable = true
	c.budget = map[string]bool{"db-0": true}
	c.pod("db-0", "StatefulSet", nil)
	before := c.seen()
	n := c.byProgram()
	e := enterOf("rke2")
	e.DrainLimit = 20 * time.Second // each word of kubectl is a process
	require.NoError(t, e.Prepare(context.Background(), n))
	var out lines
	err := e.Do(context.Background(), n, &out)
	require.ErrorContains(t, err, "default/db-0")
	require.ErrorContains(t, err, "disruption budget")
	require.NoError(t, e.Undo(context.Background(), n, &out))
	require.Equal(t, before, c.seen())

	c.broken.Store(true)
	m := node.Check(context.Background(), n)
	require.Equal(t, node.Unknown, m.State)
	c.broken.Store(false)
}
