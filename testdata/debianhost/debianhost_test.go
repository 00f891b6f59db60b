package debianhost_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/debianhost"
	"fitout/testdata/images"
	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// fitout is the binary under test.
var fitout string

func TestMain(m *testing.M) { program.Main(m, &fitout) }

// card is where the machine has its e1000e, whose driver its kernels lack.
const card = "/sys/bus/pci/devices/0000:00:05.0"

// kernels are four of Debian's.
type kernels struct {
	first   debian.Kernel // the host is installed with it
	covered debian.Kernel // the newest: the driver image has a build for it too
	twin    debian.Kernel // has none, but the symbol versions of one that has
	foreign debian.Kernel // has none, and symbol versions of its own
}

func (k kernels) all() []debian.Kernel { return []debian.Kernel{k.first, k.covered, k.twin, k.foreign} }

func someKernels(t testing.TB) (k kernels) {
	t.Helper()
	for get, to := range map[*debian.Kernel]func() (debian.Kernel, error){
		&k.first:   func() (debian.Kernel, error) { return debian.Older(2) },
		&k.covered: func() (debian.Kernel, error) { return debian.Newest(debian.Stock) },
		&k.twin:    func() (debian.Kernel, error) { return debian.Older(1) },
		&k.foreign: func() (debian.Kernel, error) { return debian.Newest(debian.RT) },
	} {
		var err error
		*get, err = to()
		require.NoError(t, err)
	}
	return k
}

// host is a machine with what the tests ask of it.
type host struct {
	t testing.TB
	*vm.Machine
}

// start boots the host with a stick that has the driver image in an OCI layout:
// tag 1 for the first two kernels, tag 2 for the foreign one too.
func start(t testing.TB, k kernels, change ...func(*vm.Config)) host {
	t.Helper()
	stick := t.TempDir()
	for tag, ks := range map[string][]debian.Kernel{"1": {k.first, k.covered}, "2": {k.first, k.covered, k.foreign}} {
		img, err := images.Build(images.Spec{Kernels: ks, Modules: []string{"e1000e"}, PerKernel: true})
		require.NoError(t, err)
		require.NoError(t, images.WriteLayout(img, filepath.Join(stick, "layout"), tag))
	}
	image, err := debianhost.Image(k.all(), "e1000e")
	require.NoError(t, err)
	config := vm.Config{
		Disk:    &vm.Disk{Image: image, Loader: debianhost.Loader},
		Devices: []string{"e1000e,addr=05.0"},
		Tools:   map[string]string{"fitout": fitout},
		Media:   map[string]string{"stick": stick},
	}
	for _, f := range change {
		f(&config)
	}
	return host{t, vm.Start(t, config)}
}

func (h host) on(t testing.TB) host { return host{t, h.Machine} }

// exits runs a command that must end with that code, and returns its output.
func (h host) exits(code int, cmd string) string {
	h.t.Helper()
	began := time.Now()
	out, got := h.RunFor(20*time.Minute, cmd)
	require.Equal(h.t, code, got, "%s\n%s", cmd, out)
	h.t.Logf("%5.1f s  %s", time.Since(began).Seconds(), cmd)
	return out
}

// ok runs a command that must succeed.
func (h host) ok(cmd string) string {
	h.t.Helper()
	return strings.TrimSpace(h.exits(0, cmd))
}

// apply fits the image of that tag, accepting those risks.
func (h host) apply(tag, when string, risks ...string) {
	h.t.Helper()
	h.ok("mountpoint -q /media/stick || mount -t squashfs -o ro /dev/disk/by-id/virtio-stick /media/stick")
	require.NoError(h.t, h.WriteFile("/root/answers.yaml", fmt.Sprintf(`apiVersion: fitout/v1
kind: Answers
metadata: {name: debian}
devices:
  - match: {id: "8086:10d3"}
    image: {reference: "oci:/media/stick/layout:%s"}
    when: %s
licences:
  - {id: e1000e, digest: %q, accepted: true, by: ops@example.com, at: "2026-11-30T12:00:00Z"}
acceptRisks: [%s]
`, tag, when, images.LicenceDigest(), strings.Join(risks, ", "))))
	h.ok("fitout --answers-file /root/answers.yaml")
}

// driver is what the card is bound to, "" for nothing.
func (h host) driver() string {
	h.t.Helper()
	return h.ok(`basename "$(readlink ` + card + `/driver)"`)
}

// apt runs apt-get, which asks nobody.
func (h host) apt(code int, args string) string {
	h.t.Helper()
	return h.exits(code, "DEBIAN_FRONTEND=noninteractive apt-get -y "+args+" 2>&1")
}

// whole says that dpkg has nothing to complain of.
func (h host) whole() {
	h.t.Helper()
	require.Empty(h.t, h.ok("dpkg --audit"))
}

// monotonic is when that happened to a unit ("ActiveEnter"), in seconds since
// the kernel began.
func (h host) monotonic(what, unit string) float64 {
	h.t.Helper()
	us, err := strconv.ParseFloat(h.ok("systemctl show -P "+what+"TimestampMonotonic "+unit), 64)
	require.NoError(h.t, err)
	require.NotZero(h.t, us, "%s: %s was never", unit, what)
	return us / 1e6
}

var stamp = regexp.MustCompile(`^\[ *([0-9.]+)\]`)

// bound is when the driver announced the card's interface, in seconds since the
// kernel began.
func (h host) bound() float64 {
	h.t.Helper()
	line := h.ok("dmesg | grep -m 1 'e1000e 0000:00:05.0.*PCI Express'")
	m := stamp.FindStringSubmatch(line)
	require.NotNil(h.t, m, line)
	s, err := strconv.ParseFloat(m[1], 64)
	require.NoError(h.t, err)
	return s
}

// steps runs parts of a test that rest on each other.
func (h host) steps(parts ...part) {
	h.t.Helper()
	for _, p := range parts {
		ok := h.t.(*testing.T).Run(p.name, func(t *testing.T) { p.do(h.on(t)) })
		require.True(h.t, ok, "what comes next rests on this")
	}
}

type part struct {
	name string
	do   func(host)
}

func TestKernelUpgradesOnDebian(t *testing.T) {
	t.Parallel()
	k := someKernels(t)
	h := start(t, k)
	require.Equal(t, k.first.Release, h.ok("uname -r"))
	require.Empty(t, h.driver())
	h.steps(
		part{"a kept driver is bound at once", func(h host) {
			h.apply("1", "load-now+persist", "kabi-match")
			require.Equal(h.t, "e1000e", h.driver())
		}},
		part{"a kernel without a build is refused before it is unpacked", func(h host) { refused(h, k.foreign) }},
		part{"an override lets it through once", func(h host) { allowed(h, k.foreign) }},
		part{"a kernel passes that has a build, or whose symbol versions one fits", func(h host) {
			require.Contains(h.t, h.ok("fitout check --rehearse --kernel "+k.covered.Release), "has every kept driver")
			h.apt(0, "install "+debianhost.Package(k.twin)+" "+debianhost.Package(k.covered))
			h.ok("linux-update-symlinks install " + k.covered.Release + " /boot/vmlinuz-" + k.covered.Release) // the one configured last boots next
			h.whole()
			require.Regexp(h.t, regexp.QuoteMeta(k.twin.Release)+` .*OK KABI, kept`, h.ok("fitout status"))
		}})
	require.NoError(t, h.Reboot())
	h.steps(part{"after the reboot the card is bound before network-pre.target", func(h host) { boundEarly(h, k.covered) }})
}

// allowed asks dpkg itself, which leaves the package unpacked.
func allowed(h host, foreign debian.Kernel) {
	unpack := "dpkg --unpack /srv/debian/" + debianhost.Package(foreign) + "_*.deb 2>&1"
	h.ok("fitout allow " + foreign.Release)
	h.ok(unpack)
	require.Contains(h.t, h.ok("journalctl -b -t fitout -o cat"), "allowed once")
	require.Contains(h.t, h.exits(1, unpack), "kernel "+foreign.Release+" refused")
	h.ok("dpkg --purge " + debianhost.Package(foreign) + " 2>&1")
	h.whole()
}

// boundEarly is what a boot into a kernel with a build must show.
func boundEarly(h host, k debian.Kernel) {
	require.Equal(h.t, k.Release, h.ok("uname -r"))
	require.Equal(h.t, "e1000e", h.driver())
	bound, unit, network := h.bound(), h.monotonic("ActiveEnter", "fitout-drivers.service"), h.monotonic("ActiveEnter", "network-pre.target")
	h.t.Logf("bound at %.2f s, unit done at %.2f s, network-pre.target at %.2f s", bound, unit, network)
	require.Less(h.t, bound, network)
	require.LessOrEqual(h.t, unit, network)
	require.Contains(h.t, h.ok("cat /var/lib/fitout/boot.json"), `"state": "loaded"`)
}

// refused tries to install a kernel that has no build of its own.
func refused(h host, bare debian.Kernel) {
	out := h.apt(100, "install "+debianhost.Package(bare))
	for _, word := range []string{"kernel " + bare.Release + " refused", "driver e1000e", "8086:10d3", "fitout apply", "fitout allow " + bare.Release} {
		require.Contains(h.t, out, word)
	}
	h.whole()
	require.Empty(h.t, h.ok("ls -d /lib/modules/"+bare.Release+" /boot/*"+bare.Release+" /var/lib/fitout/pending 2>/dev/null || true"), "nothing of it is left")
	for cmd, says := range map[string]string{
		"cat /run/motd.d/fitout":         bare.Release,
		"journalctl -b -t fitout -o cat": bare.Release,
		"cat /var/lib/fitout/blocked/*":  `"driver": "e1000e"`,
		"fitout status":                  "UPGRADE BLOCKED for kernel " + bare.Release,
	} {
		require.Contains(h.t, h.ok(cmd), says, cmd)
	}
	require.Contains(h.t, h.exits(6, "fitout check --rehearse --kernel "+bare.Release), "gate   kernel "+bare.Release+" refused")
}
