package e2e_test

import (
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm"
)

// Limits of what a person would wait for, under emulation on a busy host.
const (
	patience = 90 * time.Second
	runTime  = 5 * time.Minute
	// pause is how long a page must be still before keys are typed: under
	// emulation it is drawn bit by bit, and the wizard is deaf for a moment, so
	// that no key goes to a page that was not seen.
	pause = time.Second
)

// sees waits for a text on the screen, and holds that the screen is fit for a
// VT220: 24 lines, ASCII alone.
func (n node) sees(text string, limit time.Duration) {
	n.t.Helper()
	require.NoError(n.t, n.Console.WaitFor(text, limit))
	n.Console.Settle(pause, 3*pause)
	for _, line := range n.Console.Screen() {
		require.False(n.t, strings.ContainsFunc(line, func(r rune) bool { return r > 126 }), "not ASCII: %q", line)
	}
}

// types sends keys to the page that is on the screen.
func (n node) types(keys string) {
	n.t.Helper()
	require.NoError(n.t, n.Console.Type(keys))
}

// digitOf finds the number of a choice on the screen ("  2 load now and keep").
func (n node) digitOf(choice string) string {
	n.t.Helper()
	m := regexp.MustCompile(`(\d) ` + choice).FindStringSubmatch(n.Console.Text())
	require.NotNil(n.t, m, "no choice %q on the screen:\n%s", choice, n.Console.Text())
	return m[1]
}

// walkWizard fits the e1000e card out, page by page, and returns the answers
// file that the wizard saved.
func walkWizard(n node) string {
	n.t.Helper()
	n.sees("machine#", patience)
	n.types("clear; fitout" + vm.Enter)
	began := time.Now()
	n.sees("1/7 Hardware", patience)
	n.t.Logf("command to first page: %.1f s", time.Since(began).Seconds())
	n.sees("8086:10d3", patience)
	n.sees("NEEDS DRIVER", patience)
	n.types("n")
	n.sees("3/7 Image", patience)
	n.sees("recommended: ", runTime)
	n.types(vm.Enter)
	n.sees("4/7 Licence", patience)
	n.types("accept" + vm.Enter)
	n.sees("Accepted by", patience)
	n.types(vm.Enter)
	n.sees("5/7 When", patience)
	n.types(n.digitOf("Load now and keep"))
	n.types(vm.Enter)
	n.sees("6/7 Plan", patience)
	n.sees("type  run", patience)
	require.Equal(n.t, "", n.driver("05.0"), "nothing is done before the word is typed")
	n.types("run" + vm.Enter)
	began = time.Now()
	require.NoError(n.t, n.Console.WaitUntil("the end of the run", runTime, func(screen string) bool {
		return strings.Contains(screen, "DONE  ") || strings.Contains(screen, "FAILED") || strings.Contains(screen, "Trouble")
	}))
	n.t.Logf("run to result: %.1f s", time.Since(began).Seconds())
	n.sees("1 of 1 device as wanted", time.Second)
	n.sees("e1000e", time.Second)
	require.Equal(n.t, "e1000e", n.driver("05.0"))
	n.types("q")
	n.sees("machine#", patience)

	saved := n.ok("cat /var/lib/fitout/answers.yaml")
	n.exits(0, "fitout answers check /var/lib/fitout/answers.yaml")
	return saved
}
