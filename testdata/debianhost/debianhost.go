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
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
	"fitout/testdata/vm/installed"
)

var host = installed.Host{
	Kind:     "debian",
	Packages: []string{"systemd", "systemd-sysv", "udev", "kmod", "tiny-initramfs", "cpio", "linux-base"},
	Etc:      "etc",
	Files: map[string]string{
		"etc/hostname":   "debian\n",
		"etc/hosts":      "127.0.0.1 localhost\n10.0.2.100 registry.local\n",
		"etc/machine-id": "1d6f0c6de4a94a5f8c2d5b1e9a7730d1\n",
		"etc/fstab":      "",
		// A small initramfs: the disk and its file system.
		"etc/tiny-initramfs/tiny-initramfs.conf": "MICROCODE=no\nAUTO_MODULES=no\nINCLUDE_MODULES=" + strings.Join(vm.DiskModules, ",") + "\n",
		"etc/apt/sources.list":                   "deb [trusted=yes] file:" + source + " ./\n",
		"etc/apt/apt.conf.d/machine":             "Acquire::Languages \"none\";\nAPT::Install-Recommends \"false\";\n",
		// A throw-away disk need not be safe against a power cut of this host.
		"etc/dpkg/dpkg.cfg.d/machine": "force-unsafe-io\n",
	},
	Masked: []string{"proc-sys-fs-binfmt_misc.automount", "systemd-logind.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service"},
}

// source is the package source on the host's disk.
const source = "/srv/debian"

// Image returns a raw disk image of a host with the first kernel installed and
// packages of all in its source; none of them has the modules in remove. It is
// made once for each content, as root.
func Image(kernels []debian.Kernel, remove ...string) (string, error) {
	return host.Image(fmt.Sprint(kernels, kept, remove), func(stage string) error {
		return install(filepath.Join(stage, "root"), kernels, remove)
	})
}

// install makes the host's root file system.
func install(root string, kernels []debian.Kernel, remove []string) error {
	if err := host.Unpack(root); err != nil {
		return err
	}
	if err := host.Lay(root); err != nil {
		return err
	}
	for _, d := range []string{"media/stick", "var/log/journal", source} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
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
		if err := program.Run("chroot", append([]string{root, "env", "PATH=/usr/sbin:/usr/bin"}, cmd...)...); err != nil {
			return err
		}
	}
	return nil
}
