package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"fitout/hostops"
)

// devicesDir lists every PCI function as a link into the device tree.
const devicesDir = "/sys/bus/pci/devices"

// NoBusError says that the node shows no PCI bus at all: the directory is not
// there. That is not the same as a bus without functions.
type NoBusError struct{ Dir string }

func (e *NoBusError) Error() string { return "this node shows no PCI bus: " + e.Dir + " is missing" }

// Scan lists every PCI function of the node once, sorted by domain, bus, device
// and function. It opens each function's directory once and reads it with a
// fixed, small number of system calls, virtual functions with fewer; what the
// drivers made (network interfaces, disks, screens) comes from the class
// directories in one more pass, so nothing grows faster than the node does.
//
// A function that cannot be read is listed with Unreadable set. The errors are
// *NoBusError, and the one that says why the list itself cannot be read.
func Scan(n *hostops.Node) ([]Device, error) {
	devices, _, err := scan(n)
	return devices, err
}

// scan also returns how many system calls it made below the bus directory.
func scan(n *hostops.Node) ([]Device, int, error) {
	entries, err := n.ReadDir(devicesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, &NoBusError{devicesDir}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("listing PCI functions: %w", err)
	}
	r := &reader{unsettled: unsettled(n)}
	devices := make([]Device, len(entries))
	for i, e := range entries {
		devices[i] = Device{Address: e.Name(), NUMANode: -1}
		r.identify(n, &devices[i])
	}
	slices.SortFunc(devices, func(a, b Device) int { return CompareAddress(a.Address, b.Address) })
	index := make(map[string]*Device, len(devices))
	for i := range devices {
		index[devices[i].Address] = &devices[i]
	}
	for i := range devices {
		if pf := index[devices[i].PhysFn]; pf != nil {
			pf.VirtualFns++
			devices[i].Revision, devices[i].NUMANode = pf.Revision, pf.NUMANode
		}
	}
	attachChildren(n, index)
	return devices, r.calls, nil
}

// identify fills in what the function's own directory says.
func (r *reader) identify(n *hostops.Node, d *Device) {
	if !IsAddress(d.Address) {
		d.Unreadable = "its name is not a PCI address"
		return
	}
	dir, err := r.openDir(n.Path(path.Join(devicesDir, d.Address)))
	if err != nil {
		d.Unreadable = reason("its directory", err)
		return
	}
	defer r.close(dir)

	// The link is the truth about the driver; uevent says the same on a live
	// kernel but is a plain file in a recorded tree.
	if d.Driver = r.link(dir, "driver"); d.Driver != "" {
		d.Module = r.link(dir, "driver/module")
	}
	if err := r.ids(dir, d); err != nil {
		d.Unreadable = err.Error()
	}
	d.PhysFn = r.link(dir, "physfn")
	d.IOMMUGroup = r.link(dir, "iommu_group")
	if !r.mayHang(d) {
		if s, err := r.file(dir, "driver_override"); err == nil && s != "(null)" {
			d.DriverOverride = s
		}
	}
	if d.PhysFn != "" {
		return // the physical function's revision and node are taken over
	}
	if s, err := r.file(dir, "revision"); err == nil {
		d.Revision = strings.TrimPrefix(s, "0x")
	}
	if s, err := r.file(dir, "numa_node"); err == nil {
		if v, err := strconv.Atoi(s); err == nil {
			d.NUMANode = v
		}
	}
}

// unsettled are the modules whose start-up or exit code runs now, or never came
// back.
func unsettled(n *hostops.Node) map[string]bool {
	table, _ := n.ReadString("/proc/modules")
	out := map[string]bool{}
	for line := range strings.SplitSeq(table, "\n") {
		if f := strings.Fields(line); len(f) > 4 && f[4] != "Live" {
			out[f[0]] = true
		}
	}
	return out
}

// mayHang says that a driver's code may be at work on the function now. The
// kernel then holds the device's lock, and whoever reads driver_override (or,
// since 6.10, uevent) waits for it: for ever, if that code hangs.
func (r *reader) mayHang(d *Device) bool {
	return r.unsettled[d.Module] || d.Driver == "" && len(r.unsettled) > 0
}

// ids reads the identity from the modalias, else from uevent, and what is then
// still missing from the single files, as recorded trees may lack any of them.
func (r *reader) ids(dir int, d *Device) error {
	var err error
	if d.Modalias, err = r.file(dir, "modalias"); err != nil {
		if r.mayHang(d) {
			return r.idFiles(dir, d, err)
		}
		text, uerr := r.file(dir, "uevent")
		if uerr != nil && errors.Is(err, fs.ErrNotExist) {
			err = uerr
		}
		for line := range strings.SplitSeq(text, "\n") {
			if v, ok := strings.CutPrefix(line, "MODALIAS="); ok {
				d.Modalias, err = v, nil
			}
		}
		if err != nil {
			return r.idFiles(dir, d, err)
		}
	}
	if d.fromModalias() {
		return nil
	}
	return r.idFiles(dir, d, fmt.Errorf("its modalias %q is not one of a PCI function", d.Modalias))
}

// idFiles reads the ids one by one; cause says why that was needed and is the
// error when they are not there either.
func (r *reader) idFiles(dir int, d *Device, cause error) error {
	for _, f := range []struct {
		name   string
		digits int
		to     *string
		must   bool
	}{
		{"vendor", 4, &d.VendorID, true},
		{"device", 4, &d.DeviceID, true},
		{"class", 6, &d.ClassCode, true},
		{"subsystem_vendor", 4, &d.SubsystemVendorID, false},
		{"subsystem_device", 4, &d.SubsystemDeviceID, false},
	} {
		s, err := r.file(dir, f.name)
		s = strings.ToLower(strings.TrimPrefix(s, "0x"))
		if _, ok := hex(s, f.digits, f.digits); err == nil && ok {
			*f.to = s
		} else if f.must {
			return errors.New(reason("its identity", cause))
		}
	}
	return nil
}

// fromModalias takes the ids out of
// pci:vVVVVVVVVdDDDDDDDDsvSSSSSSSSsdSSSSSSSSbcCCscCCiII
// (Linux, drivers/pci/pci-sysfs.c modalias_show).
func (d *Device) fromModalias() bool {
	rest, ok := strings.CutPrefix(d.Modalias, "pci:")
	for _, f := range []struct {
		tag    string
		digits int
		to     *string
	}{
		{"v", 8, &d.VendorID}, {"d", 8, &d.DeviceID},
		{"sv", 8, &d.SubsystemVendorID}, {"sd", 8, &d.SubsystemDeviceID},
		{"bc", 2, nil}, {"sc", 2, nil}, {"i", 2, nil},
	} {
		if !ok {
			return false
		}
		if rest, ok = strings.CutPrefix(rest, f.tag); !ok || len(rest) < f.digits {
			return false
		}
		v := strings.ToLower(rest[:f.digits])
		_, ok = hex(v, f.digits, f.digits)
		rest = rest[f.digits:]
		if f.to != nil {
			*f.to = v[4:]
		} else {
			d.ClassCode += v
		}
	}
	return ok && rest == ""
}

// reason is an error without the path a person cannot use.
func reason(what string, err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return what + " cannot be read: " + err.Error()
}
