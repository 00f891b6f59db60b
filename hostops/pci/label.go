package pci

import "strings"

// baseClass holds a word for each PCI base class, for devices the name database
// does not have (PCI Code and ID Assignment Specification 1.11, section 1.1).
var baseClass = map[string]string{
	"00": "unclassified", "01": "storage", "02": "network", "03": "display", "04": "multimedia", "05": "memory",
	"06": "bridge", "07": "communication", "08": "system", "09": "input", "0a": "docking station", "0b": "processor",
	"0c": "serial bus", "0d": "wireless", "0e": "intelligent controller", "0f": "satellite", "10": "encryption",
	"11": "signal processing", "12": "accelerator", "13": "instrumentation", "40": "co-processor", "ff": "vendor specific",
}

// Label is what a person calls the device: its names, or without a name database
// its ids and its class in a word ("10de:1eb8 (class 0302, display)").
func (d Device) Label() string {
	switch {
	case d.VendorID == "":
		return "unknown device"
	case d.Name != "":
		return strings.TrimSpace(d.VendorName + " " + d.Name)
	}
	label := d.ID()
	if d.VendorName != "" {
		label = d.VendorName + " " + label
	}
	if len(d.ClassCode) < 4 {
		return label
	}
	class := "class " + d.ClassCode[:4]
	if word := baseClass[d.ClassCode[:2]]; word != "" {
		class += ", " + word
	}
	return label + " (" + class + ")"
}
