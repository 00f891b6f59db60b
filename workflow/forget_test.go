package workflow_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
)

// examineGiven reads an image given by hand for the node's card.
func examineGiven(t *testing.T, e *workflow.Engine, ref string) (*workflow.Examined, error) {
	t.Helper()
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	return e.Examine(context.Background(), s, s.Kinds[0], e.OfferImage(s, s.Kinds[0], ref), nil)
}

// stored lists the module files in the image store.
func stored(t *testing.T, e *workflow.Engine) []string {
	t.Helper()
	var found []string
	root := e.Node.Path(e.StateDir() + "/store")
	_ = filepath.Walk(root, func(p string, _ os.FileInfo, err error) error {
		if err == nil && filepath.Base(p) == "e100.ko" {
			found = append(found, p)
		}
		return nil
	})
	return found
}

func TestDeclinedImageLeavesNothingOfTheDriverBehind(t *testing.T) {
	e := engineOn(t)
	x, err := examineGiven(t, e, driverImage(t, nodes.Release, nodes.Release, "e100"))
	require.NoError(t, err)
	require.NotEmpty(t, stored(t, e))
	require.NoError(t, e.Forget(x))
	require.Empty(t, stored(t, e))
}

func TestDeclinedImageOfAnInstalledDriverStays(t *testing.T) {
	e := engineOn(t)
	ref := driverImage(t, nodes.Release, nodes.Release, "e100")
	x, err := examineGiven(t, e, ref)
	require.NoError(t, err)
	carryOut(t, e, accepting(answersFor(ref, answers.LoadNow), "e100"))
	require.NoError(t, e.Forget(x))
	require.NotEmpty(t, stored(t, e))
}

// guarded pushes an image with the card's driver to a registry with a password,
// whose certificate the node trusts.
func guarded(t *testing.T, e *workflow.Engine) (reference string) {
	t.Helper()
	r, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	require.NoError(t, e.Node.WriteFile("/etc/docker/certs.d/"+r.Addr+"/ca.crt", []byte(r.CA), 0o644))
	require.NoError(t, r.Push(built(t, nodes.Release, nodes.Release, "e100"), "drivers/e100:1"))
	return r.Addr + "/drivers/e100:1"
}

// One login is for now, one is kept: both registries are read in the session,
// and what was for now is not in the file that stays.
func TestTwoLoginsOfOneSessionDoNotReplaceEachOther(t *testing.T) {
	e := engineOn(t)
	first, second := guarded(t, e), guarded(t, e)
	now, err := e.Login(t.Context(), first, images.Username, []byte(images.Password), false)
	require.NoError(t, err)
	kept, err := e.Login(t.Context(), second, images.Username, []byte(images.Password), true)
	require.NoError(t, err)
	require.NotEqual(t, now, kept)
	for _, ref := range []string{first, second} {
		x, err := examineGiven(t, e, ref)
		require.NoError(t, err)
		a := accepting(answersFor(ref, answers.LoadNow), "e100")
		a.Secrets.RegistryAuth = &answers.SecretRef{File: kept}
		require.NoError(t, e.Forget(x))
		p, err := e.Plan(t.Context(), a, nil)
		require.NoError(t, err)
		require.NotEmpty(t, p.Steps)
	}
	data, err := e.Node.ReadFile(kept)
	require.NoError(t, err)
	host, _, _ := strings.Cut(first, "/")
	require.NotContains(t, string(data), host)
}

func TestTypedCredentialsReadTheImageAndGoIntoThePlan(t *testing.T) {
	e := engineOn(t)
	ref := guarded(t, e)

	_, err := examineGiven(t, e, ref)
	require.Equal(t, workflow.ExitPerson, workflow.ExitOf(err), "%v", err)
	file, err := e.Login(context.Background(), ref, images.Username, []byte(images.Password), false)
	require.NoError(t, err)
	x, err := examineGiven(t, e, ref)
	require.NoError(t, err)

	a := answersFor(ref, answers.LoadNow)
	a.Secrets.RegistryAuth = &answers.SecretRef{File: file}
	for _, l := range x.Licences {
		a.Licences = append(a.Licences, answers.Licence{ID: l.ID, Digest: l.Digest, Accepted: true, By: "ops@example.com"})
	}
	other := &workflow.Engine{Node: e.Node, Catalog: e.Catalog, Version: e.Version} // another process
	p, err := other.Plan(context.Background(), a, nil)
	require.NoError(t, err)
	require.NoError(t, e.Forget(x))
	code, sum := execute(t, other, p)
	require.Equal(t, 0, code, "the runner fetches with the file that the answers name: %+v", sum)
	dir := e.StateDir() + "/runs/2026-1130-01"
	entries, err := e.Node.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, entry := range entries {
		if data, err := e.Node.ReadFile(dir + "/" + entry.Name()); err == nil {
			require.NotContains(t, string(data), images.Password, entry.Name())
		}
	}
}
