package debianhost

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"fitout/testdata/vm"
)

// Loader stands for a boot loader without a menu, which follows /vmlinuz and
// /initrd.img (linux-update-symlinks(1)) and takes their files out.
func Loader(disk, dir string) (vm.Boot, error) {
	boot := vm.Boot{Kernel: filepath.Join(dir, "boot-kernel"), Initramfs: filepath.Join(dir, "boot-initramfs"), Options: "root=/dev/vda rw"}
	for link, to := range map[string]string{"/vmlinuz": boot.Kernel, "/initrd.img": boot.Initramfs} {
		from, err := follow(disk, link)
		if err != nil {
			return vm.Boot{}, err
		}
		os.Remove(to)
		if err := run("debugfs", "-R", "dump "+from+" "+to, disk); err != nil {
			return vm.Boot{}, err
		}
		if st, err := os.Stat(to); err != nil || st.Size() == 0 {
			return vm.Boot{}, fmt.Errorf("the disk's %s leads to %s, which is not there", link, from)
		}
	}
	return boot, nil
}

// follow reads a symbolic link in the disk's root directory.
func follow(disk, link string) (string, error) {
	text, err := vm.Output("debugfs", "-R", "stat "+link, disk)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(text, `Fast link dest: "`)
	target, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		return "", fmt.Errorf("%s of the disk is no link to a kernel:\n%s", link, text)
	}
	return path.Join("/", target), nil
}
