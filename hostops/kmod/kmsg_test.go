package kmod_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/kmod"
)

// say appends to the node's kernel log.
func say(t testing.TB, n *hostops.Node, text string) {
	t.Helper()
	f, err := os.OpenFile(n.Path("/dev/kmsg"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func openLog(t testing.TB, n *hostops.Node) *kmod.Log {
	t.Helper()
	log, err := kmod.OpenLog(n)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}

func TestLogHoldsOnlyWhatCameSince(t *testing.T) {
	n := newNode(t)
	say(t, n, "6,100,900000,-;before\n")
	log := openLog(t, n)
	require.Empty(t, log.Lines())
	say(t, n, "4,101,1234567,-;e100 0000:00:04.0: Direct firmware load for e100/d101m_ucode.bin failed with error -2\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:04.0\n")
	say(t, n, "30,102,1300000,-;systemd[1]: Started e100-watch.\n")
	lines := log.Lines()
	require.Len(t, lines, 2)
	require.Equal(t, kmod.Line{
		Seq: 101, Since: 1234567 * time.Microsecond, Priority: 4, Device: "pci:0000:00:04.0",
		Text: "e100 0000:00:04.0: Direct firmware load for e100/d101m_ucode.bin failed with error -2",
	}, lines[0])
	require.Equal(t, 6, lines[1].Priority, "the facility is not the priority")
	require.Equal(t, "[    1.234567] "+lines[0].Text, lines[0].String())
	require.Equal(t, []string{lines[0].Text}, log.About("0000:00:04.0"))
}

func TestLogLinesAboutADriverAreWholeWords(t *testing.T) {
	for _, c := range []struct {
		text, subject string
		want          bool
	}{
		{"ice 0000:03:00.0: probe failed", "ice", true},
		{"device eth0 entered promiscuous mode", "ice", false},
		{"falco_probe: bye", "falco", false},
		{"ne2k-pci: loaded", "ne2k_pci", true},
		{"snd_hda_intel: x", "snd-hda-intel", true},
		{"e1000e: Intel(R)", "e1000", false},
		{"(ice)", "ice", true},
		{"ice", "ice", true},
		{"ice", "", false},
		{"pci 10000:01:00.0: x", "0000:01:00.0", false},
	} {
		require.Equal(t, c.want, kmod.Line{Text: c.text}.About(c.subject), "%s / %s", c.text, c.subject)
	}
	require.True(t, kmod.Line{Text: "link down", Device: "pci:0000:03:00.0"}.About("0000:03:00.0"))
}

func TestFloodingDriverFillsNoMemory(t *testing.T) {
	n := newNode(t)
	log := openLog(t, n)
	var flood strings.Builder
	for i := range 50000 {
		fmt.Fprintf(&flood, "3,%d,%d,-;baddrv: error %d\n", i, i, i)
	}
	say(t, n, flood.String())
	lines := log.Lines()
	require.Len(t, lines, 256+1+768)
	require.Equal(t, "baddrv: error 0", lines[0].Text)
	require.Contains(t, lines[256].Text, "48976 lines not kept")
	require.Equal(t, "baddrv: error 49999", lines[len(lines)-1].Text)
}

func TestOneReadOfAFloodIsBounded(t *testing.T) {
	n := newNode(t)
	log := openLog(t, n)
	line := "3,1,1,-;" + strings.Repeat("x", 4000) + "\n"
	say(t, n, strings.Repeat(line, 4000))
	count := func() int { return len(log.About(strings.Repeat("x", 4000))) }
	require.NotZero(t, count())
	require.Equal(t, 256+768, count(), "and the next call goes on")
}

func TestUnreadableLogSaysSo(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.Remove("/dev/kmsg"))
	log, err := kmod.OpenLog(n)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "/dev/kmsg cannot be read")
	require.Nil(t, log.Lines())
	require.Nil(t, log.About("ice"))
	require.NoError(t, log.Close())
}

func TestForgedAndBrokenRecordsAreNoLines(t *testing.T) {
	n := newNode(t)
	log := openLog(t, n)
	say(t, n, "garbage\n;\n1,2;x\na,b,c,-;x\n6,5,7,-,caller=T1;real\\x0aand more\n")
	lines := log.Lines()
	require.Len(t, lines, 1)
	require.Equal(t, `real\x0aand more`, lines[0].Text)
}

func TestRecordCutByTheReadIsPutTogether(t *testing.T) {
	n := newNode(t)
	log := openLog(t, n)
	say(t, n, "6,1,1,-;first ha")
	require.Empty(t, log.Lines())
	say(t, n, "lf\n")
	require.Equal(t, "first half", log.Lines()[0].Text)
}

func TestThisProcessBeganAfterBootAndBeforeNow(t *testing.T) {
	up, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	var seconds float64
	_, err = fmt.Sscan(string(up), &seconds)
	require.NoError(t, err)
	began := kmod.ProcessStart()
	require.Greater(t, began, time.Duration(0))
	require.Less(t, began.Seconds(), seconds+0.02)
}
