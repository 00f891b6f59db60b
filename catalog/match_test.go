package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	tesla = "pci:v000010DEd00001BB3sv000010DEsd000011D8bc03sc02i00" // Pascal
	t4    = "pci:v000010DEd00001EB8sv000010DEsd000012A2bc03sc02i00" // Turing
	nic   = "pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00"
)

func names(found []Match) []string {
	var all []string
	for _, m := range found {
		all = append(all, m.Driver.Name)
	}
	return all
}

// Two boards share vendor and device and differ in their subsystem.
func TestAnEntryForTheBoardBeatsOneForTheChip(t *testing.T) {
	c := &Catalog{Drivers: []Driver{
		{Name: "class", Match: []string{"pci:v*d*sv*sd*bc02sc00i*"}},
		{Name: "chip", Match: []string{"pci:v00008086d000010D3sv*sd*bc*sc*i*"}},
		{Name: "board", Match: []string{"pci:v00008086d000010D3sv00008086sd0000A01Fbc*sc*i*", "pci:v00008086d*"}},
		{Name: "other-board", Match: []string{"pci:v00008086d000010D3sv00008086sd00000034bc*sc*i*"}},
		{Name: "by-aliases"},
	}}
	found := c.Match(nic)
	require.Equal(t, []string{"board", "chip", "class"}, names(found))
	require.Equal(t, c.Drivers[2].Match[0], found[0].Pattern)
	for _, m := range found {
		require.False(t, m.Ambiguous)
	}
}

func TestEntriesThatMatchEquallyWellAreAmbiguous(t *testing.T) {
	c := &Catalog{Drivers: []Driver{
		{Name: "b", Match: []string{"pci:v00008086d000010D3sv*sd*bc*sc*i*"}},
		{Name: "worse", Match: []string{"pci:v00008086d*"}},
		{Name: "a", Match: []string{"pci:v00008086d000010D3*"}},
	}}
	found := c.Match(nic)
	require.Equal(t, []string{"a", "b", "worse"}, names(found))
	require.True(t, found[0].Ambiguous && found[1].Ambiguous)
	require.False(t, found[2].Ambiguous)
}

// The open modules load and bind to GPUs they cannot drive; the entry excludes
// them.
func TestAnOpenFlavourIsNotOfferedForCardsItCannotDrive(t *testing.T) {
	c, err := Default()
	require.NoError(t, err)
	require.Equal(t, []string{"nvidia-rhel", "suse-nvidia-proprietary"}, names(c.Match(tesla)))
	require.Equal(t, []string{"nvidia-rhel", "suse-nvidia-open", "suse-nvidia-proprietary", "ublue-nvidia-open"}, names(c.Match(t4)))
	require.Empty(t, c.Match(nic))

	open, _ := c.Driver("suse-nvidia-open")
	require.False(t, open.Serves(tesla))
	require.True(t, open.Serves(t4))
	byAliases := Driver{Name: "x", Except: []string{"pci:v000010DE*"}}
	require.False(t, byAliases.Serves(t4))
	require.True(t, byAliases.Serves(nic))
}

func TestGlobsThatCanMatchNothingAreNamed(t *testing.T) {
	for glob, want := range map[string]string{
		"pci:v00008086d000010D3sv*sd*bc02sc00i*":                "",
		"pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00": "",
		"pci:v00008086d*":                       "",
		"pci:v00008086d000010D3*":               "",
		"pci:*":                                 "",
		"pci:v000010DEd00001[0-9A-D]*":          "",
		"pci:v000010DEd00001B??sv*sd*bc*sc*i*":  "",
		"pci:v*d*sv*sd*bc02sc00i*":              "",
		"pci:v00008086*sc00i00":                 "",
		"virtio:d00000001v*":                    "",
		"v00008086d000010D3":                    "does not begin with a bus",
		"*":                                     "does not begin with a bus",
		"p*:v00008086*":                         "does not begin with a bus",
		"pci:v00008086d000010d3sv*sd*bc*sc*i*":  "10d3 is in lower case",
		"pci:v8086d10D3sv*sd*bc*sc*i*":          "v has 4 digits, the kernel writes 8",
		"pci:v00008086d000010D3":                "sv is missing",
		"pci:v00008086d000010D3sv*sd*bc02sc00i": "i is missing",
		"pci:d000010D3*":                        "v is missing",
		"pci:v00008086d000010D3sv*sd*bc0200*":   "bc has 4 digits",
		"pci:v00008086d0000[10D3*":              "bracket without its partner",
		"pci:vendor8086":                        "made of the tags",
	} {
		err := CheckGlob(glob)
		if want == "" {
			require.NoError(t, err, glob)
		} else {
			require.ErrorContains(t, err, want, glob)
		}
	}
}

func FuzzCheckGlob(f *testing.F) {
	f.Add("pci:v00008086d000010D3sv*sd*bc02sc00i*", nic)
	f.Fuzz(func(t *testing.T, glob, modalias string) {
		_ = CheckGlob(glob)
		_ = (&Catalog{Drivers: []Driver{{Name: "x", Match: []string{glob}}}}).Match(modalias)
	})
}
