package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
)

// A kernel has ice, and ice is loaded; its list lacks the new card.
func TestNewCardOfAnOldDriverIsSaidToHaveNone(t *testing.T) {
	card := nodes.Card{Address: "0000:05:00.0", ID: "8086:fff1", Subsystem: "8086:0000", Class: "020000"}
	other := nodes.Card{Address: "0000:06:00.0", ID: "8086:189b", Subsystem: "8086:0000", Class: "020000", Driver: "ice", Module: "ice", NetDev: "eth0"}
	root := nodes.Build(t, card, other, nodes.Disk)
	for name, line := range map[string]string{
		"modules.alias": "alias pci:v00008086d0000189Bsv*sd*bc*sc*i* ice\n",
		"modules.dep":   "kernel/drivers/net/ethernet/intel/ice/ice.ko:\n",
	} {
		f, err := os.OpenFile(filepath.Join(root, "lib/modules", nodes.Release, name), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(line)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for _, name := range []string{"modules.alias.bin", "modules.dep.bin"} {
		_ = os.Remove(filepath.Join(root, "lib/modules", nodes.Release, name))
	}
	r := call(t, "--root", root, "devices", "--json")
	require.Equal(t, 0, r.code, r.err)
	var list struct {
		Scanned int
		Missing []string
		Items   []struct {
			Address, State, SubsystemVendorID, SubsystemDeviceID string
			Driver, Name                                         *string
			Candidates                                           []any
			NearMisses                                           []string
			Findings                                             []struct{ Code, Message string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &list))
	require.Equal(t, 3, list.Scanned)
	require.Equal(t, []string{card.Address}, list.Missing)
	for _, d := range list.Items {
		if d.Address != card.Address {
			require.NotNil(t, d.Driver)
			continue
		}
		require.Nil(t, d.Driver)
		require.Nil(t, d.Name, "no database knows it")
		require.Equal(t, "8086 0000", d.SubsystemVendorID+" "+d.SubsystemDeviceID)
		require.Equal(t, "no-image", d.State)
		require.Empty(t, d.Candidates)
		require.Equal(t, []string{"ice"}, d.NearMisses)
		messages := map[string]string{}
		for _, f := range d.Findings {
			messages[f.Code] = f.Message
		}
		require.Equal(t, "ice is there, and its list lacks 8086:fff1", messages["near-miss"])
	}

	require.NoError(t, os.Remove(filepath.Join(root, "sys/bus/pci/devices", card.Address)))
	r = call(t, "--root", root, "devices", "--json")
	require.Contains(t, r.out, `"missing": []`)
}
