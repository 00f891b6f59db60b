package debianhost

import (
	"fmt"
	"path"
	"strings"

	"fitout/testdata/vm"
	"fitout/testdata/vm/installed"
)

// Loader stands for a boot loader without a menu, which follows /vmlinuz and
// /initrd.img (linux-update-symlinks(1)) and takes their files out.
func Loader(disk, dir string) (vm.Boot, error) {
	kernel, err := follow(disk, "/vmlinuz")
	if err != nil {
		return vm.Boot{}, err
	}
	initramfs, err := follow(disk, "/initrd.img")
	if err != nil {
		return vm.Boot{}, err
	}
	return installed.TakeOut(disk, dir, kernel, initramfs, "root=/dev/vda rw")
}

// follow reads a symbolic link in the disk's root directory.
func follow(disk, link string) (string, error) {
	text, err := installed.Debugfs(disk, "stat "+link)
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
