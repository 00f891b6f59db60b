package ostree

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fitout/testdata/vm"
)

// Loader stands for the boot loader: of the entries in /boot/loader/entries it
// takes the one with the highest version, as ostree's first is (UAPI.1 Boot
// Loader Specification, "Sorting"), and takes its kernel and initramfs out.
func Loader(disk, dir string) (vm.Boot, error) {
	entries, err := Entries(disk)
	if err != nil {
		return vm.Boot{}, err
	}
	e := entries[0]
	boot := vm.Boot{Kernel: filepath.Join(dir, "boot-kernel"), Initramfs: filepath.Join(dir, "boot-initramfs"), Options: e.Options}
	for from, to := range map[string]string{e.Linux: boot.Kernel, e.Initrd: boot.Initramfs} {
		// Paths are those of the boot partition; this disk has /boot on its root.
		if !strings.HasPrefix(from, "/boot/") {
			from = "/boot" + from
		}
		os.Remove(to)
		if err := debugfs(disk, fmt.Sprintf("dump %s %s", from, to)); err != nil {
			return vm.Boot{}, err
		}
		if st, err := os.Stat(to); err != nil || st.Size() == 0 {
			return vm.Boot{}, fmt.Errorf("the disk's boot entry names %s, which is not there", from)
		}
	}
	return boot, nil
}

// Entry is a boot loader entry.
type Entry struct {
	Title, Linux, Initrd, Options string
	Version                       int
}

// Entries are a disk's boot loader entries, the default first.
func Entries(disk string) ([]Entry, error) {
	list, err := output("debugfs", "-R", "ls -p /boot/loader/entries", disk)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range strings.Lines(list) {
		// /INODE/MODE/UID/GID/NAME/SIZE/
		f := strings.Split(strings.TrimSpace(line), "/")
		if len(f) < 6 || !strings.HasSuffix(f[5], ".conf") {
			continue
		}
		text, err := output("debugfs", "-R", "cat /boot/loader/entries/"+f[5], disk)
		if err != nil {
			return nil, err
		}
		e := parseEntry(text)
		if len(entries) > 0 && e.Version > entries[0].Version {
			entries = append([]Entry{e}, entries...)
		} else {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("the disk has no boot loader entry: %s", list)
	}
	return entries, nil
}

func parseEntry(text string) Entry {
	var e Entry
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		switch key {
		case "title":
			e.Title = value
		case "linux":
			e.Linux = value
		case "initrd":
			e.Initrd = value
		case "options":
			e.Options = value
		case "version":
			e.Version, _ = strconv.Atoi(value)
		}
	}
	return e
}

func debugfs(disk, command string) error {
	_, err := output("debugfs", "-R", command, disk)
	return err
}
