package host

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fitout/hostops"
)

// deployment is one ostree deployment on disk.
type deployment struct {
	dir     string // /ostree/deploy/OS/deploy/CHECKSUM.SERIAL
	release string // directory below usr/lib/modules that holds vmlinuz
	roles   []Role
}

// StagedDeployment is written by ostree when a deployment waits for shutdown.
const StagedDeployment = "/run/ostree/staged-deployment"

// ostreeKernels lists the kernels of all deployments. The staged one is
// readable before it is final.
func ostreeKernels(n *hostops.Node, running Kernel) []Kernel {
	out := []Kernel{running}
	for _, d := range deployments(n) {
		if slices.Contains(d.roles, Running) && d.release == running.Release {
			out[0].Roles = addRoles(out[0].Roles, d.roles)
			continue
		}
		i := slices.IndexFunc(out, func(k Kernel) bool { return k.Release == d.release })
		if i >= 0 {
			out[i].Roles = addRoles(out[i].Roles, d.roles)
			continue
		}
		out = append(out, Kernel{Release: d.release, OSRoot: d.dir, Dir: path.Join(d.dir, "usr/lib/modules", d.release), Roles: d.roles})
	}
	return out
}

func addRoles(have, more []Role) []Role {
	for _, r := range more {
		if !slices.Contains(have, r) {
			have = append(have, r)
		}
	}
	return have
}

// deployments finds every deployment directory with a kernel in it, and says
// what each is: booted, default of the next boot, staged, or fallback.
func deployments(n *hostops.Node) []deployment {
	booted := bootedDeployment(n)
	next := defaultDeployment(n)
	staged := stagedName(n)
	var out []deployment
	for _, v := range n.Glob("/ostree/deploy/*/deploy/*/usr/lib/modules/*/vmlinuz") {
		rel := path.Base(path.Dir(v))
		dir, _, _ := strings.Cut(v, "/usr/lib/modules/")
		d := deployment{dir: dir, release: rel}
		switch {
		case sameDeployment(dir, booted):
			d.roles = append(d.roles, Running)
			if staged == "" && (next == "" || sameDeployment(dir, next)) {
				d.roles = append(d.roles, Next)
			}
		case staged != "" && path.Base(dir) == staged:
			d.roles = append(d.roles, Staged)
		case sameDeployment(dir, next):
			d.roles = append(d.roles, Next)
		default:
			d.roles = append(d.roles, Fallback)
		}
		out = append(out, d)
	}
	return out
}

// deploymentWaiting says that another deployment than the booted one boots next. One
// that is staged and whose kernel is refused does not: it will not be finalised.
func deploymentWaiting(n *hostops.Node, refused []Blocked) bool {
	return bootedDeployment(n) != "" && slices.ContainsFunc(deployments(n), func(d deployment) bool {
		if slices.Contains(d.roles, Staged) {
			return !isRefused(refused, d.release)
		}
		return slices.Contains(d.roles, Next) && !slices.Contains(d.roles, Running)
	})
}

var deploymentName = regexp.MustCompile(`[0-9a-f]{64}\.[0-9]+`)

// stagedName is the CHECKSUM.SERIAL of the deployment that is staged, "" for
// none. The file is a GVariant of type a{sv}; its first entry is the target, the
// deployment that its /etc is merged from may follow (libostree,
// ostree-sysroot-deploy.c).
func stagedName(n *hostops.Node) string {
	b, err := n.ReadFile(StagedDeployment)
	if err != nil {
		return ""
	}
	return string(deploymentName.Find(b))
}

// bootedDeployment follows ostree= of the command line, which is a link to
// the deployment.
func bootedDeployment(n *hostops.Node) string {
	cmdline, _ := n.ReadString("/proc/cmdline")
	return linkedDeployment(n, cmdline)
}

func linkedDeployment(n *hostops.Node, options string) string {
	for _, w := range strings.Fields(options) {
		p, ok := strings.CutPrefix(w, "ostree=")
		if !ok || !n.Exists(p) {
			continue
		}
		if real, err := filepath.EvalSymlinks(n.Path(p)); err == nil {
			return real
		}
	}
	return ""
}

// sameDeployment compares by what follows ostree/deploy: /ostree is a link to
// /sysroot/ostree, and a recorded node has its root in front.
func sameDeployment(a, b string) bool {
	const mark = "ostree/deploy/"
	i, j := strings.LastIndex(a, mark), strings.LastIndex(b, mark)
	return i >= 0 && j >= 0 && a[i:] == b[j:]
}

// defaultDeployment is the one of the loader entry with the highest version
// (Boot Loader Specification entries as ostree writes them).
func defaultDeployment(n *hostops.Node) string {
	best, dir := -1, ""
	for _, e := range n.Glob("/boot/loader/entries/ostree-*.conf") {
		text, err := n.ReadString(e)
		if err != nil {
			continue
		}
		version, options := -1, ""
		for _, line := range strings.Split(text, "\n") {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch key {
			case "version":
				version, _ = strconv.Atoi(strings.TrimSpace(value))
			case "options":
				options = value
			}
		}
		if version > best {
			best, dir = version, linkedDeployment(n, options)
		}
	}
	return dir
}
