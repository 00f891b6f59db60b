package pci

import (
	"errors"
	"fmt"
	"os"

	"github.com/jaypipes/pcidb"
	"golang.org/x/sys/unix"

	"fitout/assets"
	"fitout/hostops"
	"fitout/hostops/pci/ids"
)

// hostDatabases are where distributions keep the name database, as pcidb looks
// for them.
var hostDatabases = []string{"/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"}

// AddNames fills in the names of devices from the newest of the embedded name
// database and the host's own. Never from the network. Names are a nicety: on an
// error the devices are as they were, and what the caller shows is Device.Label.
func AddNames(n *hostops.Node, devices []Device) error {
	from, err := database(n)
	if err != nil {
		return err
	}
	keys := make([]ids.Key, 0, len(devices))
	for _, d := range devices {
		if d.VendorID != "" {
			keys = append(keys, ids.Key{Vendor: d.VendorID, Device: d.DeviceID})
		}
	}
	text, err := ids.Cut(from, keys)
	if err != nil {
		return fmt.Errorf("looking up device names: %w", err)
	}
	db, err := parse(text)
	if err != nil {
		return fmt.Errorf("looking up device names: %w", err)
	}
	classes := classNames(db)
	for i := range devices {
		devices[i].name(db, classes)
	}
	return nil
}

// database is the newest source by the date in its head.
func database(n *hostops.Node) (ids.Source, error) {
	pack, err := ids.Open(assets.PCIIDs)
	if err != nil {
		return nil, err
	}
	newest, path := pack.Date, ""
	for _, p := range hostDatabases {
		if date := headDate(n, p); date > newest {
			newest, path = date, p
		}
	}
	if path == "" {
		return pack, nil
	}
	text, err := n.ReadFile(path)
	if err != nil {
		return pack, nil // its head could be read a moment ago; ours is as good
	}
	return ids.Text(text), nil
}

// headDate is the date of a database file, "" when it cannot be read.
func headDate(n *hostops.Node, p string) string {
	f, err := n.Open(p)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 2048)
	count, _ := f.Read(head)
	return ids.Date(head[:count])
}

// parse hands a small database to pcidb, which reads files only: one that has a
// name in no directory, or a temporary one where /proc is not mounted.
func parse(text []byte) (*pcidb.DB, error) {
	fd, err := unix.MemfdCreate("pci.ids", unix.MFD_CLOEXEC)
	var f *os.File
	var path string
	if err == nil {
		f = os.NewFile(uintptr(fd), "pci.ids")
		path = fmt.Sprintf("/proc/self/fd/%d", fd)
		if _, serr := os.Stat(path); serr != nil {
			err = errors.Join(serr, f.Close())
		}
	}
	if err != nil {
		if f, err = os.CreateTemp("", "fitout-pci.ids-*"); err != nil {
			return nil, err
		}
		path = f.Name()
		defer os.Remove(path)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return nil, err
	}
	network := false
	return pcidb.New(&pcidb.WithOption{Path: &path, EnableNetworkFetch: &network})
}

// classNames maps a class code of two, four or six digits to its name.
func classNames(db *pcidb.DB) map[string]string {
	names := map[string]string{}
	for id, c := range db.Classes {
		names[id] = c.Name
		for _, s := range c.Subclasses {
			names[id+s.ID] = s.Name
		}
	}
	return names
}

func (d *Device) name(db *pcidb.DB, classes map[string]string) {
	if v := db.Vendors[d.VendorID]; v != nil {
		d.VendorName = v.Name
	}
	if p := db.Products[d.VendorID+d.DeviceID]; p != nil {
		d.Name = p.Name
		for _, s := range p.Subsystems {
			if s.VendorID == d.SubsystemVendorID && s.ID == d.SubsystemDeviceID {
				d.SubsystemName = s.Name
			}
		}
	}
	if len(d.ClassCode) == 6 {
		if d.ClassName = classes[d.ClassCode[:4]]; d.ClassName == "" {
			d.ClassName = classes[d.ClassCode[:2]]
		}
	}
}
