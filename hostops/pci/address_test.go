package pci

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func at(addresses ...string) []Device {
	var all []Device
	for _, a := range addresses {
		all = append(all, Device{Address: a})
	}
	return all
}

func TestAddressNeverLosesItsDomain(t *testing.T) {
	devices := at("0000:04:00.0", "0000:70:00.0", "0001:04:00.0", "0001:05:00.1", "20000:70:00.0")
	for _, c := range []struct {
		given, found string
		ambiguous    []string
		missing      bool
	}{
		{given: "0001:04:00.0", found: "0001:04:00.0"},
		{given: "20000:70:00.0", found: "20000:70:00.0"},
		{given: "0000:70:00.0", found: "0000:70:00.0"},
		{given: "05:00.1", found: "0001:05:00.1"},
		{given: "0001:05:00.1\n", found: "0001:05:00.1"},
		{given: "04:00.0", ambiguous: []string{"0000:04:00.0", "0001:04:00.0"}},
		{given: "70:00.0", ambiguous: []string{"0000:70:00.0", "20000:70:00.0"}},
		{given: "0002:04:00.0", missing: true},
		{given: "10000:70:00.0", missing: true},
		{given: "04:00", missing: true},
		{given: "", missing: true},
		{given: "04:00.8", missing: true},
	} {
		i, err := Find(devices, c.given)
		var ambiguous *AmbiguousAddressError
		var missing *NoDeviceError
		switch {
		case c.missing:
			require.ErrorAs(t, err, &missing, c.given)
		case c.ambiguous != nil:
			require.ErrorAs(t, err, &ambiguous, c.given)
			require.Equal(t, c.ambiguous, ambiguous.Full)
			require.Contains(t, err.Error(), c.ambiguous[0]+" or "+c.ambiguous[1])
		default:
			require.NoError(t, err, c.given)
			require.Equal(t, c.found, devices[i].Address)
		}
	}
}

func TestAddressesSortAsNumbers(t *testing.T) {
	sorted := []string{"0000:00:02.0", "0000:00:1f.6", "0000:ff:00.0", "0001:00:00.0", "10000:00:04.0", "100000000:00:00.0", "rubbish"}
	for i, a := range sorted {
		for j, b := range sorted {
			require.Equal(t, i < j, CompareAddress(a, b) < 0, "%s %s", a, b)
		}
	}
}

func TestWhatIsNoAddressIsNotTakenForOne(t *testing.T) {
	for s, want := range map[string]bool{
		"0000:00:02.0": true, "10000:E1:1f.7": true, "00:02.0": false, "0000:00:20.0": false, "0000:00:02.8": false,
		"0000:000:02.0": false, "0000:00:02": false, "0x00:00:02.0": false, "\x10000:00:02.0": false, "": false, "virtio0": false,
	} {
		require.Equal(t, want, IsAddress(s), "%q", s)
	}
}
