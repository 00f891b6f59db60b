package ostree

import (
	"debug/elf"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
	"fitout/testdata/vm/installed"
)

//go:embed init
var initramfsInit []byte

var host = installed.Host{
	Kind: "ostree",
	// ostree-boot brings the units that finalise a staged deployment and the
	// program that the initramfs calls.
	Packages: []string{"systemd", "systemd-sysv", "udev", "kmod", "ostree", "ostree-boot"},
	Etc:      "usr/etc",
	Files: map[string]string{
		"usr/lib/tmpfiles.d/machine.conf": "d /var/roothome 0700\nd /var/home 0755\nd /var/opt 0755\nd /var/srv 0755\nd /var/mnt 0755\nd /var/usrlocal 0755\nd /var/usrlocal/bin 0755\nd /var/log/journal 0755\n",
		"usr/etc/machine-id":              "5a4f2f6e6a544a558f4a4f1f1d2c7e10\n",
		"usr/etc/hostname":                "machine\n",
	},
	// /tmp is in memory, as on most hosts of the kind.
	Links: map[string]string{
		"usr/lib/systemd/system/tmp.mount":                       "../../../share/systemd/tmp.mount",
		"usr/lib/systemd/system/local-fs.target.wants/tmp.mount": "../tmp.mount",
	},
	Masked: []string{"systemd-networkd.service", "getty-static.service"},
}

// moved are directories that ostree keeps in /var, or elsewhere, and what stands
// in their place in the tree.
var moved = map[string]string{
	"home": "var/home", "root": "var/roothome", "opt": "var/opt", "srv": "var/srv", "mnt": "var/mnt",
	"media": "run/media", "usr/local": "../var/usrlocal",
}

// stageTree lays the operating system out below dir as an ostree commit wants
// it: /usr is all there is, /etc waits in /usr/etc, /var is empty.
func stageTree(dir string) error {
	if err := host.Unpack(dir); err != nil {
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
	for _, empty := range []string{"var", "boot", "dev", "sysroot"} {
		if err := os.RemoveAll(filepath.Join(dir, empty)); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(dir, empty), 0o755); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(dir, "etc"), filepath.Join(dir, "usr/etc")); err != nil {
		return err
	}
	if err := os.Symlink("sysroot/ostree", filepath.Join(dir, "ostree")); err != nil {
		return err
	}
	return host.Lay(dir)
}

// modules are what a kernel's tree has, with what those need: enough for the
// machine, its file systems, and the cards of the tests. A small tree is deployed
// and indexed in no time.
var modules = append([]string{"squashfs", "loop", "autofs4", "overlay", "ptp"}, vm.DiskModules...)

// stageKernel lays a kernel out below dir: modules, image, and an initramfs with
// ostree's own program from the tree.
func stageKernel(dir, tree string, k debian.Kernel) error {
	to := filepath.Join(dir, "usr/lib/modules", k.Release)
	files, err := k.ModuleFiles(modules...)
	if err != nil {
		return err
	}
	for _, rel := range append(files, debian.DepmodReads...) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		if err := program.Run("cp", "--", filepath.Join(k.Modules(), rel), filepath.Join(to, rel)); err != nil {
			return err
		}
	}
	if err := program.Run("cp", "--", k.Vmlinuz(), filepath.Join(to, "vmlinuz")); err != nil {
		return err
	}
	programs, err := withLibraries(tree, "usr/lib/ostree/ostree-prepare-root")
	if err != nil {
		return err
	}
	archive, err := vm.Initramfs{Kernel: k, Init: initramfsInit, Modules: vm.DiskModules, Files: programs}.Bytes()
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
	if err := program.Run("depmod", "-b", dir, k.Release); err != nil {
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
