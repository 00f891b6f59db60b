package host

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fitout/hostops"
)

// PendingKernel lays out a kernel that dpkg is about to unpack, so that its
// symbol versions can be read before it is on the host. pid is a process of the
// package's maintainer script; dpkg, which runs it, has the packages on its
// command line (dpkg -i FILE…, apt's dpkg --unpack --recursive DIRECTORY). What
// is laid out takes as much room as the packages do, until done is called.
func PendingKernel(ctx context.Context, n *hostops.Node, state, release string, pid int) (k Kernel, done func(), err error) {
	root := path.Join(state, pendingDir)
	done = func() {}
	defer func() {
		if err != nil {
			done()
			err = fmt.Errorf("looking into the packages of kernel %s: %w", release, err)
		}
	}()
	files := dpkgFiles(n, pid)
	if len(files) > 0 { // dpkg locks others out: nobody else is at it
		done = func() { _ = n.RemoveAll(root) }
		done() // what a kill left
	}
	for _, file := range files {
		name, err := n.Exec.Run(ctx, "dpkg-deb", "--field", n.Path(file), "Package")
		if err != nil {
			return k, done, err
		}
		if !kernelPackage(strings.TrimSpace(string(name)), release) {
			continue
		}
		kib, err := n.Exec.Run(ctx, "dpkg-deb", "--field", n.Path(file), "Installed-Size")
		if err != nil {
			return k, done, err
		}
		size, err := strconv.ParseUint(strings.TrimSpace(string(kib)), 10, 43)
		if err != nil {
			return k, done, fmt.Errorf("%s does not say how large it is: %w", file, err)
		}
		if err := needSpace(n, state, size<<10, 0, "make room there"); err != nil {
			return k, done, err
		}
		if _, err := n.Exec.Run(ctx, "dpkg-deb", "--extract", n.Path(file), n.Path(root)); err != nil {
			return k, done, err
		}
	}
	k = Kernel{Release: release, OSRoot: root, Dir: moduleDir(n, root, release), Roles: []Role{Staged}}
	if !n.Exists(k.Dir) {
		return k, done, fmt.Errorf("no process above %d is a dpkg that has its modules", pid)
	}
	return k, done, nil
}

// pendingDir is where, below the state directory, packages are laid out.
const pendingDir = "pending"

// WorkDir is for what is unpacked and thrown away.
func WorkDir(state string) string { return path.Join(state, "work") }

// dropWork removes, at boot, what was laid out by processes that were killed.
func dropWork(n *hostops.Node, state string) {
	for _, dir := range []string{path.Join(state, pendingDir), WorkDir(state)} {
		if err := n.RemoveAll(dir); err != nil {
			n.Log.Warn("a leftover stays", "directory", dir, "err", err)
		}
	}
}

// kernelPackage says whether a package has the image or the modules of a
// release: Debian's linux-image-RELEASE, Ubuntu's linux-modules-RELEASE and
// linux-modules-extra-RELEASE too.
func kernelPackage(name, release string) bool {
	kind, ok := strings.CutSuffix(name, "-"+release)
	return ok && slices.Contains([]string{"linux-image", "linux-image-unsigned", "linux-modules", "linux-modules-extra"}, kind)
}

// dpkgFiles are the package files on the command line of the nearest dpkg above
// a process.
func dpkgFiles(n *hostops.Node, pid int) []string {
	for ; pid > 1; pid = n.Parent(pid) {
		proc := fmt.Sprintf("/proc/%d", pid)
		cmdline, err := n.ReadFile(proc + "/cmdline")
		if err != nil {
			return nil
		}
		args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		if path.Base(args[0]) != "dpkg" {
			continue
		}
		cwd, _ := n.Readlink(proc + "/cwd")
		var files []string
		for _, arg := range args[1:] {
			if !path.IsAbs(arg) {
				arg = path.Join(cwd, arg)
			}
			if found := n.Glob(arg + "/*.deb"); len(found) > 0 {
				files = append(files, found...)
			} else if strings.HasSuffix(arg, ".deb") {
				files = append(files, arg)
			}
		}
		return files
	}
	return nil
}
