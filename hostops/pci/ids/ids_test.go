package ids

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/assets"
)

// whole puts the text of a pack together again.
func whole(t *testing.T, p *Pack) []byte {
	t.Helper()
	var out bytes.Buffer
	vendor := ""
	for i := range p.chunks() {
		text, err := p.chunk(i)
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			if line[0] != '\t' && string(line) == vendor {
				continue // the copy at the head of a chunk
			}
			if line[0] != '\t' {
				vendor = string(line)
			}
			out.Write(line)
		}
	}
	return out.Bytes()
}

// keysOf lists every vendor and device of a text.
func keysOf(text []byte) []Key {
	var keys []Key
	vendor := ""
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "C "):
			return keys
		case strings.HasPrefix(line, "\t\t") || line[0] == '#' || line == "\n":
		case line[0] == '\t':
			keys = append(keys, Key{vendor, line[1:5]})
		default:
			vendor = line[:4]
			keys = append(keys, Key{Vendor: vendor})
		}
	}
	return keys
}

func TestThePackedDatabaseAnswersAsItsText(t *testing.T) {
	p, err := Open(assets.PCIIDs)
	require.NoError(t, err)
	require.Equal(t, "2023-04-10 20:08:02", p.Date)
	text := whole(t, p)
	keys := keysOf(text)
	require.Greater(t, len(keys), 19000)
	for i, k := range keys {
		if i%40 != 0 {
			continue
		}
		got, err := Cut(p, []Key{k})
		require.NoError(t, err)
		want, err := Cut(Text(text), []Key{k})
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), k)
		require.Contains(t, string(got), k.Device+"  ", k)
	}
}

const small = `#
#	Date:    2024-01-02 03:04:05
#
# comment
0001  First
	0000  Zero
0002  Second
	0010  Ten
# about a subsystem
		0001 0002  Board
		0001 0003  Other board
	0011  Eleven
8086  Intel Corporation
	10d3  82574L Gigabit Network Connection
		8086 a01f  Gigabit CT Desktop Adapter
ffff  Illegal Vendor ID

# classes
C 00  Unclassified device
	00  Non-VGA unclassified device
C 02  Network controller
	00  Ethernet controller
		01  Interface
`

func TestCutTakesTheLinesOfTheWantedDevicesOnly(t *testing.T) {
	var packed bytes.Buffer
	require.NoError(t, Write(&packed, []byte(small)))
	pack, err := Open(packed.Bytes())
	require.NoError(t, err)
	classes := small[strings.Index(small, "C 00"):]
	for _, c := range []struct {
		keys []Key
		want string
	}{
		{[]Key{{"8086", "10d3"}}, "8086  Intel Corporation\n\t10d3  82574L Gigabit Network Connection\n\t\t8086 a01f  Gigabit CT Desktop Adapter\n"},
		{[]Key{{"0002", "0011"}, {"0001", "0000"}, {"0002", "0011"}}, "0001  First\n\t0000  Zero\n0002  Second\n\t0011  Eleven\n"},
		{[]Key{{"0002", ""}}, "0002  Second\n"},
		{[]Key{{"0002", "ffff"}}, "0002  Second\n"},
		{[]Key{{"0000", "0000"}, {"abcd", "0001"}}, ""},
		{[]Key{{"ffff", "0001"}}, "ffff  Illegal Vendor ID\n"},
	} {
		for _, from := range []Source{Text(small), pack} {
			got, err := Cut(from, c.keys)
			require.NoError(t, err)
			require.Equal(t, c.want+vendorTrailer+classes+classTrailer, string(got), fmt.Sprint(c.keys))
		}
	}
	got, err := Cut(pack, []Key{{"0002", "0010"}})
	require.NoError(t, err)
	require.Contains(t, string(got), "\t0010  Ten\n\t\t0001 0002  Board\n\t\t0001 0003  Other board\n")
}

func TestADamagedPackIsAnErrorNotACrash(t *testing.T) {
	for cut := range 60 {
		_, err := Open(assets.PCIIDs[:cut/2])
		require.Error(t, err)
	}
	b := bytes.Clone(assets.PCIIDs)
	for i := 40; i < len(b); i += 97 {
		b[i] ^= 0xff
	}
	p, err := Open(b)
	if err == nil {
		_, err = Cut(p, []Key{{"8086", "10d3"}, {"10de", "1eb8"}})
	}
	require.ErrorIs(t, err, errDamaged)
}

func TestATextOutOfOrderIsNotPacked(t *testing.T) {
	var out bytes.Buffer
	require.Error(t, Write(&out, []byte(strings.Replace(small, "\t0011  Eleven", "\t0001  Eleven", 1))))
	require.Error(t, Write(&out, []byte("0001  x\nC 00  y\n")), "no date")
	require.Error(t, Write(&out, []byte("#\tDate: x\n0001  x\n")), "no classes")
}

func FuzzCut(f *testing.F) {
	f.Add([]byte(small), "8086", "10d3")
	f.Add([]byte("C "), "", "")
	f.Fuzz(func(t *testing.T, text []byte, vendor, device string) {
		_, err := Cut(Text(text), []Key{{vendor, device}})
		require.NoError(t, err)
		if p, err := Open(text); err == nil {
			_, _ = Cut(p, []Key{{vendor, device}})
		}
	})
}
