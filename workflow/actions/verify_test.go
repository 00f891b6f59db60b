package actions

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/nodes"
)

type lines []string

func (l *lines) Line(text string)         { *l = append(*l, text) }
func (*lines) Progress(done, total int64) {}

// bound is a node whose card a driver has.
func bound(t *testing.T, driver, module string) *hostops.Node {
	t.Helper()
	card := nodes.Card{Address: "0000:05:00.0", ID: "10de:1eb8", Subsystem: "10de:12a2", Class: "030200", Driver: driver, Module: module}
	n := hostops.At(nodes.Build(t, card, nodes.Disk), nil)
	require.NoError(t, n.WriteFile("/dev/kmsg", nil, 0o644))
	return n
}

var wanted = []VerifyDevice{{Address: "0000:05:00.0", Name: "Tesla T4", Module: "nvidia"}}

// Two modules list the card, and the other one took it.
func TestDeviceThatAnotherDriverTookIsNotDone(t *testing.T) {
	n := bound(t, "nouveau", "nouveau")
	v := &Verify{Driver: "nvidia", Devices: wanted}
	err := v.Do(t.Context(), n, &lines{})
	require.EqualError(t, err, "0000:05:00.0 is bound to nouveau of module nouveau, nvidia was expected")
	done, err := v.Done(t.Context(), n)
	require.NoError(t, err)
	require.False(t, done)
}

// The open flavour loads and binds, and says only in the kernel's log that it
// does not drive this card.
func TestDriverThatComplainsOfItsCardIsNotDone(t *testing.T) {
	const said = "NVRM: GPU 0000:05:00.0: RmInitAdapter failed! (0x22:0x56:762)"
	n := bound(t, "nvidia", "nvidia")
	v := &Verify{Driver: "nvidia", Devices: wanted}
	require.NoError(t, v.Do(t.Context(), n, &lines{}))
	require.True(t, v.Measured[0].OK)

	require.NoError(t, n.WriteFile("/dev/kmsg", []byte("3,1,9223372036854775,-;"+said+"\n"), 0o644))
	out := &lines{}
	err := v.Do(t.Context(), n, out)
	require.EqualError(t, err, "0000:05:00.0 is bound to nvidia; but the kernel log says: "+said)
	require.Equal(t, []string{said}, v.Measured[0].Log)
	require.False(t, v.Measured[0].OK)
	require.Contains(t, (*out)[0], said)
}
