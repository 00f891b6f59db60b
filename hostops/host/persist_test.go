package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

// everyKeeper are the families that keep drivers, as nodes.
func everyKeeper() map[string]map[string]string {
	return map[string]map[string]string{
		"debian": hosts.Debian(), "ostree": hosts.OSTree(false), "elemental-v2": hosts.Elemental2(), "harvester": hosts.Harvester(),
		"generic": {"/etc/os-release": "ID=buildroot\n"},
	}
}

func TestRemoveOfTheLastDriverLeavesNoTrace(t *testing.T) {
	for name, files := range everyKeeper() {
		t.Run(name, func(t *testing.T) {
			n := node(t, files)
			f := family(t, n)
			state := stateOf(t, n, f)
			d, other := e100(t, n, kernelA, kernelB), dummy(t, n, "other", kernelA)
			before := fingerprint(t, n)

			for _, d := range []Driver{d, other} {
				apply(t, n, mustPersist(t, f, d))
				again, err := f.Persist(d, "auto")
				require.NoError(t, err)
				require.Empty(t, apply(t, n, again), "a second time nothing is to be done")
			}
			require.NoError(t, Covered(n, state, d, kernelB))

			actions, err := f.Remove("intel-e100", false)
			require.NoError(t, err)
			apply(t, n, actions)
			require.NoError(t, Covered(n, state, other, kernelA), "the other driver stays whole")
			require.Error(t, Covered(n, state, d, kernelA))
			require.False(t, n.Exists(f.Layout().releaseDir(kernelB)), "no driver is left for that kernel")

			apply(t, n, remove(t, f, "other"))
			require.Equal(t, before, fingerprint(t, n))
		})
	}
}

// Directories that fitout had to make go with what it put there: also when a
// boot has happened in between, and when the drivers leave in either order.
func TestDirectoriesThatWereMadeGoWithTheLastDriver(t *testing.T) {
	for name, files := range everyKeeper() {
		for _, order := range [][]string{{"intel-e100", "other"}, {"other", "intel-e100"}} {
			t.Run(name+" without "+order[1]+" last", func(t *testing.T) {
				n := node(t, hosts.Merge(files, card("")))
				for _, dir := range []string{"/etc/modprobe.d", "/etc/systemd", "/etc/kernel", "/etc/yum.repos.d"} {
					require.NoError(t, n.RemoveAll(dir))
				}
				f := family(t, n)
				stateOf(t, n, f)
				before := settled(t, n)
				for _, d := range []Driver{e100(t, n, kernelA), dummy(t, n, "other", kernelA)} {
					apply(t, n, mustPersist(t, f, d))
				}
				_, _ = boot(t, n)
				for i, driver := range order {
					actions, err := f.Remove(driver, i == 1)
					require.NoError(t, err)
					apply(t, n, actions)
				}
				require.Equal(t, before, settled(t, n))
			})
		}
	}
}

// settled is a node's fingerprint without the simulated kernel's own files.
func settled(t *testing.T, n *hostops.Node) []string {
	t.Helper()
	return slices.DeleteFunc(fingerprint(t, n), func(line string) bool {
		return strings.HasPrefix(line, "/sys") || strings.HasPrefix(line, "/proc")
	})
}

// undoneAtEachStep keeps a driver up to each of the steps in turn, of which the
// last one is prepared and never runs, and undoes that: all is as before.
func undoneAtEachStep(t *testing.T, n *hostops.Node, f Family, d Driver, where string, state func() []string) {
	t.Helper()
	before := state()
	all, err := f.Persist(d, where)
	require.NoError(t, err)
	for cut := range all {
		actions, err := f.Persist(d, where)
		require.NoError(t, err)
		done := apply(t, n, actions[:cut])
		require.NoError(t, actions[cut].Prepare(t.Context(), n))
		undo(t, n, append(done, reread(t, actions[cut])))
		require.Equal(t, before, state(), "cut before step %d (%s)", cut, actions[cut].Kind())
	}
}

func TestUndoAfterEveryStepRestoresTheNode(t *testing.T) {
	for name, files := range everyKeeper() {
		t.Run(name, func(t *testing.T) {
			n := node(t, files)
			f := family(t, n)
			stateOf(t, n, f)
			undoneAtEachStep(t, n, f, e100(t, n, kernelA, kernelB), "auto", func() []string { return fingerprint(t, n) })
		})
	}
}

func TestUndoOfAnUpdateBringsTheEarlierVersionBack(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	stateOf(t, n, f)
	d := dummy(t, n, "dummy", kernelA)
	apply(t, n, mustPersist(t, f, d))
	before := fingerprint(t, n)

	other, err := os.ReadFile(filepath.Join(testModules, kernelB, "dummy.ko"))
	if err != nil {
		other, err = os.ReadFile(filepath.Join(testModules, kernelA, "mii.ko"))
	}
	require.NoError(t, err)
	require.NoError(t, n.WriteFile("/run/store2/"+kernelA+"/dummy.ko", other, 0o644))
	d.Version = "2"
	done := apply(t, n, mustPersist(t, f, d))
	require.NotEqual(t, before, fingerprint(t, n))
	undo(t, n, done)
	require.Equal(t, before, fingerprint(t, n))
}

// What an earlier update saved is not the state to come back to.
func TestUndoOfASecondUpdateAfterEveryStepBringsTheFirstBack(t *testing.T) {
	for name, c := range map[string]struct {
		files hosts.Files
		where string
	}{"side tree": {hosts.Debian(), "auto"}, "layered package": {hosts.OSTree(false), "os-image"}} {
		t.Run(name, func(t *testing.T) {
			n := node(t, c.files)
			n.Exec = hosts.NewRPMOSTree(t, n.Root)
			f := family(t, n)
			stateOf(t, n, f)
			update := func(version string) Driver {
				d := e100(t, n, kernelA)
				d.Version = version
				module := d.Builds[kernelA].Dir + "/" + d.Builds[kernelA].Modules[1]
				content, err := n.ReadString(module)
				require.NoError(t, err)
				require.NoError(t, n.WriteFile(module, []byte(content+version), 0o644))
				require.NoError(t, n.WriteFile("/run/store/"+kernelA+"/fw/e100/d101m_ucode.bin", []byte(version), 0o644))
				return d
			}
			files := func() []string {
				return slices.DeleteFunc(steady(t, n), func(line string) bool {
					return strings.Contains(line, "/saved") || strings.Contains(line, ".old ") || strings.HasPrefix(line, "/run/store/")
				})
			}
			for _, version := range []string{"1", "2"} {
				actions, err := f.Persist(update(version), c.where)
				require.NoError(t, err)
				apply(t, n, actions)
			}
			undoneAtEachStep(t, n, f, update("3"), c.where, files)
		})
	}
}

func TestUndoOfRemoveBringsTheDriverBack(t *testing.T) {
	for name, files := range everyKeeper() {
		t.Run(name, func(t *testing.T) {
			n := node(t, hosts.Merge(files, card("")))
			f := family(t, n)
			state := stateOf(t, n, f)
			d := e100(t, n, kernelA)
			apply(t, n, mustPersist(t, f, d))
			_, _ = boot(t, n)
			before := fingerprint(t, n)
			actions, err := f.Remove("intel-e100", true)
			require.NoError(t, err)
			done := apply(t, n, actions[:1])
			require.NotEqual(t, before, fingerprint(t, n))
			undo(t, n, done)
			require.Equal(t, before, fingerprint(t, n))
			require.NoError(t, Covered(n, state, d, kernelA))
		})
	}
}

// modprobe takes one softdep line of a module and no other: that of the driver has
// what the host's own says too.
func TestSoftdepsOfTheHostAreInTheDriversLine(t *testing.T) {
	n := node(t, hosts.Debian(), hosts.Files{"/etc/modprobe.d/site.conf": "softdep e100 pre: dummy post: tun\n"})
	f := family(t, n)
	for range 2 { // what it wrote itself does not count the second time
		apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
		conf, err := n.ReadString("/etc/modprobe.d/fitout-intel-e100.conf")
		require.NoError(t, err)
		require.Contains(t, conf+"\n", "\nsoftdep e100 pre: dummy post: tun\n")
	}
}

func TestFileChangedSinceIsLeftAndReported(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	stateOf(t, n, f)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
	conf := "/etc/modprobe.d/fitout-intel-e100.conf"
	require.NoError(t, n.WriteFile(conf, []byte("# mine now\n"), 0o644))

	actions, err := f.Remove("intel-e100", true)
	require.NoError(t, err)
	out := &lines{}
	require.NoError(t, actions[0].Prepare(context.Background(), n))
	require.NoError(t, actions[0].Do(context.Background(), n, out))
	require.Contains(t, strings.Join(out.text, "\n"), conf)
	got, err := n.ReadString(conf)
	require.NoError(t, err)
	require.Equal(t, "# mine now", got)
}

func TestNameThatWouldLeaveItsDirectoryIsRefused(t *testing.T) {
	n := node(t, hosts.Debian())
	for _, name := range []string{"", "../x", "A", "a/b", "a b", strings.Repeat("x", 64)} {
		d := dummy(t, n, name, kernelA)
		_, err := family(t, n).Persist(d, "auto")
		require.ErrorContains(t, err, "driver name", "%q", name)
	}
}

func TestNoRoomRefusesBeforeAnythingIsWritten(t *testing.T) {
	n := node(t, hosts.Debian())
	before := fingerprint(t, n)
	free, _, err := n.Free("/var/lib/fitout")
	require.NoError(t, err)
	err = needSpace(n, "/var/lib/fitout", free, 1, "free some")
	var no *NoSpace
	require.ErrorAs(t, err, &no)
	require.Contains(t, err.Error(), "free on /var/lib/fitout; free some")
	require.Equal(t, before, fingerprint(t, n))
}

func TestCompressedModuleIsUnpackedIntoTheTree(t *testing.T) {
	n := node(t, hosts.Debian())
	rel := "6.12.117+deb12-amd64"
	packed, err := filepath.Glob(filepath.Join(testModules, rel, "*.ko.xz"))
	require.NoError(t, err)
	require.NotEmpty(t, packed)
	content, err := os.ReadFile(packed[0])
	require.NoError(t, err)
	name := strings.TrimSuffix(filepath.Base(packed[0]), ".ko.xz")
	require.NoError(t, n.WriteFile("/run/store/x/"+name+".ko.xz", content, 0o644))
	f := family(t, n)
	actions, err := f.AtBoot(Driver{Name: "packed", Load: []string{name}, Builds: map[string]Build{rel: {Release: rel, Dir: "/run/store/x", Modules: []string{name + ".ko.xz"}}}})
	require.NoError(t, err)
	apply(t, n, actions)
	got, err := n.ReadFile(f.Layout().releaseDir(rel) + "/updates/packed/" + name + ".ko")
	require.NoError(t, err)
	require.Equal(t, "\x7fELF", string(got[:4]))
}

// TestRealDepmodIndexesTheSideTree runs the machine's own depmod and modprobe
// on a tree whose kernel directory is elsewhere, as a staged deployment's is.
func TestRealDepmodIndexesTheSideTree(t *testing.T) {
	for _, tool := range []string{"depmod", "modprobe"} {
		_, err := exec.LookPath("/usr/sbin/" + tool)
		require.NoError(t, err, "kmod is needed")
	}
	dir := t.TempDir()
	n := hostops.Live(nil)
	osDir := dir + "/deploy/usr/lib/modules/" + kernelA
	for p, content := range hosts.Kernel(dir+"/deploy/usr/lib/modules", kernelA) {
		require.NoError(t, n.WriteFile(p, []byte(content), 0o644))
	}
	mii, err := os.ReadFile(filepath.Join(testModules, kernelA, "mii.ko"))
	require.NoError(t, err)
	require.NoError(t, n.WriteFile(osDir+"/kernel/drivers/net/mii.ko", mii, 0o644))
	a := &PutTree{State: dir + "/state", Driver: "e100", Release: kernelA, OSDir: osDir, Source: testModules + "/" + kernelA,
		Files: []TreeFile{{From: "e100.ko", Rel: "e100.ko"}}}
	a.Source, err = filepath.Abs(a.Source)
	require.NoError(t, err)
	require.NoError(t, n.MkdirAll(dir+"/state", 0o755))
	apply(t, n, []hostops.Action{a})

	dep, err := os.ReadFile(a.releaseDir() + "/modules.dep")
	require.NoError(t, err)
	require.Contains(t, string(dep), "updates/e100/e100.ko: kernel/drivers/net/mii.ko")
	link, err := os.Readlink(a.releaseDir() + "/kernel")
	require.NoError(t, err)
	require.Equal(t, "/usr/lib/modules/"+kernelA+"/kernel", link, "where the modules will be when it runs")
	out, err := exec.Command("/usr/sbin/modprobe", "-d", dir+"/state/tree", "-S", kernelA, "-C", "/nonexistent", "--resolve-alias", "pci:v00008086d00001229sv00000000sd00000000bc02sc00i00").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "e100\n", string(out))
}

func TestDepmodThatIndexesNothingIsFound(t *testing.T) {
	n := hostops.Live(nil)
	n.Exec = silent{}
	dir := t.TempDir()
	require.NoError(t, n.WriteFile(dir+"/tree/lib/modules/k/updates/d/x.ko", []byte("x"), 0o644))
	require.NoError(t, n.WriteFile(dir+"/tree/lib/modules/k/modules.dep", nil, 0o644))
	err := Reindex(context.Background(), n, dir, "k", "")
	var ni *NotIndexed
	require.ErrorAs(t, err, &ni)
	require.Equal(t, "updates/d/x.ko", ni.Module)
	require.Contains(t, err.Error(), "Read-only file system")
}

// silent is a depmod that prints an error and exits 0, as the real one does on
// a read-only /lib/modules.
type silent struct{}

func (silent) Run(context.Context, ...string) ([]byte, error) {
	return []byte("depmod: ERROR: openat(modules.dep): Read-only file system"), nil
}
func (silent) Look(string) bool { return true }

func TestRemoveTakesBuildsOfAnEarlierImageToo(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Debian())
	for _, kernel := range []string{kernelB, kernelA} { // a later image has no build for kernelB
		apply(t, n, mustPersist(t, f, e100(t, n, kernel)))
	}
	apply(t, n, remove(t, f, "intel-e100"))
	require.False(t, n.Exists(treeDir(state)))
}
