package ostree

import (
	"debug/elf"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

//go:embed guest
var guest embed.FS

// packages make the operating system; ostree-boot brings the units that
// finalise a staged deployment and the program that the initramfs calls.
var packages = []string{"systemd", "systemd-sysv", "udev", "kmod", "ostree", "ostree-boot"}

// moved are directories that ostree keeps in /var, or elsewhere, and what stands
// in their place in the tree.
var moved = map[string]string{
	"home": "var/home", "root": "var/roothome", "opt": "var/opt", "srv": "var/srv", "mnt": "var/mnt",
	"media": "run/media", "usr/local": "../var/usrlocal",
}

// masked units do nothing for a test but cost emulated time.
var masked = []string{"getty@tty1.service", "serial-getty@ttyS0.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "systemd-networkd.service", "systemd-timesyncd.service", "systemd-pstore.service",
	"dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "getty-static.service",
	"modprobe@dm_mod.service", "modprobe@loop.service", "modprobe@drm.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@configfs.service"}

// texts are files of the tree.
var texts = map[string]string{
	"usr/lib/tmpfiles.d/machine.conf": "d /var/roothome 0700\nd /var/home 0755\nd /var/opt 0755\nd /var/srv 0755\nd /var/mnt 0755\nd /var/usrlocal 0755\nd /var/usrlocal/bin 0755\nd /var/log/journal 0755\n",
	// The journal of the boot before has to be there after a reboot.
	"usr/lib/systemd/journald.conf.d/machine.conf": "[Journal]\nStorage=persistent\nForwardToConsole=no\n",
	"usr/etc/machine-id":                           "5a4f2f6e6a544a558f4a4f1f1d2c7e10\n",
	"usr/etc/hostname":                             "machine\n",
}

// stageTree lays the operating system out below dir as an ostree commit wants
// it: /usr is all there is, /etc waits in /usr/etc, /var is empty.
func stageTree(dir string) error {
	tar, err := debian.Root(packages...)
	if err != nil {
		return err
	}
	if err := run("tar", "-C", dir, "-xf", tar, "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./run/*"); err != nil {
		return err
	}
	for at, to := range moved {
		if err := os.RemoveAll(filepath.Join(dir, at)); err != nil {
			return err
		}
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			return err
		}
	}
	for _, gone := range []string{"var", "boot"} {
		if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
			return err
		}
	}
	for _, d := range []string{"var", "boot", "sysroot", "tools"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(dir, "etc"), filepath.Join(dir, "usr/etc")); err != nil {
		return err
	}
	if err := os.Symlink("sysroot/ostree", filepath.Join(dir, "ostree")); err != nil {
		return err
	}
	if err := os.Symlink("/tools/fitout", filepath.Join(dir, "usr/bin/fitout")); err != nil {
		return err
	}
	return stageMachine(dir)
}

// stageMachine adds what makes the tree a machine for tests.
func stageMachine(dir string) error {
	files := map[string]string{"usr/lib/machine/agent": vm.AgentScript()}
	for name, text := range texts {
		files[name] = text
	}
	const units = "usr/lib/systemd/system"
	for _, unit := range []string{"machine-agent.service", "tools.mount"} {
		text, err := guest.ReadFile("guest/" + unit)
		if err != nil {
			return err
		}
		files[units+"/"+unit] = string(text)
	}
	for name, text := range files {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, unit := range masked {
		to := filepath.Join(dir, "usr/etc/systemd/system", unit)
		os.Remove(to)
		if err := os.Symlink("/dev/null", to); err != nil {
			return err
		}
	}
	// /tmp is in memory, as on most hosts of the kind.
	for name, to := range map[string]string{
		"tmp.mount": "../../../share/systemd/tmp.mount", "local-fs.target.wants/tmp.mount": "../tmp.mount",
		"multi-user.target.wants/machine-agent.service": "../machine-agent.service",
	} {
		link := filepath.Join(dir, units, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	return nil
}

// modules are what a kernel's tree has, with what those need: enough for the
// machine, its file systems, and the cards of the tests. A small tree is deployed
// and indexed in no time.
var modules = append([]string{"squashfs", "loop", "autofs4", "overlay", "ptp"}, vm.DiskModules...)

// lists are the files of a kernel's tree that depmod reads.
var lists = []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"}

// stageKernel lays a kernel out below dir: modules, image, and an initramfs with
// ostree's own program from the tree.
func stageKernel(dir, tree string, k debian.Kernel) error {
	to := filepath.Join(dir, "usr/lib/modules", k.Release)
	files := append([]string{}, lists...)
	for _, name := range modules {
		rel, err := k.Module(name)
		if err != nil {
			continue // built into this kernel
		}
		needs, err := k.Depends(name)
		if err != nil {
			return err
		}
		files = append(append(files, rel), needs...)
	}
	for _, rel := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		if err := run("cp", "--", filepath.Join(k.Modules(), rel), filepath.Join(to, rel)); err != nil {
			return err
		}
	}
	if err := run("cp", "--", k.Vmlinuz(), filepath.Join(to, "vmlinuz")); err != nil {
		return err
	}
	init, err := guest.ReadFile("guest/init")
	if err != nil {
		return err
	}
	programs, err := withLibraries(tree, "usr/lib/ostree/ostree-prepare-root")
	if err != nil {
		return err
	}
	archive, err := vm.Initramfs{Kernel: k, Init: init, Modules: vm.DiskModules, Files: programs}.Bytes()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "initramfs.img"), archive, 0o644); err != nil {
		return err
	}
	// depmod looks in lib/modules.
	if err := os.Symlink("usr/lib", filepath.Join(dir, "lib")); err != nil {
		return err
	}
	if err := run("depmod", "-b", dir, k.Release); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, "lib"))
}

// withLibraries is a program of the tree and the libraries that it is linked to,
// each at the place where the dynamic linker looks.
func withLibraries(tree, program string) (map[string]string, error) {
	const libraries = "usr/lib/x86_64-linux-gnu"
	files := map[string]string{}
	var add func(name string) error
	add = func(name string) error {
		if files[name] != "" {
			return nil
		}
		files[name] = filepath.Join(tree, name)
		f, err := elf.Open(files[name])
		if err != nil {
			return fmt.Errorf("reading what %s is linked to: %w", name, err)
		}
		defer f.Close()
		needed, err := f.ImportedLibraries()
		if err != nil {
			return err
		}
		for _, lib := range needed {
			if strings.HasPrefix(lib, "ld-linux") {
				continue
			}
			if err := add(libraries + "/" + lib); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(program); err != nil {
		return nil, err
	}
	linker := libraries + "/ld-linux-x86-64.so.2"
	files["lib64/ld-linux-x86-64.so.2"] = filepath.Join(tree, linker)
	// The linker's second place to look is /lib/x86_64-linux-gnu; in an
	// initramfs without links the first serves both.
	for name, from := range files {
		if rest, ok := strings.CutPrefix(name, "usr/lib/x86"); ok {
			files["lib/x86"+rest] = from
		}
	}
	return files, nil
}

// run runs a command of this host to its end.
func run(name string, args ...string) error {
	_, err := output(name, args...)
	return err
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if cmd.Err != nil {
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				cmd.Path, cmd.Err = dir+name, nil
			}
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), nil
}

// guestFiles are all embedded files, for the image's name.
func guestFiles() (string, error) {
	var all strings.Builder
	err := fs.WalkDir(guest, "guest", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := guest.ReadFile(p)
		all.Write(data)
		return err
	})
	return all.String(), err
}
