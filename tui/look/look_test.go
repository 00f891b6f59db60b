package look

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/tui/term"
)

func TestHostileTextIsMadeVisible(t *testing.T) {
	require.Equal(t, "a    b^[[31mred^? <202e>", Clean("a\tb\x1b[31mred\x7f \u202e"))
	require.Equal(t, "one two", Line("one\r\ntwo"))
	require.Equal(t, "?", Clean("\xff"))
}

func TestPlainTerminalsGetASCIIAlone(t *testing.T) {
	require.Equal(t, `(R) "x" - Uebel ?`, ASCII("® “x” – Übel ⣟"))
	require.Equal(t, "e", ASCII("e\u0301"))
}

func TestLinesAreCutWithAMarkNeverWrapped(t *testing.T) {
	require.Equal(t, "abc~", Cut("abcdef", 4))
	require.Equal(t, "abcd", Cut("abcd", 4))
	require.Equal(t, "", Cut("abcd", 0))
	require.Equal(t, 6, Width(Pad("名前x", 6)))
}

func TestOneLongWordIsBrokenToTheWidth(t *testing.T) {
	lines := Wrap(strings.Repeat("x", 10_000), 77)
	require.Len(t, lines, 130)
	for _, l := range lines {
		require.LessOrEqual(t, Width(l), 77)
	}
}

func TestStateColumnIsNeverDropped(t *testing.T) {
	cols := []Column{{Head: "Device"}, {Head: "Id", Width: 10, Drop: 1}, {Head: "Driver", Width: 13, Drop: 2}, {Head: "State", Width: 16}}
	require.Equal(t, []string{"Device", "Id", "Driver", "State"}, strings.Fields(NewTable(77, cols...).Heads()))
	require.Equal(t, []string{"Device", "Id", "State"}, strings.Fields(NewTable(50, cols...).Heads()))
	require.Equal(t, []string{"Device", "State"}, strings.Fields(NewTable(35, cols...).Heads()))
}

func TestSmallScreensDropHintsThenDetails(t *testing.T) {
	block := func(keep, n int) Block { return Block{Lines: make([]string, n), Keep: keep} }
	named := func(keep int, lines ...string) Block { return Block{Lines: lines, Keep: keep} }
	all := []Block{named(Info, "info"), named(Need, "list"), named(Detail, "detail"), named(Hint, "hint")}
	require.Equal(t, []string{"info", "", "list", "", "detail", "", "hint"}, Fit(7, all...))
	require.Equal(t, []string{"info", "list", "detail"}, Fit(3, all...))
	require.Equal(t, []string{"info", "list"}, Fit(2, all...))
	require.Equal(t, []string{"list"}, Fit(1, all...))
	require.Len(t, Fit(4, block(Need, 9)), 4)
}

func TestKeyLineKeepsHelpAndQuit(t *testing.T) {
	th := New(term.Profile{Mode: term.Basic})
	keys := []Key{{"Up/Down", "move"}, {"Space", "select"}, {"Enter", "detail"}, {"r", "refresh the catalog"}, {"?", "help"}, {"q", "quit"}}
	require.Equal(t, " Up/Down move  Space select  ? help  q quit", th.keyLine(keys, 44))
	require.Equal(t, " ? help  q quit", th.keyLine(keys, 20))
}

func TestBarShowsWhatIsDone(t *testing.T) {
	th := New(term.Profile{Mode: term.Basic})
	require.Equal(t, "#####.....", th.Bar(10, 50, 100))
	require.Equal(t, "..........", th.Bar(10, 5, 0))
	require.Equal(t, "##########", th.Bar(10, 200, 100))
}
