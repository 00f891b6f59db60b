// Package assets holds the files that are part of the program.
package assets

import _ "embed"

// PCIIDs is the PCI name database, packed by hostops/pci/ids/pack from the file
// of Debian's package pci.ids 0.0~2023.04.11-1 (date 2023-04-10). The database
// is a compilation by Martin Mares, Albert Pool and other volunteers of the PCI
// ID Project, https://pci-ids.ucw.cz/, and may be distributed under the GNU
// General Public License, version 2 or higher, or the 3-clause BSD licence; it is
// used here under the latter, whose text is in pci.ids.LICENCE.
//
//go:generate go run ../hostops/pci/ids/pack /usr/share/misc/pci.ids pci.ids.pack
//go:embed pci.ids.pack
var PCIIDs []byte
