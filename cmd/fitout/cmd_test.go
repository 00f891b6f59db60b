package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/nodes"
)

// result is what a call of the program said.
type result struct {
	code     int
	out, err string
}

// call runs the program in this process, with files for its descriptors: no
// terminal anywhere.
func call(t *testing.T, args ...string) result {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		return f
	}
	in, out, errOut := open("in"), open("out"), open("err")
	code := execute(args, in, out, errOut)
	for _, f := range []*os.File{in, out, errOut} {
		require.NoError(t, f.Close())
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	return result{code, read("out"), read("err")}
}

type deviceList struct {
	Kind    string `json:"kind"`
	Scanned int    `json:"scanned"`
	Items   []struct {
		Address  string  `json:"address"`
		Driver   *string `json:"driver"`
		State    string  `json:"state"`
		VendorID string  `json:"vendorId"`
		DeviceID string  `json:"deviceId"`
		Parent   *string `json:"parent"`
	} `json:"items"`
}

func devices(t *testing.T, root string, more ...string) deviceList {
	t.Helper()
	r := call(t, append([]string{"--root", root, "devices", "--json"}, more...)...)
	require.Equal(t, 0, r.code, r.err)
	var l deviceList
	require.NoError(t, json.Unmarshal([]byte(r.out), &l))
	return l
}

// Each function of a recorded node is listed once, with the driver that an
// independent look at its sysfs finds.
func TestDevicesListsEachFunctionOfARecordedNodeOnce(t *testing.T) {
	for _, name := range nodes.Names() {
		t.Run(name, func(t *testing.T) {
			root := nodes.Unpack(t, name)
			want := map[string]string{}
			entries, err := os.ReadDir(filepath.Join(root, "sys/bus/pci/devices"))
			require.NoError(t, err)
			for _, e := range entries {
				link, err := os.Readlink(filepath.Join(root, "sys/bus/pci/devices", e.Name(), "driver"))
				if err == nil {
					want[e.Name()] = filepath.Base(link)
				} else {
					want[e.Name()] = ""
				}
			}
			require.NotEmpty(t, want)
			got := map[string]string{}
			for _, d := range devices(t, root, "--all").Items {
				_, twice := got[d.Address]
				require.False(t, twice, d.Address)
				got[d.Address] = ""
				if d.Driver != nil {
					got[d.Address] = *d.Driver
				}
			}
			require.Equal(t, want, got)
		})
	}
}

func TestEmptyListSaysWhyItIsEmpty(t *testing.T) {
	root := nodes.Build(t, nodes.Bridge, nodes.Disk)
	r := call(t, "--root", root, "devices")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.out, "Scanned 2 PCI functions, all have a driver or need none. Nothing to fit out.")
	require.NoError(t, os.RemoveAll(filepath.Join(root, "sys/bus/pci")))
	r = call(t, "--root", root, "devices")
	require.NotEqual(t, 0, r.code)
	require.Contains(t, r.err, "no PCI bus")
}

func TestVirtualFunctionsAreNoHardwareOfTheirOwn(t *testing.T) {
	pf := nodes.Card{Address: "0000:00:02.0", ID: "8086:46a6", Subsystem: "8086:0000", Class: "030000", Driver: "i915", Module: "i915"}
	cards := []nodes.Card{pf, nodes.Disk}
	for _, fn := range []string{"1", "2", "3"} {
		cards = append(cards, nodes.Card{Address: "0000:00:02." + fn, ID: "8086:46a6", Subsystem: "8086:0000", Class: "030000", PhysFn: "0000:00:02.0"})
	}
	root := nodes.Build(t, cards...)
	states := map[string]string{}
	for _, d := range devices(t, root).Items {
		states[d.Address] = d.State
	}
	require.Equal(t, map[string]string{"0000:00:02.0": "ok", "0000:00:03.0": "ok",
		"0000:00:02.1": "virtual-function", "0000:00:02.2": "virtual-function", "0000:00:02.3": "virtual-function"}, states)
	require.Contains(t, call(t, "--root", root, "devices").out, "Nothing to fit out")
}

func TestPassedThroughDeviceIsNotMissingADriver(t *testing.T) {
	gpu := nodes.Card{Address: "0000:17:00.0", ID: "10de:1eb8", Subsystem: "10de:12a2", Class: "030200", Driver: "vfio-pci", Module: "vfio_pci", IOMMUGroup: "31"}
	root := nodes.Build(t, gpu, nodes.Disk)
	for _, d := range devices(t, root).Items {
		if d.Address == gpu.Address {
			require.Equal(t, "passed-through", d.State)
		}
	}
	require.Contains(t, call(t, "--root", root, "devices").out, "Nothing to fit out")
}

func TestShortAddressIsRefusedWhenTwoDomainsHaveIt(t *testing.T) {
	one := nodes.Card{Address: "0000:04:00.0", ID: "10de:2bb5", Subsystem: "10de:0000", Class: "030200"}
	two := one
	two.Address = "0001:04:00.0"
	root := nodes.Build(t, one, two)
	r := call(t, "--root", root, "device", "04:00.0")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "0000:04:00.0")
	require.Contains(t, r.err, "0001:04:00.0")
	r = call(t, "--root", root, "device", "0001:04:00.0")
	require.Equal(t, 0, r.code, r.err)
}

func TestUsersOfADeviceAreNamedInTextAndJSON(t *testing.T) {
	card := nodes.Card{Address: "0000:04:00.0", ID: "10de:2bb5", Subsystem: "10de:0000", Class: "030200", Driver: "nvidia", Module: "nvidia"}
	root := nodes.Build(t, card)
	write := func(p, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, p)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, p), []byte(text), 0o644))
	}
	write("sys/bus/pci/devices/0000:04:00.0/drm/card0/dev", "226:0\n")
	write("sys/bus/pci/devices/0000:04:00.0/drm/card0/uevent", "DEVNAME=dri/card0\n")
	write("sys/module/nvidia/refcnt", "350\n")
	for _, pid := range []string{"812", "813"} {
		write("proc/"+pid+"/comm", "python\n")
		write("proc/"+pid+"/fd/.keep", "")
		require.NoError(t, os.Symlink("/dev/dri/card0", filepath.Join(root, "proc", pid, "fd/3")))
	}
	r := call(t, "--root", root, "device", "0000:04:00.0")
	require.Zero(t, r.code, r.err)
	for _, want := range []string{"python x 2 have /dev/dri/card0 open", "pids 812 813", "reference count of 350", "348 are unexplained"} {
		require.Contains(t, r.out, want)
	}
	r = call(t, "--root", root, "device", "0000:04:00.0", "--json")
	require.Zero(t, r.code, r.err)
	var doc struct {
		Items []struct {
			InUse []struct {
				Kind, Text string
				PIDs       []int
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &doc))
	require.Equal(t, "process", doc.Items[0].InUse[0].Kind)
	require.Equal(t, []int{812, 813}, doc.Items[0].InUse[0].PIDs)
	require.Equal(t, "unexplained", doc.Items[0].InUse[1].Kind)
}

// Standard output is one JSON document with --json, also when a verb fails.
func TestJSONIsOneDocumentWhateverHappens(t *testing.T) {
	root := nodes.Build(t)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("apiVersion: fitout/v1\nkind: Answers\nlicense: []\n"), 0o600))
	for _, args := range [][]string{
		{"version"}, {"devices", "--all"}, {"device", "8086:10d3"}, {"device", "ffff:ffff"}, {"images"}, {"status"}, {"history"},
		{"needs-reboot"}, {"check"}, {"catalog", "list"}, {"catalog", "show", "no-such"}, {"explain", "symbol-crc"}, {"explain", "--list"},
		{"explain", "no-such"}, {"answers", "check", bad}, {"answers", "check", "/nowhere"}, {"plan", "-a", bad}, {"apply", "-a", bad},
		{"logs"}, {"remove", "no-such"}, {"no-such-verb"}, {"devices", "--no-such-flag"}, {"device"}, {},
	} {
		r := call(t, append([]string{"--root", root, "--json"}, args...)...)
		dec := json.NewDecoder(strings.NewReader(r.out))
		var doc struct{ APIVersion, Kind string }
		require.NoError(t, dec.Decode(&doc), "%v: %q", args, r.out)
		require.Equal(t, "fitout/v1", doc.APIVersion, "%v", args)
		require.NotEmpty(t, doc.Kind)
		require.False(t, dec.More(), "%v: more than one document", args)
		require.Equal(t, r.code != 0 && r.code != 20 && r.code != 6, doc.Kind == "Error", "%v: exit %d %s", args, r.code, doc.Kind)
	}
}

func TestWrongUseEndsWithTwo(t *testing.T) {
	root := nodes.Build(t)
	for _, args := range [][]string{{"no-such-verb"}, {"plan"}, {"apply"}, {"answers", "no-such-verb"}, {"image", "no-such-verb"},
		{"devices", "extra"}, {"--no-such-flag"}, {"rollback"}, {"wizard", "-a", "-"}} {
		require.Equal(t, 2, call(t, append([]string{"--root", root}, args...)...).code, "%v", args)
	}
	require.Contains(t, call(t, "no-such-verb", "--yes").err, `unknown command "no-such-verb"`, "not its flag")
	require.Equal(t, 2, call(t, "--root", root+"/nope", "devices").code)
	require.Contains(t, call(t, "--root", root+"/nope", "devices").err, "there is no such directory")
	require.Contains(t, call(t, "--root", root, "--no-such-flag", "--json").out, `"usage"`)
}

func TestRunThatIsNotThereIsSaidToBeNone(t *testing.T) {
	root := nodes.Build(t)
	for _, verb := range []string{"history", "logs", "attach", "cancel", "bundle", "rollback"} {
		r := call(t, "--root", root, verb, "2026-1130-77")
		require.Equal(t, 4, r.code, verb)
		require.Contains(t, r.err, "there is no run 2026-1130-77 on this node", verb)
	}
}

func TestStatusNamesTheRunThatWasCutShort(t *testing.T) {
	root := nodes.Build(t)
	dir := filepath.Join(root, "var/lib/fitout/runs/2026-1130-01")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	begun := `{"seq":1,"t":"2026-11-30T12:00:00Z","event":"start","run":"2026-1130-01","steps":[{"id":"load","title":"load e100"}]}` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(begun), 0o600))
	require.Contains(t, call(t, "--root", root, "status").out, "RUN CUT SHORT: 2026-1130-01")
}

func TestMisspeltKeyIsNamedWithItsLineAndNothingRuns(t *testing.T) {
	root := nodes.Build(t)
	bad := filepath.Join(t.TempDir(), "answers.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("apiVersion: fitout/v1\nkind: Answers\ndevices:\n  - match: {id: \"8086:10d3\"}\n    drivr: x\n    when: load-now\nlicense: []\n"), 0o600))
	r := call(t, "--root", root, "--answers-file", bad)
	require.Equal(t, 3, r.code)
	for _, want := range []string{bad + ":5:5", `"drivr"`, `"driver"`, bad + ":7:1", `"licences"`} {
		require.Contains(t, r.err, want)
	}
	require.NoDirExists(t, filepath.Join(root, "var/lib/fitout/runs"))
}

func TestWithoutATerminalOneSentenceNamesBothWays(t *testing.T) {
	r := call(t, "--root", nodes.Build(t))
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "ssh -t")
	require.Contains(t, r.err, "--answers-file")
	require.NotContains(t, r.out+r.err, "\x1b")

	file := filepath.Join(t.TempDir(), "answers.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: fitout/v1\nkind: Answers\ndevices:\n- match: {id: \"8086:1229\"}\n  image: {reference: \""+
		e100Image(t)+"\"}\n  when: load-now\nacceptRisks: [unsure-verdict]\n"), 0o600))
	r = call(t, "--root", nodes.Build(t, e100Card, nodes.Disk), "--answers-file", file, "--dry-run")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "load mii, e100")
	require.NotContains(t, r.out+r.err, "\x1b")
}

func TestManualPagesAreWritten(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, 0, call(t, "man", dir).code)
	page, err := os.ReadFile(filepath.Join(dir, "fitout-apply.8"))
	require.NoError(t, err)
	require.Contains(t, string(page), ".SH EXIT STATUS")
	require.NoFileExists(t, filepath.Join(dir, "fitout-run.8"), "hidden verbs have no page")
}

func TestStatusReportsDriftFromTheLiveSystem(t *testing.T) {
	root := nodes.Build(t)
	n := hostops.At(root, nil)
	require.NoError(t, n.WriteFile("/var/lib/fitout/drivers/e1000e.json", []byte(`{"format":"fitout.driver/1","driver":{"name":"e1000e","version":"3","image":"r/e:1","digest":"sha256:0","when":"load-now","modules":["e1000e"],"devices":["0000:01:00.0"],"deviceIds":["8086:10d3"],"kernels":[],"onMissingModule":"stop"}}`), 0o600))
	r := call(t, "--root", root, "status", "--exit-code")
	require.Equal(t, 20, r.code, r.err)
	require.Contains(t, r.out, "it is not loaded now")
	require.Contains(t, r.out, "fitout load e1000e")
}

// An upgrade to a kernel that dropped the driver of a disk is told, although
// fitout never had to do with that driver.
func TestCheckNamesADeviceThatTheNextKernelDrops(t *testing.T) {
	root := nodes.Build(t)
	n := hostops.At(root, nil)
	next := func(release, aliases string) {
		dir := "/lib/modules/" + release + "/"
		require.NoError(t, n.WriteFile(dir+"modules.dep", []byte("kernel/drivers/nvme/host/nvme.ko:\n"), 0o644))
		require.NoError(t, n.WriteFile(dir+"modules.alias", []byte(aliases), 0o644))
		require.NoError(t, n.WriteFile(dir+"modules.builtin", []byte("kernel/drivers/pci/pcie/pcieportdrv.ko\n"), 0o644))
		require.NoError(t, n.WriteFile("/boot/vmlinuz-"+release, nil, 0o644))
	}
	next("6.9.0-1-amd64", "alias pci:v00008086d00000953sv*sd*bc01sc08i02* nvme\n")
	next("6.9.0-2-amd64", "alias pci:v*d*sv*sd*bc01sc08i02* nvme\n")

	r := call(t, "--root", root, "--json", "check", "--kernel", "6.9.0-1-amd64")
	require.Equal(t, 6, r.code, r.err)
	var doc struct {
		OK      bool
		Devices []struct{ Address, Driver, Reason string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &doc))
	require.False(t, doc.OK)
	require.Len(t, doc.Devices, 1)
	require.Equal(t, "nvme", doc.Devices[0].Driver)
	require.Equal(t, nodes.Disk.Address, doc.Devices[0].Address)

	// A kernel without an index is not taken for one that drops nothing.
	next("6.9.0-3-amd64", "")
	require.NoError(t, n.Remove("/lib/modules/6.9.0-3-amd64/modules.alias"))
	r = call(t, "--root", root, "check", "--kernel", "6.9.0-3-amd64")
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "has no modules.alias")
	require.Contains(t, r.err, "cure: have it written anew: depmod 6.9.0-3-amd64\n")
	next("6.9.0-4-amd64", "") // the disk was full
	r = call(t, "--root", root, "check", "--kernel", "6.9.0-4-amd64")
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "modules.alias is empty or damaged")

	r = call(t, "--root", root, "check", "--kernel", "6.9.0-2-amd64", "--rehearse")
	require.Equal(t, 0, r.code, r.out+r.err)
}
