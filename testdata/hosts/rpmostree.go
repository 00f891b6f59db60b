package hosts

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RPMOSTree is a strict stand-in for rpm-ostree on the node of [OSTree]: it
// knows the few forms of its commands that are used, finds packages by the
// repositories' own metadata, takes only one that fits the deployment's kernel,
// unpacks it with rpm's own tools, runs its script, and stages the deployment.
// Rules and messages are those of rpm-ostree's sources. It implements
// hostops.Runner.
type RPMOSTree struct {
	t    testing.TB
	root string
	list []deployment // as in the boot menu
	made int
	// Calls are the transactions that were asked for; Offline lets those fail
	// that would read repositories.
	Calls   []string
	Offline bool
}

type deployment struct {
	OSName    string   `json:"osname"`
	Checksum  string   `json:"checksum"`
	Serial    int      `json:"serial"`
	Booted    bool     `json:"booted"`
	Staged    bool     `json:"staged"`
	Requested []string `json:"requested-packages"`
	base      string   // directory of the unlayered image
	kernel    string
}

func (d deployment) dir() string {
	return fmt.Sprintf("/sysroot/ostree/deploy/%s/deploy/%s.%d", d.OSName, d.Checksum, d.Serial)
}

// NewRPMOSTree is booted from SumA.
func NewRPMOSTree(t testing.TB, root string) *RPMOSTree {
	d := deployment{OSName: "fcos", Checksum: SumA, Booted: true, Requested: []string{}, kernel: KernelA}
	d.base = d.dir()
	return &RPMOSTree{t: t, root: root, list: []deployment{d}}
}

// Look implements hostops.Runner.
func (r *RPMOSTree) Look(string) bool { return true }

// Run implements hostops.Runner. What is not rpm-ostree does nothing.
func (r *RPMOSTree) Run(_ context.Context, argv ...string) ([]byte, error) {
	if argv[0] != "rpm-ostree" {
		return nil, nil
	}
	if slices.Equal(argv[1:], []string{"status", "--json"}) {
		return json.Marshal(map[string]any{"deployments": r.list})
	}
	r.Calls = append(r.Calls, strings.Join(argv[1:], " "))
	said, err := r.transaction(argv[1], argv[2:])
	if err != nil {
		return []byte(said + "error: " + err.Error() + "\n"), errors.New("exit status 1")
	}
	return []byte(said), nil
}

func (r *RPMOSTree) transaction(verb string, args []string) (said string, err error) {
	idempotent := false
	if len(args) > 0 && args[0] == "--idempotent" {
		idempotent, args = true, args[1:]
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return "", fmt.Errorf("Unknown option %v", args)
	}
	name, requested := args[0], slices.Clone(r.list[0].Requested)
	at := slices.Index(requested, name)
	switch {
	case verb == "install" && at >= 0 && idempotent:
		return "No change.\n", nil
	case verb == "install" && at >= 0:
		return "", fmt.Errorf("Package/capability '%s' is already requested", name)
	case verb == "install" && r.Offline:
		return "", errors.New("Updating rpm-md repo 'fedora': cannot download")
	case verb == "install":
		requested = append(requested, name)
	case verb == "uninstall" && at < 0:
		return "", fmt.Errorf("Package/capability '%s' is not currently requested", name)
	case verb == "uninstall":
		requested = slices.Delete(requested, at, at+1)
	default:
		return "", fmt.Errorf("Unknown command '%s'", verb)
	}
	return r.deploy(r.list[0].base, r.list[0].kernel, requested)
}

// Upgrade is an OS upgrade to the deployment SumB, with its kernel or another;
// what is layered has to fit it, or nothing is staged.
func (r *RPMOSTree) Upgrade(kernel string) error {
	base := deployment{OSName: "fcos", Checksum: SumB}.dir()
	if kernel != KernelB {
		old := r.root + base + "/usr/lib/modules/" + KernelB
		require.NoError(r.t, os.Rename(old, r.root+base+"/usr/lib/modules/"+kernel))
	}
	_, err := r.deploy(base, kernel, r.list[0].Requested)
	return err
}

// deploy makes a deployment of an image and packages, and stages it.
func (r *RPMOSTree) deploy(base, kernel string, requested []string) (said string, err error) {
	var packages []string
	for _, name := range requested {
		file, err := r.solve(name, kernel)
		if err != nil {
			return "Resolving dependencies...done\n", err
		}
		packages = append(packages, file)
	}
	r.made++
	sum := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, base, packages, r.made)))
	d := deployment{OSName: "fcos", Checksum: sum, Staged: true, Requested: requested, base: base, kernel: kernel}
	dir := r.root + d.dir()
	r.tool("cp", "-a", r.root+base, dir)
	for _, file := range packages {
		r.tool("sh", "-c", `rpm2cpio "$1" | (cd "$2" && cpio -idm --quiet --no-absolute-filenames)`, "sh", file, dir)
		require.Equal(r.t, "depmod -a "+kernel, strings.TrimSpace(r.tool("rpm", "-qp", "--qf", "%{POSTIN}", file)))
		r.tool("/usr/sbin/depmod", "-b", dir+"/usr", kernel)
	}
	for len(r.list) > 0 && r.list[0].Staged {
		require.NoError(r.t, os.RemoveAll(r.root+r.list[0].dir()))
		r.list = r.list[1:]
	}
	r.list = append([]deployment{d}, r.list...)
	require.NoError(r.t, os.MkdirAll(r.root+"/run/ostree", 0o755))
	require.NoError(r.t, os.WriteFile(r.root+"/run/ostree/staged-deployment", []byte("target\x00name\x00"+sum+".0\x00"), 0o644))
	return "Staging deployment...done\n", nil
}

func (r *RPMOSTree) tool(name string, args ...string) string {
	r.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	return string(out)
}

// solve finds the file of a package that fits a kernel.
func (r *RPMOSTree) solve(name, kernel string) (string, error) {
	repos, err := filepath.Glob(r.root + "/etc/yum.repos.d/*.repo")
	require.NoError(r.t, err)
	problem := "Packages not found: " + name
	for _, repo := range repos {
		text, err := os.ReadFile(repo)
		require.NoError(r.t, err)
		_, dir, ok := strings.Cut(string(text), "baseurl=file://")
		dir, _, _ = strings.Cut(dir, "\n")
		if !ok {
			continue
		}
		for _, p := range r.primary(r.root + dir) {
			if p.Name != name {
				continue
			}
			file := filepath.Join(r.root+dir, p.Location.Href)
			need := strings.TrimSpace(r.tool("rpm", "-qp", "--requires", file))
			if need == "kernel-core-uname-r = "+kernel {
				return file, nil
			}
			problem = "Could not depsolve transaction; 1 problem detected:\n Problem: conflicting requests\n  - nothing provides " + need + " needed by " + filepath.Base(file)
		}
	}
	return "", errors.New(problem)
}

type primaryPackage struct {
	Name     string `xml:"name"`
	Location struct {
		Href string `xml:"href,attr"`
	} `xml:"location"`
}

// primary reads a repository's metadata, and holds it to its checksums.
func (r *RPMOSTree) primary(dir string) []primaryPackage {
	r.t.Helper()
	var list struct {
		Data []struct {
			Type     string `xml:"type,attr"`
			Checksum string `xml:"checksum"`
			Location struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"data"`
	}
	b, err := os.ReadFile(dir + "/repodata/repomd.xml")
	require.NoError(r.t, err)
	require.NoError(r.t, xml.Unmarshal(b, &list))
	for _, d := range list.Data {
		packed, err := os.ReadFile(filepath.Join(dir, d.Location.Href))
		require.NoError(r.t, err)
		require.Equal(r.t, d.Checksum, fmt.Sprintf("%x", sha256.Sum256(packed)))
		if d.Type != "primary" {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(r.t, err)
		open, err := io.ReadAll(z)
		require.NoError(r.t, err)
		var m struct {
			Packages []primaryPackage `xml:"package"`
		}
		require.NoError(r.t, xml.Unmarshal(open, &m))
		return m.Packages
	}
	require.Fail(r.t, "the repository has no primary metadata", dir)
	return nil
}
