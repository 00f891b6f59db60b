package ostree

import (
	"fmt"
	"strconv"
	"strings"

	"fitout/testdata/vm"
	"fitout/testdata/vm/installed"
)

// Loader stands for the boot loader: of the entries in /boot/loader/entries it
// takes the one with the highest version, as ostree's first is (UAPI.1 Boot
// Loader Specification, "Sorting"), and takes its kernel and initramfs out.
func Loader(disk, dir string) (vm.Boot, error) {
	list, err := installed.Debugfs(disk, "ls -p /boot/loader/entries")
	if err != nil {
		return vm.Boot{}, err
	}
	var first map[string]string
	highest := -1
	for line := range strings.Lines(list) {
		// /INODE/MODE/UID/GID/NAME/SIZE/
		f := strings.Split(strings.TrimSpace(line), "/")
		if len(f) < 6 || !strings.HasSuffix(f[5], ".conf") {
			continue
		}
		text, err := installed.Debugfs(disk, "cat /boot/loader/entries/"+f[5])
		if err != nil {
			return vm.Boot{}, err
		}
		e := parseEntry(text)
		if version, err := strconv.Atoi(e["version"]); err != nil {
			return vm.Boot{}, fmt.Errorf("boot loader entry %s: %w", f[5], err)
		} else if version > highest {
			first, highest = e, version
		}
	}
	if first == nil {
		return vm.Boot{}, fmt.Errorf("the disk has no boot loader entry: %s", list)
	}
	return installed.TakeOut(disk, dir, onDisk(first["linux"]), onDisk(first["initrd"]), first["options"])
}

// parseEntry reads an entry's keys.
func parseEntry(text string) map[string]string {
	e := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		e[key] = strings.TrimSpace(value)
	}
	return e
}

// onDisk is where a file of an entry is: an entry names it as the boot partition
// has it, and this disk has /boot on its root.
func onDisk(name string) string {
	if strings.HasPrefix(name, "/boot/") {
		return name
	}
	return "/boot" + name
}
