package debianhost_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm"
)

// BenchmarkBoot measures, from the kernel's first instruction, when the card is
// bound and when the system is up, with the driver kept in each way and with the
// same module laid into the OS by hand. The figures are medians, in the
// machine's own seconds, of which each has 500 million instructions.
func BenchmarkBoot(b *testing.B) {
	k := someKernels(b)
	h := start(b, k, func(c *vm.Config) { c.CountsInstructions = true })
	module := "/var/lib/fitout/tree/lib/modules/" + k.first.Release + "/updates/e1000e/e1000e.ko"
	for _, way := range []struct {
		name string
		set  func(host)
	}{
		{"at-boot", func(h host) { h.apply("1", "load-now+at-boot") }},
		{"side-tree", func(h host) { h.apply("1", "load-now+persist") }},
		{"by-hand", func(h host) {
			h.ok("mkdir -p /lib/modules/$(uname -r)/updates && cp " + module + " /lib/modules/$(uname -r)/updates/ && fitout remove e1000e --yes && depmod")
		}},
	} {
		way.set(h)
		b.Run(way.name, func(b *testing.B) {
			h := h.on(b)
			var bound, hook, up []float64
			for range b.N {
				require.NoError(b, h.Reboot())
				require.Equal(b, "e1000e", h.driver())
				bound, up = append(bound, h.bound()), append(up, h.monotonic("ActiveEnter", "multi-user.target"))
				if way.name != "by-hand" {
					hook = append(hook, h.monotonic("ExecMainExit", "fitout-drivers.service")-h.monotonic("ExecMainStart", "fitout-drivers.service"))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(bound), "s-bound")
			b.ReportMetric(median(hook), "s-hook")
			b.ReportMetric(median(up), "s-up")
		})
	}
}

// median is 0 of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
