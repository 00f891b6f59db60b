package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// second is another console of the machine.
type second struct{ node }

// screen waits until the second console shows a text, and returns what it shows.
func (s second) screen(text string) string {
	s.t.Helper()
	var shown string
	for end := time.Now().Add(patience); !strings.Contains(shown, text); time.Sleep(300 * time.Millisecond) {
		require.True(s.t, time.Now().Before(end), "the second console does not show %q, but:\n%s", text, shown)
		shown, _ = s.Run("cat /tmp/second")
	}
	return shown
}

func (s second) keys(keys string) {
	s.t.Helper()
	time.Sleep(3 * pause) // the page is deaf for a moment, longer on a busy host
	s.ok("printf '" + keys + "' >/tmp/keys")
}

// onSecond runs a command on the second console.
func (n node) onSecond(cmd string) second {
	n.t.Helper()
	n.ok("rm -f /tmp/keys /tmp/second; mkfifo /tmp/keys; TERM=vt220 setsid /tools/console /tmp/keys /tmp/second " + cmd + " </dev/null >/tmp/second.log 2>&1 &")
	return second{n}
}

// pids are the processes whose command line begins like that, the oldest first.
func (n node) pids(cmdline string) []string {
	n.t.Helper()
	return strings.Fields(n.ok("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^" + cmdline + "' && echo ${p#/proc/}; done | sort -n"))
}

// holdRun lets the next run stop when its first step has begun, so that it takes
// as long as a test wants. The shell's read drops the zero bytes of a command
// line. free lets it go on.
func (n node) holdRun() (held func(), free func()) {
	n.t.Helper()
	n.ok(`rm -f /tmp/held
(while :; do
	for p in /proc/[0-9]*; do
		line=
		read -r line <$p/cmdline
		case $line in *fitoutrun*)
			run=${line##*fitoutrun} # the id, and --mode run
			until grep -q '"event":"step"' "/var/lib/fitout/runs/${run%%--*}/journal.jsonl"; do usleep 20000; done
			kill -STOP "${p#/proc/}" && echo "${p#/proc/}" >/tmp/held
			exit ;;
		esac
	done
	usleep 50000
done) </dev/null >/dev/null 2>&1 &`)
	held = func() {
		n.t.Helper()
		require.Eventually(n.t, func() bool {
			_, code := n.Run("test -s /tmp/held")
			return code == 0
		}, patience, 300*time.Millisecond, "no runner was held")
	}
	free = func() { n.Run("kill -CONT $(cat /tmp/held)") }
	n.t.Cleanup(free)
	return held, free
}

// printk is the level up to which the kernel writes on the console.
func (n node) printk() string { return strings.Fields(n.ok("cat /proc/sys/kernel/printk"))[0] }

// consoleMachine is a machine with a card without a driver, the driver on a
// stick, and the program for a second console.
func consoleMachine(t *testing.T) node {
	t.Helper()
	stock := kernel(t, debian.Stock)
	stick := t.TempDir()
	build(t, images.Spec{Kernels: []debian.Kernel{stock}, Modules: []string{"e1000e"}}).archive(filepath.Join(stick, "e1000e.tar"), "3.8.7")
	entry := images.Entry{
		Name: "e1000e-stick", Title: "Intel PRO/1000 PCIe, from a stick", Modules: []string{"e1000e"},
		Match:     []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: "oci-archive:/media/stick/e1000e.tar:3.8.7", Licence: "gpl",
	}
	return start(t, vm.Config{
		Kernel: stock, RemoveModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=05.0"},
		Media: map[string]string{"stick": stick},
		Files: map[string]string{"/etc/fitout/catalog.d/stick.yaml": images.Catalog(entry)},
	}, "console")
}

// The kernel talks while the wizard is on its console, the screen is killed, and
// a second person comes while a run is going on.
func TestConsoleIsSharedWithTheKernelAndASecondPerson(t *testing.T) {
	machine := consoleMachine(t)

	t.Run("kernel messages stay off the screen, and Ctrl-L wipes those that do not", func(t *testing.T) {
		n := machine.on(t)
		n.sees("machine#", patience)
		before := n.ok("cat /proc/sys/kernel/printk")
		n.types("clear; fitout" + vm.Enter)
		n.sees("1/7 Hardware", patience)
		require.Equal(t, "1", n.printk())
		n.ok("for i in 1 2 3 4 5; do echo '<3>usb 1-1: device not responding' >/dev/kmsg; done")
		n.sees("1/7 Hardware", time.Second)
		require.NotContains(t, n.Console.Text(), "not responding")
		n.ok("echo '<0>the sky is falling' >/dev/kmsg")
		require.NoError(t, n.Console.WaitFor("the sky is falling", patience))
		n.types(vm.CtrlL)
		require.NoError(t, n.Console.WaitUntil("a clean screen", patience, func(screen string) bool {
			return !strings.Contains(screen, "the sky is falling") && strings.Contains(screen, "1/7 Hardware") && strings.Contains(screen, "8086:10d3")
		}))
		n.types("q")
		n.sees("machine#", patience)
		require.Equal(t, before, n.ok("cat /proc/sys/kernel/printk"))
	})

	t.Run("a killed screen gives the level and the line back", func(t *testing.T) {
		n := machine.on(t)
		before := n.ok("cat /proc/sys/kernel/printk")
		n.types("clear; fitout" + vm.Enter)
		n.sees("1/7 Hardware", patience)
		require.Equal(t, "1", n.printk())
		screens := n.pids("[^ ]*fitout ")
		require.Len(t, screens, 2, "one that draws, and one that gives the terminal back")
		n.ok("kill -9 " + screens[1])
		n.sees("machine#", patience)
		require.Equal(t, before, n.ok("cat /proc/sys/kernel/printk"))
		n.types("echo still $((20+3))" + vm.Enter)
		n.sees("still 23", patience)
	})

	t.Run("the kernel's lines about a card are on its page", func(t *testing.T) {
		n := machine.on(t)
		n.types("clear; fitout" + vm.Enter)
		n.sees("8086:10d3", patience)
		n.types(vm.Enter)
		n.sees("0000:00:05.0", patience)
		n.types("m")
		n.sees("[8086:10d3]", patience) // as the kernel says it when it finds a function
		n.types(vm.CtrlC)
		n.sees("machine#", patience)
	})

	t.Run("Ctrl-C in a run undoes what it did and ends with 11", func(t *testing.T) {
		n := machine.on(t)
		n.sees("machine#", patience)
		before := n.state()
		n.types("clear; fitout; echo ended with $?" + vm.Enter)
		toThePlan(n)
		free := runHeld(n)
		n.types(vm.CtrlC)
		n.sees("It stops after this step", patience)
		free()
		n.sees("STOPPED", runTime)
		require.Equal(t, "", n.driver("05.0"))
		require.Equal(t, before, n.state())
		n.types("q")
		n.sees("ended with 11", patience)
	})

	t.Run("a second console is offered to watch the run or to leave it", func(t *testing.T) {
		n := machine.on(t)
		n.types("clear; fitout" + vm.Enter)
		toThePlan(n)
		free := runHeld(n)

		two := n.onSecond("fitout")
		shown := two.screen("A run is in progress")
		require.Contains(t, shown, "> 1 watch it")
		require.Contains(t, shown, "3 leave it alone and quit")
		two.keys("3\\r")
		require.Contains(t, two.screen("exit 10"), "fitout attach")

		two = n.onSecond("fitout")
		two.screen("A run is in progress")
		two.keys("\\r")
		two.screen("7/7 Running")
		free()
		require.NoError(t, n.Console.WaitFor("1 of 1 device as wanted", runTime))
		two.screen("1 of 1 device as wanted")
		two.keys("q")
		two.screen("exit 0")
		n.types("q")
		n.sees("machine#", patience)
		require.Equal(t, "e1000e", n.driver("05.0"))
	})
}

// toThePlan goes from the first page to the plan.
func toThePlan(n node) {
	n.t.Helper()
	n.sees("8086:10d3", patience) // the page's title is there before what was found
	n.types("n")
	n.sees("recommended: ", runTime) // the kernel's symbols are read the first time
	n.types(vm.Enter)
	require.NoError(n.t, n.Console.WaitUntil("the licence, or what follows when it was accepted before", patience, func(screen string) bool {
		return strings.Contains(screen, "4/7 Licence") || strings.Contains(screen, "5/7 When")
	}))
	if strings.Contains(n.Console.Text(), "4/7 Licence") {
		n.sees("4/7 Licence", patience)
		n.types("accept" + vm.Enter)
		n.sees("Accepted by", patience)
		n.types(vm.Enter)
	}
	n.sees("5/7 When", patience)
	n.types(n.digitOf("Load now only"))
	n.types(vm.Enter)
	n.sees("type  run", patience)
}

// runHeld types the word that starts the run, and returns when the run is held.
func runHeld(n node) (free func()) {
	n.t.Helper()
	held, free := n.holdRun()
	n.types("run" + vm.Enter)
	require.NoError(n.t, n.Console.WaitFor("7/7 Running", patience))
	held()
	return free
}
