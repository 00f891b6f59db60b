package image

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// A licence text counts in whichever encoding the vendor wrote it; a file that
// is none is named, and does not go unseen.
func TestLicenceTextsAreReadInTheEncodingsOfVendors(t *testing.T) {
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune("Lizenz für ©")) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	ents := []ent{
		{name: hostTree + "/mii.ko", data: realModule(t, release+"/mii.ko")},
		{name: "licenses/a", data: "\xa9 Vendor f\xfcr"},
		{name: "licenses/b", data: string(wide)},
		{name: "licenses/c", data: "\x00\x01binary"},
		{name: "licenses/d", data: strings.Repeat("x", licenceBytes+1)},
	}
	inv, _ := fetched(t, "oci:"+asLayout(t, imageOf(t, layerOf(t, ents...))), Want{Licences: true})
	require.Len(t, inv.Licences, 2)
	require.Equal(t, "© Vendor für", inv.Licences[0].Text)
	require.Equal(t, "Lizenz für ©", strings.TrimPrefix(inv.Licences[1].Text, "\ufeff"))
	require.Len(t, inv.Notes, 2)
	require.Contains(t, inv.Notes[0], "licenses/c is not shown")
	require.Contains(t, inv.Notes[1], "licenses/d is not shown")

	// The one that the catalog names is among them, however many there are.
	ents = ents[:1]
	for i := range licenceCount + 3 {
		ents = append(ents, ent{name: fmt.Sprintf("licenses/%03d", i), data: fmt.Sprint(i)})
	}
	ents = append(ents, ent{name: "licenses/terms", data: "terms"})
	inv, _ = fetched(t, "oci:"+asLayout(t, imageOf(t, layerOf(t, ents...))), Want{Licences: true, LicenceFile: "/licenses/terms"})
	require.Equal(t, "terms", inv.Licences[len(inv.Licences)-1].Text)
	require.Equal(t, []string{"3 more files are not shown as licences"}, inv.Notes)
}
