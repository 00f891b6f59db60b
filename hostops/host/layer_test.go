package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// layering is a node with rpm-ostree, and a driver's steps into its image.
func layering(t *testing.T, kernels ...string) (*hostops.Node, *hosts.RPMOSTree, Family, Driver, []hostops.Action) {
	t.Helper()
	n := node(t, hosts.OSTree(false))
	r := hosts.NewRPMOSTree(t, n.Root)
	n.Exec = r
	f := family(t, n)
	stateOf(t, n, f)
	d := e100(t, n, kernels...)
	actions, err := f.Persist(d, "os-image")
	require.NoError(t, err)
	return n, r, f, d, actions
}

// steady is a node's files but for the deployments, of which rpm-ostree makes
// new ones.
func steady(t *testing.T, n *hostops.Node) []string {
	t.Helper()
	var out []string
	for _, line := range fingerprint(t, n) {
		if !strings.HasPrefix(line, "/sysroot/ostree") && !strings.HasPrefix(line, "/run/ostree") {
			out = append(out, line)
		}
	}
	return out
}

func TestPackageOfADriverIsLayered(t *testing.T) {
	n, r, f, d, actions := layering(t, kernelA, kernelB)
	require.False(t, ImageWaiting(n))
	apply(t, n, actions)
	require.Equal(t, []string{"install --idempotent kmod-fitout-intel-e100"}, r.Calls)
	next, err := nextDeployment(t.Context(), n)
	require.NoError(t, err)
	require.True(t, next.requests("intel-e100"))
	require.NoError(t, next.holds(n, f.Layout().State, "intel-e100", LayerBuild{Release: kernelA, Modules: []string{"mii.ko", "e100.ko"}}))
	require.True(t, n.Exists(next.dir()+"/usr/lib/firmware/updates/e100/d101m_ucode.bin"))
	require.True(t, ImageWaiting(n), "it is in use from the next boot on")

	again, err := f.Persist(d, "os-image")
	require.NoError(t, err)
	require.Empty(t, apply(t, n, again), "a second time nothing is to be done")
	require.Len(t, r.Calls, 1)
}

func TestUpgradeTakesThePackageOfItsKernelOrIsRefused(t *testing.T) {
	n, r, f, _, actions := layering(t, kernelA)
	apply(t, n, actions)
	require.ErrorContains(t, r.Upgrade(kernelB), "nothing provides kernel-core-uname-r = "+kernelA)
	next, err := nextDeployment(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, kernelA, next.kernel(n), "nothing was staged")

	// The build arrives: as the gate puts it there.
	b := e100(t, n, kernelB).Builds[kernelB]
	require.NoError(t, AddBuild(t.Context(), n, f.Layout().State, "intel-e100", Kernel{Release: kernelB}, b))
	require.NoError(t, r.Upgrade(kernelB))
	next, err = nextDeployment(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, kernelB, next.kernel(n))
	require.NoError(t, next.holds(n, f.Layout().State, "intel-e100", LayerBuild{Release: kernelB, Modules: []string{"mii.ko", "e100.ko"}}))
}

func TestLayeredPackageIsTakenOffWithItsDriver(t *testing.T) {
	n, r, f, _, actions := layering(t, kernelA, kernelB)
	before := steady(t, n)
	apply(t, n, actions)
	removal, err := f.Remove("intel-e100", true)
	require.NoError(t, err)
	done := apply(t, n, removal[:len(removal)-1])
	require.Equal(t, "uninstall kmod-fitout-intel-e100", r.Calls[len(r.Calls)-1])

	// Taken back before the files are deleted, it is layered again.
	undo(t, n, done)
	next, err := nextDeployment(t.Context(), n)
	require.NoError(t, err)
	require.True(t, next.requests("intel-e100"))
	ok, err := actions[len(actions)-1].Done(t.Context(), n)
	require.NoError(t, err)
	require.True(t, ok)

	removal, err = f.Remove("intel-e100", true)
	require.NoError(t, err)
	apply(t, n, removal)
	require.Equal(t, before, steady(t, n))
	next, err = nextDeployment(t.Context(), n)
	require.NoError(t, err)
	require.Empty(t, next.Requested)
}

func TestLayeringIsUndoneAfterEveryStep(t *testing.T) {
	n, _, f, d, _ := layering(t, kernelA)
	undoneAtEachStep(t, n, f, d, "os-image", func() []string {
		next, err := nextDeployment(t.Context(), n)
		require.NoError(t, err)
		require.Empty(t, next.Requested)
		return steady(t, n)
	})
}

func TestNewerVersionReplacesTheLayeredOne(t *testing.T) {
	n, r, f, d, actions := layering(t, kernelA)
	apply(t, n, actions)
	first := n.Glob(repoDir(f.Layout().State, d.Name) + "/*.rpm")
	before := steady(t, n)

	d.Version = "3.6"
	require.NoError(t, n.WriteFile("/run/store/"+kernelA+"/fw/e100/d101m_ucode.bin", []byte("other"), 0o644))
	m := "/run/store/" + kernelA + "/opt/lib/modules/e100.ko"
	b, err := n.ReadFile(m)
	require.NoError(t, err)
	require.NoError(t, n.WriteFile(m, append(b, 0), 0o644))
	newer, err := f.Persist(d, "os-image")
	require.NoError(t, err)
	done := apply(t, n, newer)
	second := n.Glob(repoDir(f.Layout().State, d.Name) + "/*.rpm")
	require.Len(t, second, 1)
	require.NotEqual(t, first, second)
	require.Equal(t, []string{"uninstall kmod-fitout-intel-e100", "install --idempotent kmod-fitout-intel-e100"}, r.Calls[1:])

	undo(t, n, done)
	require.Equal(t, before, steady(t, n))
	ok, err := actions[len(actions)-1].Done(t.Context(), n)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestAnotherPlaceTakesThePackageOff(t *testing.T) {
	n, r, f, d, actions := layering(t, kernelA)
	apply(t, n, actions)
	aside, err := f.Persist(d, "side-tree")
	require.NoError(t, err)
	apply(t, n, aside)
	require.Equal(t, "uninstall kmod-fitout-intel-e100", r.Calls[len(r.Calls)-1])
	require.False(t, n.Exists(repoText(f.Layout().State, d.Name).Path))
	require.NoError(t, Covered(n, f.Layout().State, d, kernelA))
}

func TestLayeringFailsInWordsAndLeavesNothing(t *testing.T) {
	t.Run("no build for what boots next", func(t *testing.T) {
		n, _, _, _, actions := layering(t, kernelB)
		layer := actions[len(actions)-2]
		require.Equal(t, "layer-package", layer.Kind())
		apply(t, n, actions[:len(actions)-2])
		require.ErrorContains(t, layer.Prepare(t.Context(), n), "persistIn: side-tree")
	})
	t.Run("a repository does not answer", func(t *testing.T) {
		n, r, _, _, actions := layering(t, kernelA)
		before := steady(t, n)
		done := apply(t, n, actions[:len(actions)-2])
		r.Offline = true
		layer := actions[len(actions)-2]
		require.NoError(t, layer.Prepare(t.Context(), n))
		require.ErrorContains(t, layer.Do(t.Context(), n, &lines{}), "cannot download")
		undo(t, n, append(done, layer))
		require.Equal(t, before, steady(t, n))
	})
	t.Run("nor when the package is only to be put there again", func(t *testing.T) {
		n, r, _, _, actions := layering(t, kernelA)
		apply(t, n, actions)
		before := steady(t, n)
		next, err := nextDeployment(t.Context(), n)
		require.NoError(t, err)
		require.NoError(t, n.WriteFile(next.dir()+"/usr/lib/modules/"+kernelA+"/extra/fitout/intel-e100/e100.ko", []byte("spoilt"), 0o644))
		layer := reread(t, actions[len(actions)-2]).(*LayerPackage)
		layer.Measured = false
		require.NoError(t, layer.Prepare(t.Context(), n))
		r.Offline = true
		require.ErrorContains(t, layer.Do(t.Context(), n, &lines{}), "cannot download")
		r.Offline = false
		undo(t, n, []hostops.Action{layer})
		next, err = nextDeployment(t.Context(), n)
		require.NoError(t, err)
		require.True(t, next.requests("intel-e100"))
		require.Equal(t, before, steady(t, n))
	})
}

func TestPriceOfALayeredPackageIsSaidAndItIsNeverTheDefault(t *testing.T) {
	n := node(t, hosts.OSTree(false), hosts.Files{"/usr/bin/bootc": ""})
	f := family(t, n)
	price := strings.Join(f.Facts().Price["os-image"], "\n")
	for _, word := range []string{"rpm-ostree install", "next boot", "every later OS upgrade", "initramfs", "bootc upgrade"} {
		require.Contains(t, price, word)
	}
	for _, a := range mustPersist(t, f, e100(t, n, kernelA)) {
		require.NotEqual(t, "layer-package", a.Kind())
	}
	actions, err := f.Persist(e100(t, n, kernelA), "os-image")
	require.NoError(t, err)
	text := strings.Join(actions[len(actions)-2].Describe().Text, "\n")
	for _, word := range []string{"rpm-ostree install --idempotent kmod-fitout-intel-e100", "Requires: kernel-core-uname-r = " + kernelA, "price: "} {
		require.Contains(t, text, word)
	}
}

func TestWhereNothingCanBeLayeredTheReasonIsNamed(t *testing.T) {
	for want, files := range map[string]hosts.Files{
		"osImageURL":        {"/etc/os-release": "ID=rhcos\n"},
		"LockLayering=true": {"/etc/rpm-ostreed.conf": "[Daemon]\nLockLayering = true\n"},
		"composefs":         {"/run/composefs/staged-deployment": ""},
	} {
		n := node(t, hosts.OSTree(false), files)
		f := family(t, n)
		require.False(t, f.Facts().OSImage, want)
		_, err := f.Persist(e100(t, n, kernelA), "os-image")
		var no *Unsupported
		require.ErrorAs(t, err, &no)
		require.ErrorContains(t, err, want)
	}
	n := node(t, hosts.OSTree(false))
	require.NoError(t, n.Remove("/usr/bin/rpm-ostree"))
	_, err := family(t, n).Persist(e100(t, n, kernelA), "os-image")
	require.ErrorContains(t, err, "no rpm-ostree")
}
