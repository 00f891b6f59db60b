package kmod

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// vendorPart is, for the buses that number devices, how a modalias begins: the
// part up to and with the vendor, and the digits of the device after it.
// Source: kernel, scripts/mod/file2alias.c (do_pci_entry, do_usb_entry).
var vendorPart = []struct {
	bus    string
	vendor int // bytes up to and with the "d" or "p" before the device
	device int // hex digits of the device
}{
	{"pci:v", len("pci:v00008086d"), 8},
	{"usb:v", len("usb:v0BDAp"), 4},
}

// classDirs says where in the kernel tree the drivers of a PCI class lie, by
// the class's first digits; the longest entry decides. A class without a row
// has drivers everywhere. Source: the kernel tree's own layout.
var classDirs = []struct {
	class string // base class, or base class and subclass
	dirs  []string
}{
	{"01", []string{"drivers/ata", "drivers/scsi", "drivers/nvme", "drivers/block", "drivers/message"}},
	{"02", []string{"drivers/net/ethernet", "drivers/net/fddi", "drivers/net/fjes", "drivers/net/can", "drivers/infiniband", "drivers/staging"}},
	{"0280", []string{"drivers/net/wireless", "drivers/net/ethernet", "drivers/infiniband", "drivers/staging"}},
	{"03", []string{"drivers/gpu", "drivers/video"}},
	{"04", []string{"sound", "drivers/media"}},
	{"07", []string{"drivers/tty", "drivers/parport", "drivers/char", "drivers/net"}},
	{"0c03", []string{"drivers/usb", "drivers/thunderbolt"}},
	{"0c04", []string{"drivers/scsi", "drivers/net"}},
	{"0c05", []string{"drivers/i2c"}},
	{"0c06", []string{"drivers/infiniband", "drivers/net"}},
	{"0d", []string{"drivers/net/wireless", "drivers/bluetooth"}},
	{"0b40", []string{"drivers/crypto"}},
	{"10", []string{"drivers/crypto"}},
	{"12", []string{"drivers/accel", "drivers/gpu", "drivers/misc"}},
}

// NearMisses lists modules for the same vendor's devices of this kind whose
// alias list lacks this one, the numerically nearest first: "ice is there, but
// does not support 8086:fff1". It is empty when a module does match, and on
// buses that do not number devices.
func (t *Tables) NearMisses(modalias string) []string {
	if !t.ready() || len(t.Match(modalias)) > 0 {
		return nil
	}
	for _, v := range vendorPart {
		if !strings.HasPrefix(modalias, v.bus) || len(modalias) < v.vendor+v.device {
			continue
		}
		device, err := strconv.ParseUint(modalias[v.vendor:v.vendor+v.device], 16, 32)
		if err != nil {
			return nil
		}
		return t.nearest(modalias, modalias[:v.vendor], v.device, device)
	}
	return nil
}

func (t *Tables) nearest(modalias, vendor string, digits int, device uint64) []string {
	distance := map[string]uint64{}
	for _, e := range t.aliases().bus(modalias[:busKey]).entries {
		rest, ok := strings.CutPrefix(e.pattern, vendor)
		if !ok || len(rest) < digits {
			continue
		}
		other, err := strconv.ParseUint(rest[:digits], 16, 32)
		if err != nil {
			continue // a wild card: chosen by class, and this is another class
		}
		d := max(device, other) - min(device, other)
		if old, seen := distance[e.module]; !seen || d < old {
			distance[e.module] = d
		}
	}
	dirs := dirsOf(modalias)
	var names []string
	for name := range distance {
		if t.liesIn(name, dirs) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance[a], distance[b]), strings.Compare(a, b))
	})
	return names
}

// dirsOf finds the driver directories of a PCI modalias's class, nil for
// anywhere. The class stands as "bc02sc00i00" near the end.
func dirsOf(modalias string) []string {
	_, rest, ok := strings.Cut(modalias, "bc")
	if !ok || !strings.HasPrefix(modalias, "pci:") || len(rest) < len("02sc00") {
		return nil
	}
	class := strings.ToLower(rest[:2] + rest[4:6])
	var dirs []string
	best := 0
	for _, row := range classDirs {
		if strings.HasPrefix(class, row.class) && len(row.class) > best {
			dirs, best = row.dirs, len(row.class)
		}
	}
	return dirs
}

// liesIn says whether a module's file lies in one of the kernel tree's
// directories. Modules from elsewhere (updates, extra, built in) always do.
func (t *Tables) liesIn(name string, dirs []string) bool {
	file, inTree := strings.CutPrefix(t.deps()[name].path, "kernel/")
	return !inTree || len(dirs) == 0 ||
		slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(file, d+"/") })
}
