// Package installed makes the disks of hosts that are installed as a person
// installs one, with systemd and a boot loader, for machines that boot from
// them (vm.Config.Disk).
package installed

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

//go:embed units
var units embed.FS

// format is part of the cached images' names: raise it when what is built
// changes for a reason that no input shows.
const format = "3"

// masked units do nothing for a test but cost emulated time.
var masked = []string{"getty@tty1.service", "serial-getty@ttyS0.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "systemd-timesyncd.service", "systemd-pstore.service",
	"modprobe@drm.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@configfs.service",
	"modprobe@loop.service", "modprobe@dm_mod.service", "dev-hugepages.mount", "dev-mqueue.mount",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount"}

// Host is a host with systemd.
type Host struct {
	// Kind is its name, for the cache.
	Kind string
	// Packages of Debian's make its root.
	Packages []string
	// Etc is where the root has what is /etc on the host.
	Etc string
	// Files and Links are laid into the root, in place of what is there: path →
	// text, path → target.
	Files, Links map[string]string
	// Masked are units of no use to it, besides those of no use to any host.
	Masked []string
}

// Image returns a raw disk image with the directory "root" that install makes
// in a directory of its own. It is made once for each host and each of the
// inputs, as root.
func (h Host) Image(inputs string, install func(stage string) error) (string, error) {
	dir, err := debian.CacheDir("vm")
	if err != nil {
		return "", err
	}
	files, links, err := h.content()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, format, h.Packages, files, links, inputs))
	image := filepath.Join(dir, fmt.Sprintf("%s-%x.ext4", h.Kind, sum[:8]))
	return image, debian.Once(image, func(tmp string) error {
		if os.Getuid() != 0 {
			return fmt.Errorf("the disk of a host (%s) has files of root and is made by root only: run this as root", h.Kind)
		}
		stage, err := os.MkdirTemp(dir, "."+h.Kind+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(stage)
		if err := install(stage); err != nil {
			return fmt.Errorf("installing the host (%s): %w", h.Kind, err)
		}
		return vm.Ext4(filepath.Join(stage, "root"), tmp, "2G")
	})
}

// Unpack makes a directory with the root of its packages.
func (h Host) Unpack(root string) error {
	tar, err := debian.Root(h.Packages...)
	if err != nil {
		return err
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	return program.Run("tar", "-C", root, "-xf", tar, "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./run/*")
}

// Lay puts the host's files and links into a root, and what makes it a machine
// for tests.
func (h Host) Lay(root string) error {
	files, links, err := h.content()
	if err != nil {
		return err
	}
	for name, text := range files {
		to, err := place(root, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, target := range links {
		at, err := place(root, name)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, at); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(root, "tools"), 0o755)
}

// place is where a file of the root goes; its directory is there, and it is not.
func place(root, name string) (string, error) {
	to := filepath.Join(root, name)
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return to, os.MkdirAll(filepath.Dir(to), 0o755)
}

// content is all that Lay lays.
func (h Host) content() (files, links map[string]string, err error) {
	const system = "usr/lib/systemd/system/"
	files = map[string]string{
		"usr/lib/machine/agent": vm.AgentScript(),
		// The journal of the boot before has to be there after a reboot.
		"usr/lib/systemd/journald.conf.d/machine.conf": "[Journal]\nStorage=persistent\nForwardToConsole=no\n",
	}
	links = map[string]string{
		"usr/bin/fitout": "/tools/fitout",
		system + "multi-user.target.wants/machine-agent.service": "../machine-agent.service",
	}
	for _, unit := range []string{"machine-agent.service", "tools.mount"} {
		text, err := units.ReadFile("units/" + unit)
		if err != nil {
			return nil, nil, err
		}
		files[system+unit] = string(text)
	}
	for _, unit := range slices.Concat(masked, h.Masked) {
		links[h.Etc+"/systemd/system/"+unit] = "/dev/null"
	}
	maps.Copy(files, h.Files)
	maps.Copy(links, h.Links)
	return files, links, nil
}
