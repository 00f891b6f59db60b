package fetching

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm/debian"
)

// memoryAllowed is the most memory that reading any image may take.
const memoryAllowed = 64 << 20

// inspectEndless lets a fitout process read an image of that many bytes, which
// no disk has to hold, and gives what it used.
func inspectEndless(t testing.TB, bin string, size int64) (cost, *endless) {
	k, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	rel, err := k.Module("e1000e")
	require.NoError(t, err)
	module, err := os.ReadFile(filepath.Join(k.Modules(), rel))
	require.NoError(t, err)
	content, err := os.ReadFile(k.Vmlinuz())
	require.NoError(t, err)
	e := newEndless(t, size, append(content[:1<<19:1<<19], module...), module, "opt/lib/modules/"+k.Release+"/"+rel)
	c := serve(t, e)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, c.ca(), 0o644))
	used := run(t, t.TempDir(), []string{"SSL_CERT_FILE=" + ca, "TMPDIR=" + onDisk(t)},
		fmt.Sprintf("exec %s image inspect --json %s/drivers/endless:1", bin, c.host()))
	require.Contains(t, used.Out, `"e1000e"`)
	require.GreaterOrEqual(t, c.bytes.Load(), e.size)
	return used, e
}

// Memory does not grow with the image: what a process has at its peak is
// measured from outside.
func TestMemoryDoesNotGrowWithTheImage(t *testing.T) {
	bin := fitout(t)
	small, _ := inspectEndless(t, bin, 32<<20)
	large, e := inspectEndless(t, bin, 1<<30)
	t.Logf("peak memory: %.1f MiB for an image of 32 MiB, %.1f MiB for one of 1 GiB (%.2f GiB compressed)",
		float64(small.RSS)/(1<<20), float64(large.RSS)/(1<<20), float64(e.size)/(1<<30))
	require.LessOrEqual(t, large.RSS, int64(memoryAllowed))
}

// BenchmarkMemory reads images of 1 GiB and 10 GiB.
func BenchmarkMemory(b *testing.B) {
	bin := fitout(b)
	for _, gib := range []int64{1, 10} {
		b.Run(fmt.Sprintf("%dGiB", gib), func(b *testing.B) {
			for b.Loop() {
				used, e := inspectEndless(b, bin, gib<<30)
				require.LessOrEqual(b, used.RSS, int64(memoryAllowed))
				b.ReportMetric(float64(used.RSS)/(1<<20), "peak-MiB")
				b.ReportMetric(used.CPU.Seconds(), "cpu-s")
				b.ReportMetric(float64(e.size)/(1<<30), "fetched-GiB")
			}
		})
	}
}
