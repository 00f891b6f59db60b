package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/hostops"
	"fitout/hostops/host/rpmrepo"
)

// Where rpm-ostree takes packages from: a repository a driver, below the state
// directory, with a package for each kernel that has a build. The request is for
// the name; which package fits a deployment's kernel the solver finds, and where
// none fits it refuses the deployment.
const yumRepos = "/etc/yum.repos.d"

func repoDir(state, driver string) string { return path.Join(state, "repo", driver) }
func packageName(driver string) string    { return "kmod-fitout-" + driver }

// repoText is the file that names a driver's repository.
func repoText(state, driver string) TextFile {
	return TextFile{Path: path.Join(yumRepos, "fitout-"+driver+".repo"), Mode: 0o644,
		Content: "# Made by fitout.\n" + rpmrepo.Definition("fitout-"+driver, "fitout: "+driver+", a package for each kernel", repoDir(state, driver))}
}

// whyNoLayers says why no package can be layered on an ostree host, "" when it
// can.
func whyNoLayers(c *clue) string {
	conf, _ := c.n.ReadString("/etc/rpm-ostreed.conf")
	switch {
	case !c.n.Exists("/usr/bin/rpm-ostree"):
		return "there is no rpm-ostree here, which would put a package into the image"
	case isRHCOS(c):
		return "the machine-config operator owns the image: build one with the driver and name it as osImageURL"
	case c.n.Exists("/run/composefs/staged-deployment"), c.n.Exists("/boot/bootc_composefs"):
		return "with bootc's composefs backend rpm-ostree layers nothing: build an image with the driver"
	case locksLayering(conf):
		return "LockLayering=true in /etc/rpm-ostreed.conf forbids it"
	}
	return ""
}

// locksLayering reads rpm-ostreed.conf, a key file of GLib's: blanks around "=" do
// not count, and 1 is true.
func locksLayering(conf string) bool {
	for line := range strings.Lines(conf) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) == "LockLayering" && slices.Contains([]string{"true", "1"}, strings.TrimSpace(value)) {
			return true
		}
	}
	return false
}

// layered says that a driver has a repository here.
func layered(n *hostops.Node, state, driver string) bool {
	return n.Exists(repoDir(state, driver)) || n.Exists(repoText(state, driver).Path)
}

// LayerBuild is what a package holds: paths relative to the tree's directory of
// the driver, and to the merged firmware.
type LayerBuild struct {
	Release           string
	Modules, Firmware []string
}

// layerBuilds lists what the builds will be in the tree.
func layerBuilds(n *hostops.Node, d Driver, state string) []LayerBuild {
	var out []LayerBuild
	for _, rel := range releases(d) {
		b := inTree(n, d.Builds[rel], "", state)
		out = append(out, LayerBuild{Release: rel, Modules: b.Modules, Firmware: b.Firmware})
	}
	return out
}

// packageOf reads one build off the tree.
func packageOf(n *hostops.Node, state, driver, ver string, b LayerBuild) (rpmrepo.Package, error) {
	p := rpmrepo.Package{Name: packageName(driver), Version: ver, Kernel: b.Release, Arch: n.Kernel.Machine(),
		Summary: "Driver " + driver + " for kernel " + b.Release + ", put here by fitout", Files: map[string][]byte{}}
	from := path.Join(treeDir(state), "lib/modules", b.Release, "updates", driver)
	for _, m := range b.Modules {
		content, err := n.ReadFile(path.Join(from, m))
		if err != nil {
			return p, fmt.Errorf("making the package of %s for %s: %w", driver, b.Release, err)
		}
		p.Files[path.Join("/usr/lib/modules", b.Release, layeredModule(driver, m))] = content
		if info, err := readModule(n, path.Join(from, m)); err == nil && p.Licence == "" {
			p.Licence = info.License
		}
	}
	for _, name := range b.Firmware {
		content, err := n.ReadFile(path.Join(firmwareDir(state), name))
		if err != nil {
			return p, fmt.Errorf("making the package of %s for %s: %w", driver, b.Release, err)
		}
		p.Files[path.Join("/usr/lib/firmware/updates", name)] = content
	}
	if p.Licence == "" {
		p.Licence = "unknown"
	}
	return p, nil
}

// layeredModule is where a module lies below a kernel's directory. Fedora's
// depmod prefers "updates" and "extra", in this order, to the kernel's own; a
// driver package of the OS is in "extra" too.
func layeredModule(driver, m string) string { return path.Join("extra/fitout", driver, m) }

// writeRepo makes a driver's repository anew, one package in memory at a time.
// The list of its metadata is replaced last, and then what it no longer names
// goes: whoever reads meanwhile has a whole one.
func writeRepo(n *hostops.Node, state, driver, ver string, builds []LayerBuild) error {
	dir := repoDir(state, driver)
	old, err := ownFiles(n, dir)
	if err != nil {
		return fmt.Errorf("making the repository %s: %w", dir, err)
	}
	written := map[string]bool{}
	w := rpmrepo.NewWriter(func(name string, content []byte) error {
		written[path.Join(dir, name)] = true
		return n.WriteFile(path.Join(dir, name), content, 0o644)
	})
	for _, b := range builds {
		p, err := packageOf(n, state, driver, ver, b)
		if err != nil {
			return err
		}
		if err := w.Add(p); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	for _, f := range old {
		if !written[f.Path] {
			if err := n.Remove(f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// repoHolds says that the repository has each build's package, of these very
// files, and nothing else.
func repoHolds(n *hostops.Node, state, driver, ver string, builds []LayerBuild) bool {
	dir := repoDir(state, driver)
	for _, b := range builds {
		p, err := packageOf(n, state, driver, ver, b)
		if err != nil || !n.Exists(path.Join(dir, p.Filename())) {
			return false
		}
	}
	return len(n.Glob(dir+"/*.rpm")) == len(builds) && n.Exists(dir+"/repodata/repomd.xml")
}

// layeredDeployment is a deployment as `rpm-ostree status --json` tells it.
type layeredDeployment struct {
	OSName    string   `json:"osname"`
	Checksum  string   `json:"checksum"`
	Serial    int      `json:"serial"`
	Requested []string `json:"requested-packages"`
}

func (d layeredDeployment) dir() string {
	return fmt.Sprintf("/ostree/deploy/%s/deploy/%s.%d", d.OSName, d.Checksum, d.Serial)
}

func (d layeredDeployment) requests(driver string) bool {
	return slices.Contains(d.Requested, packageName(driver))
}

// kernel is the deployment's kernel, "" when there is none.
func (d layeredDeployment) kernel(n *hostops.Node) string {
	for _, v := range n.Glob(d.dir() + "/usr/lib/modules/*/vmlinuz") {
		return path.Base(path.Dir(v))
	}
	return ""
}

// holds says that the deployment has a build, each module as it is in the tree,
// and that its index names them.
func (d layeredDeployment) holds(n *hostops.Node, state, driver string, b LayerBuild) error {
	modules := path.Join(d.dir(), "usr/lib/modules", b.Release)
	index, err := n.ReadFile(modules + "/modules.dep")
	if err != nil {
		return fmt.Errorf("reading what boots next: %w", err)
	}
	for _, m := range b.Modules {
		sum, _, err := hashFile(n, path.Join(treeDir(state), "lib/modules", b.Release, "updates", driver, m))
		if err != nil {
			return err
		}
		name := layeredModule(driver, m)
		if !(OwnFile{Path: path.Join(modules, name), SHA256: sum}).same(n) {
			return fmt.Errorf("what boots next, %s, does not have %s as it was made", d.dir(), name)
		}
		if !strings.Contains("\n"+string(index), "\n"+name+":") {
			return &NotIndexed{Release: b.Release, Module: name, Index: modules + "/modules.dep"}
		}
	}
	return nil
}

// nextDeployment asks rpm-ostree for the deployment that boots next, which is
// the one that packages are added to and taken from.
func nextDeployment(ctx context.Context, n *hostops.Node) (layeredDeployment, error) {
	said, err := n.Exec.Run(ctx, "rpm-ostree", "status", "--json")
	if err != nil {
		return layeredDeployment{}, fmt.Errorf("asking rpm-ostree for its deployments: %w: %s", err, strings.TrimSpace(string(said)))
	}
	var status struct {
		Deployments []layeredDeployment `json:"deployments"`
	}
	if err := json.Unmarshal(said, &status); err != nil || len(status.Deployments) == 0 {
		return layeredDeployment{}, fmt.Errorf("rpm-ostree status --json names no deployment (%w): %.200s", errOr(err, "an empty list"), said)
	}
	return status.Deployments[0], nil
}

// rpmOSTree runs a transaction and hands on what it says.
func rpmOSTree(ctx context.Context, n *hostops.Node, out hostops.Sink, args ...string) error {
	said, err := n.Exec.Run(ctx, append([]string{"rpm-ostree"}, args...)...)
	for line := range strings.Lines(string(said)) {
		out.Line(strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return fmt.Errorf("rpm-ostree %s: %w: %s", strings.Join(args, " "), err, lastLine(string(said)))
	}
	return nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
