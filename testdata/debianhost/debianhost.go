// Package debianhost makes a real Debian host for tests: systemd, udev, dpkg and
// apt, kernels as Debian packages with Debian's own maintainer scripts, and a
// package source on its own disk with further kernels.
//
// The boot loader is stood for by [Loader], which follows /vmlinuz and
// /initrd.img, the links that Debian's kernel packages keep for boot loaders
// that read no menu. The initramfs is the one that the host's kernel hook made,
// that of tiny-initramfs: one of initramfs-tools takes minutes of emulated time.
package debianhost

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

//go:embed guest
var guest embed.FS

// format is part of the cached images' names: raise it when what is built
// changes for a reason that no input shows.
const format = "1"

// packages make the operating system.
var packages = []string{"systemd", "systemd-sysv", "udev", "kmod", "tiny-initramfs", "cpio", "linux-base"}

// masked units do nothing for a test but cost emulated time.
var masked = []string{"getty@tty1.service", "serial-getty@ttyS0.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "systemd-timesyncd.service", "systemd-pstore.service",
	"modprobe@drm.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@configfs.service",
	"proc-sys-fs-binfmt_misc.automount", "modprobe@loop.service", "modprobe@dm_mod.service", "dev-hugepages.mount", "dev-mqueue.mount",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-logind.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service"}

// texts are files of the host that an administrator would have written.
var texts = map[string]string{
	"etc/hostname":   "debian\n",
	"etc/hosts":      "127.0.0.1 localhost\n10.0.2.100 registry.local\n",
	"etc/machine-id": "1d6f0c6de4a94a5f8c2d5b1e9a7730d1\n",
	"etc/fstab":      "",
	// The journal of the boot before has to be there after a reboot.
	"etc/systemd/journald.conf.d/machine.conf": "[Journal]\nStorage=persistent\nForwardToConsole=no\n",
	// A small initramfs: the disk and its file system.
	"etc/tiny-initramfs/tiny-initramfs.conf": "MICROCODE=no\nAUTO_MODULES=no\nINCLUDE_MODULES=" + strings.Join(vm.DiskModules, ",") + "\n",
	"etc/apt/sources.list":                   "deb [trusted=yes] file:" + source + " ./\n",
	"etc/apt/apt.conf.d/machine":             "Acquire::Languages \"none\";\nAPT::Install-Recommends \"false\";\n",
	// A throw-away disk need not be safe against a power cut of this host.
	"etc/dpkg/dpkg.cfg.d/machine": "force-unsafe-io\n",
}

// source is the package source on the host's disk.
const source = "/srv/debian"

// Image returns a raw disk image of a host with the first kernel installed and
// packages of all in its source; none of them has the modules in remove. It is
// made once for each content, as root.
func Image(kernels []debian.Kernel, remove ...string) (string, error) {
	dir, err := debian.CacheDir("vm")
	if err != nil {
		return "", err
	}
	sum, err := inputs(kernels, remove)
	if err != nil {
		return "", err
	}
	image := filepath.Join(dir, "debian-"+sum+".ext4")
	unlock, err := debian.Lock(filepath.Base(image))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	if os.Getuid() != 0 {
		return "", errors.New("a Debian host is installed by root only: run this as root")
	}
	stage, err := os.MkdirTemp(dir, ".debian-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(stage)
	root := filepath.Join(stage, "root")
	if err := install(root, kernels, remove); err != nil {
		return "", fmt.Errorf("installing the Debian host: %w", err)
	}
	tmp := filepath.Join(stage, "disk")
	if err := run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", root, "-E", "lazy_itable_init=0,lazy_journal_init=0", tmp, "2G"); err != nil {
		return "", err
	}
	return image, os.Rename(tmp, image)
}

// inputs names an image by all that it is made of.
func inputs(kernels []debian.Kernel, remove []string) (string, error) {
	h := sha256.New()
	var lines []string
	for name, text := range texts {
		lines = append(lines, name+"="+text)
	}
	slices.Sort(lines)
	fmt.Fprintln(h, format, packages, masked, lines, kept, remove, vm.AgentScript())
	for _, k := range kernels {
		fmt.Fprintln(h, k.Release)
	}
	err := fs.WalkDir(guest, "guest", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := guest.ReadFile(p)
		h.Write(data)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), err
}

// install makes the host's root file system.
func install(root string, kernels []debian.Kernel, remove []string) error {
	tar, err := debian.Root(packages...)
	if err != nil {
		return err
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := run("tar", "-C", root, "-xf", tar, "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./run/*"); err != nil {
		return err
	}
	if err := writeFiles(root); err != nil {
		return err
	}
	var index strings.Builder
	for _, k := range kernels {
		if err := addPackage(&index, filepath.Join(root, source), k, remove); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, source, "Packages"), []byte(index.String()), 0o644); err != nil {
		return err
	}
	// The host's own apt and dpkg put the first kernel in.
	for _, cmd := range [][]string{{"apt-get", "update"}, {"apt-get", "install", "-y", Package(kernels[0])}} {
		if err := run("chroot", append([]string{root, "env", "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin"}, cmd...)...); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles puts the administrator's files there, and what makes the host a
// machine for tests.
func writeFiles(root string) error {
	const units = "etc/systemd/system"
	files := map[string]string{"usr/lib/machine/agent": vm.AgentScript()}
	for name, text := range texts {
		files[name] = text
	}
	for _, unit := range []string{"machine-agent.service", "tools.mount"} {
		text, err := guest.ReadFile("guest/" + unit)
		if err != nil {
			return err
		}
		files[units+"/"+unit] = string(text)
	}
	for name, text := range files {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		os.Remove(to) // what another package links there
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{"tools", "media/stick", "var/log/journal", strings.TrimPrefix(source, "/"), units + "/multi-user.target.wants"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	links := map[string]string{units + "/multi-user.target.wants/machine-agent.service": "../machine-agent.service", "usr/bin/fitout": "/tools/fitout"}
	for _, unit := range masked {
		links[units+"/"+unit] = "/dev/null"
	}
	for at, to := range links {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			return err
		}
	}
	return nil
}
