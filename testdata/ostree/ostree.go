// Package ostree makes a real libostree host for tests: Debian with systemd and
// libostree's own units, deployed from commits, one commit a kernel. /usr and
// /sysroot are read-only, /etc is merged at each deployment, /var is kept.
//
// The boot loader is stood for by [Loader], which reads the Boot Loader
// Specification entries that libostree writes. The initramfs is busybox with
// libostree's ostree-prepare-root.
package ostree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/program"
	"fitout/testdata/vm/debian"
)

// osName is the stateroot.
const osName = "machine"

// Ref is the branch whose commit has that kernel.
func Ref(k debian.Kernel) string { return "machine/" + strings.ReplaceAll(k.Release, "+", "_") }

// Image returns a raw disk image of a host that was installed with the first
// kernel and has commits with each of the others in its repository. It is made
// once for each content, as root.
func Image(kernels ...debian.Kernel) (string, error) {
	return host.Image(fmt.Sprint(moved, modules, initramfsInit, kernels), func(stage string) error { return install(stage, kernels) })
}

// install makes the physical sysroot in stage/root.
func install(stage string, kernels []debian.Kernel) error {
	tree, sysroot := filepath.Join(stage, "tree"), filepath.Join(stage, "root")
	if err := stageTree(tree); err != nil {
		return err
	}
	if err := os.Mkdir(sysroot, 0o755); err != nil {
		return err
	}
	repo := "--repo=" + filepath.Join(sysroot, "ostree/repo")
	steps := [][]string{
		{"admin", "init-fs", sysroot},
		{"admin", "os-init", "--sysroot=" + sysroot, osName},
		{"config", repo, "set", "sysroot.readonly", "true"},
		{"config", repo, "set", "sysroot.bootloader", "none"},
	}
	for i, k := range kernels {
		dir := filepath.Join(stage, fmt.Sprint("kernel-", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := stageKernel(dir, tree, k); err != nil {
			return err
		}
		steps = append(steps, []string{"commit", repo, "--branch=" + Ref(k), "--tree=dir=" + tree, "--tree=dir=" + dir, "--subject=" + k.Release, "--no-xattrs"})
	}
	steps = append(steps, []string{"admin", "deploy", "--sysroot=" + sysroot, "--os=" + osName, "--karg=root=/dev/vda", "--karg=rw", Ref(kernels[0])})
	defer mutable(sysroot)
	for _, args := range steps {
		if err := program.Run("ostree", args...); err != nil {
			return fmt.Errorf("%w (make deps installs ostree)", err)
		}
	}
	return nil
}

// mutable lets a deployment be deleted here: ostree makes its top directory
// immutable, which mke2fs takes no notice of.
func mutable(sysroot string) {
	deployed, _ := filepath.Glob(filepath.Join(sysroot, "ostree/deploy/*/deploy/*.0"))
	for _, d := range deployed {
		_ = program.Run("chattr", "-i", d)
	}
}
