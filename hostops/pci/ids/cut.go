package ids

import (
	"bytes"
	"slices"
	"strings"
)

// Source is a database that lines can be cut from: a Text or a *Pack.
type Source interface {
	// fragment returns text that has everything about key.
	fragment(key Key) ([]byte, error)
	// classSection returns text that has the class names.
	classSection() ([]byte, error)
}

// Text is a whole pci.ids file.
type Text []byte

func (t Text) fragment(Key) ([]byte, error)  { return t, nil }
func (t Text) classSection() ([]byte, error) { return t, nil }

// The trailers end the cut, under ids that no device can have: a parser that
// closes a block when the next one begins (pcidb does) would lose the last.
const (
	vendorTrailer = "zzzz  end of vendors\n\tzzzz  end of devices\n"
	classTrailer  = "C zz  end of classes\n\tzz  end of subclasses\n"
)

// Cut returns the part of a database that is about keys, with all class names,
// as a small database in the same format.
func Cut(from Source, keys []Key) ([]byte, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Vendor+a.Device, b.Vendor+b.Device) })
	keys = slices.Compact(keys)
	var out bytes.Buffer
	lastVendor := ""
	for _, k := range keys {
		text, err := from.fragment(k)
		if err != nil {
			return nil, err
		}
		vendor, lines := device(text, k)
		if k.Vendor != lastVendor {
			out.Write(vendor)
			if vendor != nil {
				lastVendor = k.Vendor
			}
		}
		out.Write(lines)
	}
	out.WriteString(vendorTrailer)
	text, err := from.classSection()
	if err != nil {
		return nil, err
	}
	out.Write(classes(text))
	out.WriteString(classTrailer)
	return out.Bytes(), nil
}
