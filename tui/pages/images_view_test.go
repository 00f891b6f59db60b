package pages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/tui/choice"
)

func TestImageThatIsReadWholeIsBeingJudged(t *testing.T) {
	for percent, want := range map[int]string{0: "reading", 42: "reading 42%", 100: "judging"} {
		p := &Images{reading: 1, percent: percent}
		require.Equal(t, want, p.verdict(&choice.Offer{}, 1, 0))
		require.Equal(t, "waiting", p.verdict(&choice.Offer{}, 2, 0))
	}
}
