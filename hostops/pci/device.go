// Package pci says which PCI functions a node has, from one pass over sysfs,
// and what they are called.
package pci

// Device is one PCI function as sysfs shows it. All ids are lower-case hex
// without 0x.
type Device struct {
	// Address is the name of the sysfs directory, never a packed integer:
	// "0000:03:00.0", "10000:00:04.0". It is the device's identity here.
	Address                                                  string
	Modalias                                                 string
	VendorID, DeviceID, SubsystemVendorID, SubsystemDeviceID string // 4 digits
	ClassCode                                                string // 6 digits: class, subclass, interface
	Revision                                                 string // 2 digits
	// Driver is the name of the bound driver, "" for none; Module is the
	// module that driver belongs to, "" when it is built in or unknown.
	Driver, Module string
	// DriverOverride is "" unless set.
	DriverOverride string
	// PhysFn is the address of the physical function of a virtual one.
	PhysFn string
	// VirtualFns is the number of virtual functions enabled below it.
	VirtualFns int
	// IOMMUGroup and NUMANode are "" and -1 when unknown.
	IOMMUGroup string
	NUMANode   int
	// NetDevs, BlockDevs and DRMNodes are the kernel's names for what the
	// driver made ("eth0"; whole disks, "nvme0n1"; "card0", "renderD128").
	NetDevs, BlockDevs, DRMNodes []string
	// Unreadable holds why a part of it could not be read, "" when all was.
	Unreadable string
	// VendorName, Name, SubsystemName and ClassName come from the name
	// database, "" when it has none.
	VendorName, Name, SubsystemName, ClassName string
}

// ID is the vendor:device pair, the way people and answers files write it.
func (d Device) ID() string { return d.VendorID + ":" + d.DeviceID }

// SubsystemID is the subsystem's vendor:device pair.
func (d Device) SubsystemID() string { return d.SubsystemVendorID + ":" + d.SubsystemDeviceID }
