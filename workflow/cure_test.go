package workflow_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/hostops/host"
	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/actions"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// newer is a kernel that is not on the node yet.
const newer = "6.1.0-99-amd64"

// osTag is the publisher's name for the node's OS, which only the answers know.
const osTag = "acme4"

// registryAuth is a file of credentials that only the answers name.
const registryAuth = "/etc/acme/auth.json"

// gated makes the node one whose dpkg can be stopped.
func gated(t *testing.T, e *workflow.Engine) {
	t.Helper()
	for _, f := range []string{"/var/lib/dpkg/status", "/usr/bin/dpkg"} {
		require.NoError(t, e.Node.WriteFile(f, []byte("x"), 0o755))
	}
}

// keptFrom keeps e100 on a Debian node from a registry of which the reference
// names one image a kernel.
func keptFrom(t *testing.T, r *images.Registry) *workflow.Engine {
	t.Helper()
	e := engineOn(t)
	gated(t, e)
	require.NoError(t, e.Node.WriteFile("/etc/docker/certs.d/"+r.Addr+"/ca.crt", []byte(r.CA), 0o644))
	require.NoError(t, e.Node.WriteFile(registryAuth, []byte(strings.ReplaceAll(r.DockerConfig(), images.GuestHost, r.Addr)), 0o600))
	entry := images.Catalog(images.Entry{Name: "e100-image", Title: "Intel PRO/100", Modules: []string{"e100"},
		Match: []string{"pci:v00008086d00001229sv*sd*bc*sc*i*"}, Reference: r.Addr + "/drivers/e100:${OS_TAG}-${KERNEL_FULL_VERSION}", Licence: "gpl"})
	require.NoError(t, e.Node.WriteFile("/etc/fitout/catalog.d/test.yaml", []byte(entry), 0o644))
	var err error
	e.Catalog, err = catalog.Load(e.Node.Path("/etc/fitout/catalog.d"), "")
	require.NoError(t, err)
	return e
}

// publish puts an image with e100 for one kernel into the registry.
func publish(t *testing.T, r *images.Registry, release string, more ...v1.Layer) {
	t.Helper()
	img, err := mutate.AppendLayers(built(t, nodes.Release, release, "e100"), more...)
	require.NoError(t, err)
	require.NoError(t, r.Push(img, "drivers/e100:"+osTag+"-"+release))
}

func keep(t *testing.T, e *workflow.Engine, when answers.When) {
	t.Helper()
	a := answers.Default()
	a.OSTag, a.Secrets.RegistryAuth = osTag, &answers.SecretRef{File: registryAuth}
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "e100-image", When: when}}
	a.AcceptRisks = []string{"unsure-verdict"}
	a.Licences = []answers.Licence{{ID: "gpl", Digest: licenceDigest(), Accepted: true, By: "ops@example.com"}}
	recordTerms(t, e, a)
	carryOut(t, e, a)
}

// recordTerms notes the accepted licences on the node, as the start of a run does.
func recordTerms(t *testing.T, e *workflow.Engine, a *answers.Answers) {
	t.Helper()
	accepted, err := json.Marshal(a.Licences)
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile(e.StateDir()+"/licences.json", accepted, 0o600))
}

// kept keeps e100 from a registry that has it for the node's own kernel.
func kept(t *testing.T) (*images.Registry, *workflow.Engine) {
	t.Helper()
	r, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	publish(t, r, nodes.Release)
	e := keptFrom(t, r)
	keep(t, e, answers.Persist)
	return r, e
}

// The publisher's name for the OS, where only the answers know it, is that of what
// the screens offer and of what "update available" compares.
func TestOffersAndUpdatesGoByTheOSTagOfTheAnswers(t *testing.T) {
	r, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	publish(t, r, nodes.Release)
	e := keptFrom(t, r)
	e.OSTag = osTag
	s, err := e.Survey(t.Context())
	require.NoError(t, err)
	offers := e.Offers(s, s.Kinds[0])
	require.Equal(t, r.Addr+"/drivers/e100:"+osTag+"-"+nodes.Release, offers[0].References[nodes.Release])

	e.OSTag = ""
	keep(t, e, answers.LoadNow)
	s, err = e.Survey(t.Context())
	require.NoError(t, err)
	bound := 0
	for _, d := range s.Devices {
		if d.Driver == "e100" {
			bound++
			require.Equal(t, finding.StateOK, d.State, d.Address)
		}
	}
	require.NotZero(t, bound)
}

func TestGateFetchesTheBuildForTheNewKernelFromTheRegistry(t *testing.T) {
	r, e := kept(t)
	var out bytes.Buffer
	require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out), "the registry has none yet")
	require.Contains(t, out.String(), "registry: ")
	require.Contains(t, out.String(), "fitout allow "+newer)

	publish(t, r, newer)
	c, err := e.RehearseUninstalled(t.Context(), newer)
	require.NoError(t, err)
	require.True(t, c.OK, c.Gate.Sentence())
	require.Error(t, host.Covered(e.Node, e.StateDir(), host.Driver{Name: "e100-image", Load: []string{"e100"}}, newer), "a rehearsal puts nothing into the tree")
	limit(t, e, "0KiB")
	put(t, e, "sha256-aa", 10, 1)
	out.Reset()
	require.NoError(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out), out.String())
	require.NoError(t, host.Covered(e.Node, e.StateDir(), host.Driver{Name: "e100-image", Load: []string{"e100"}}, newer))
	st, err := e.Store()
	require.NoError(t, err)
	require.Len(t, st.Images, 2, "both builds are kept, so both images are needed, and no other")
}

// The terms changed with the new build: the upgrade is held with that reason, and
// nobody is asked at that moment. Once a person has accepted them it goes on.
func TestGateTakesNoBuildUnderTermsThatNobodyAccepted(t *testing.T) {
	r, e := kept(t)
	other := []byte("You may use this driver on Mondays.\n")
	terms, err := images.Of(v1.Config{}, images.File{Name: "licenses/LICENSE", Data: other})
	require.NoError(t, err)
	layers, err := terms.Layers()
	require.NoError(t, err)
	publish(t, r, newer, layers...)

	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(other))
	var out bytes.Buffer
	require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out))
	require.Contains(t, out.String(), "the licence gpl ("+digest+") has another text than the one that was accepted")
	require.Error(t, host.Covered(e.Node, e.StateDir(), host.Driver{Name: "e100-image", Load: []string{"e100"}}, newer))
	require.Len(t, stored(t, e), 1, "nothing of the new image stays")
	_, blocked := host.GateState(e.Node, host.Detect(e.Node).Facts())
	require.Len(t, blocked, 1)
	require.Contains(t, blocked[0].Reason, "has another text than the one that was accepted")

	accepted, err := json.Marshal([]answers.Licence{{ID: "gpl", Digest: digest, Accepted: true, By: "ops@example.com"}})
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile(e.StateDir()+"/licences.json", accepted, 0o600))
	out.Reset()
	require.NoError(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out), out.String())
}

// What was accepted of a registry when the driver was kept holds for its later
// builds; the hook is another process, and nobody tells it again.
func TestGateReadsARegistryWithoutTLSWhereThatWasAccepted(t *testing.T) {
	tag, err := name.NewTag(newCounted(t).host+"/drivers/e100:1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, built(t, nodes.Release, nodes.Release, "e100")))
	e := engineOn(t)
	gated(t, e)
	a := accepting(answersFor(tag.String(), answers.Persist), "e100")
	_, err = e.Plan(t.Context(), a, nil)
	require.ErrorContains(t, err, "plain HTTP", "nobody allowed it yet")
	a.AcceptRisks = append(a.AcceptRisks, "plain-http")
	recordTerms(t, e, a)
	carryOut(t, e, a)

	require.NoError(t, remote.Write(tag, built(t, nodes.Release, newer, "e100")))
	var out bytes.Buffer
	require.NoError(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out), out.String())
}

func TestGateRefusesWithoutTheRegistryAndSaysSo(t *testing.T) {
	r, e := kept(t)
	r.Close()
	var out bytes.Buffer
	require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out))
	require.Contains(t, out.String(), "kernel "+newer+" refused")
	require.Contains(t, out.String(), "connection refused")
}

func TestGateWaitsForASilentRegistryNoLongerThanItsLimit(t *testing.T) {
	r, e := kept(t)
	addr := r.Addr
	r.Close()
	silent, err := net.Listen("tcp", addr) // accepts, and never says a word
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, e.Node.WriteFile(actions.SettingsFile, []byte("apiVersion: fitout/v1\nkind: Config\ngate: {fetch: 1s}\n"), 0o644))
	var out bytes.Buffer
	done := make(chan error)
	go func() { done <- e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out) }()
	select {
	case err = <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the gate still waits for the registry")
	}
	require.Error(t, err)
	require.Contains(t, out.String(), "no answer within 1s (gate.fetch in "+actions.SettingsFile+")")

	require.NoError(t, e.Node.WriteFile(actions.SettingsFile, []byte("apiVersion: fitout/v1\nkind: Config\ngate: {fetch: 0s}\n"), 0o644))
	out.Reset()
	require.Error(t, e.Hook(t.Context(), []string{"kernel-preinst", newer}, &out))
	require.Contains(t, out.String(), "not asked")
}
