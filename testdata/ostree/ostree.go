// Package ostree makes a real libostree host for tests: Debian with systemd and
// libostree's own units, deployed from commits, one commit a kernel. /usr and
// /sysroot are read-only, /etc is merged at each deployment, /var is kept.
//
// The boot loader is stood for by [Loader], which reads the Boot Loader
// Specification entries that libostree writes. The initramfs is busybox with
// libostree's ostree-prepare-root.
package ostree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/vm/debian"
)

// format is part of the cached images' names: raise it when what is built
// changes for a reason that no input shows.
const format = "2"

// OSName is the stateroot.
const OSName = "machine"

// Ref is the branch whose commit has that kernel.
func Ref(k debian.Kernel) string { return "machine/" + strings.ReplaceAll(k.Release, "+", "_") }

// Image returns a raw disk image of a host that was installed with the first
// kernel and has commits with each of the others in its repository. It is made
// once for each content, as root.
func Image(kernels ...debian.Kernel) (string, error) {
	dir, err := debian.CacheDir("vm")
	if err != nil {
		return "", err
	}
	text, err := guestFiles()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, format, packages, moved, masked, texts, modules, text)
	for _, k := range kernels {
		fmt.Fprintln(h, k.Release)
	}
	image := filepath.Join(dir, fmt.Sprintf("ostree-%x.ext4", h.Sum(nil)[:8]))
	unlock, err := debian.Lock(filepath.Base(image))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	if os.Getuid() != 0 {
		return "", errors.New("an ostree repository with files of root is made by root only: run this as root")
	}
	stage, err := os.MkdirTemp(dir, ".ostree-")
	if err != nil {
		return "", err
	}
	defer removeStage(stage)
	if err := install(stage, kernels); err != nil {
		return "", fmt.Errorf("installing the ostree host: %w", err)
	}
	tmp := filepath.Join(stage, "disk")
	if err := run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", filepath.Join(stage, "sysroot"),
		"-E", "lazy_itable_init=0,lazy_journal_init=0", tmp, "2G"); err != nil {
		return "", err
	}
	return image, os.Rename(tmp, image)
}

// removeStage deletes what install made: ostree makes the deployment's top
// directory immutable.
func removeStage(stage string) {
	deployed, _ := filepath.Glob(filepath.Join(stage, "sysroot/ostree/deploy/*/deploy/*"))
	for _, d := range deployed {
		_ = run("chattr", "-i", d)
	}
	os.RemoveAll(stage)
}

// install makes the physical sysroot below stage.
func install(stage string, kernels []debian.Kernel) error {
	tree, sysroot := filepath.Join(stage, "tree"), filepath.Join(stage, "sysroot")
	for _, d := range []string{tree, sysroot} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := stageTree(tree); err != nil {
		return err
	}
	repo := "--repo=" + filepath.Join(sysroot, "ostree/repo")
	steps := [][]string{
		{"admin", "init-fs", sysroot},
		{"admin", "os-init", "--sysroot=" + sysroot, OSName},
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
	steps = append(steps, []string{"admin", "deploy", "--sysroot=" + sysroot, "--os=" + OSName, "--karg=root=/dev/vda", "--karg=rw", Ref(kernels[0])})
	for _, args := range steps {
		if err := run("ostree", args...); err != nil {
			return fmt.Errorf("%w (make deps installs ostree)", err)
		}
	}
	return nil
}
