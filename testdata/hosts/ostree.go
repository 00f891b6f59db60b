package hosts

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed ostree/*.json
var statuses embed.FS

// Deployment is a deployment as `rpm-ostree status --json` or `bootc status
// --json` tells it.
type Deployment struct {
	OSName   string `json:"osname"`
	Checksum string `json:"checksum"`
	Serial   int    `json:"serial"`
	Booted   bool   `json:"booted"`
	Staged   bool   `json:"staged"`
	// Kernel is not in the status: each deployment of [Status] has its own.
	Kernel string `json:"-"`
}

// Dir is where it lies.
func (d Deployment) Dir() string {
	return fmt.Sprintf("/sysroot/ostree/deploy/%s/deploy/%s.%d", d.OSName, d.Checksum, d.Serial)
}

// Status reads a status in the form that rpm-ostree ("rpm-ostree-staged",
// "rpm-ostree-pending") or bootc ("bootc-staged", "bootc-rollback") prints, cut
// to what says which deployment is which; the default of the next boot is the
// first that is not staged. The booted one has KernelA.
func Status(t testing.TB, name string) []Deployment {
	t.Helper()
	b, err := statuses.ReadFile("ostree/" + name + ".json")
	require.NoError(t, err)
	var out []Deployment
	if strings.HasPrefix(name, "bootc-") {
		out = bootcStatus(t, b)
	} else {
		var s struct{ Deployments []Deployment }
		require.NoError(t, json.Unmarshal(b, &s))
		out = s.Deployments
	}
	for i := range out {
		out[i].Kernel = fmt.Sprintf("6.1%d.0-200.fc43.x86_64", i)
		if out[i].Booted {
			out[i].Kernel = KernelA
		}
	}
	return out
}

// bootcStatus names the slots; a rollback comes after the booted one.
func bootcStatus(t testing.TB, b []byte) []Deployment {
	type slot struct {
		OSTree *struct {
			Stateroot, Checksum string
			DeploySerial        int
		}
	}
	var s struct {
		Status struct{ Staged, Booted, Rollback *slot }
	}
	require.NoError(t, json.Unmarshal(b, &s))
	var out []Deployment
	for i, slot := range []*slot{s.Status.Staged, s.Status.Booted, s.Status.Rollback} {
		if slot != nil {
			out = append(out, Deployment{OSName: slot.OSTree.Stateroot, Checksum: slot.OSTree.Checksum, Serial: slot.OSTree.DeploySerial, Staged: i == 0, Booted: i == 1})
		}
	}
	return out
}

// Sysroot is a node with these deployments, in the order of the boot menu, as
// libostree lays them out: a loader entry for each but a staged one, the first
// with the highest version.
func Sysroot(deployments []Deployment) Files {
	out := Merge(OSTree(false), Files{})
	for p := range out {
		if strings.Contains(p, "/ostree/deploy/") || strings.Contains(p, "/ostree/boot.1/") || strings.HasPrefix(p, "/boot/loader/") {
			delete(out, p)
		}
	}
	var staged, merged string
	for i, d := range deployments {
		out = Merge(out, Kernel(d.Dir()+"/usr/lib/modules", d.Kernel), Files{d.Dir() + "/usr/lib/modules/" + d.Kernel + "/vmlinuz": ""})
		name := fmt.Sprintf("%s.%d", d.Checksum, d.Serial)
		if d.Staged {
			staged = name
			continue
		}
		if merged == "" {
			merged = name // what is pending, or booted: /etc is merged from it
		}
		link := fmt.Sprintf("/ostree/boot.1/%s/%d/0", d.OSName, i)
		out["/sysroot"+link] = "->../../../deploy/" + d.OSName + "/deploy/" + name
		out[fmt.Sprintf("/boot/loader/entries/ostree-%d.conf", i)] = fmt.Sprintf("title Fedora\nversion %d\noptions root=UUID=x ostree=%s rw\n", len(deployments)-i, link)
		if d.Booted {
			out["/proc/cmdline"] = "root=UUID=x ostree=" + link + " rw\n"
		}
	}
	if staged != "" {
		out["/run/ostree/staged-deployment"] = "target\x00name\x00" + staged + "\x00merge-deployment\x00name\x00" + merged + "\x00"
	}
	return out
}
