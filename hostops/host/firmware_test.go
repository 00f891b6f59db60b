package host

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/hosts"
)

func firmwarePath(t *testing.T, n *hostops.Node) string {
	t.Helper()
	dir, err := kmod.FirmwarePath(n)
	require.NoError(t, err)
	return dir
}

func firmware(t *testing.T, n *hostops.Node, driver, name, content string) *PutFirmware {
	t.Helper()
	from := "/run/store/fw-" + driver + "/" + name
	require.NoError(t, n.WriteFile(from, []byte(content), 0o644))
	return &PutFirmware{State: ordinaryState, Driver: driver, Files: []FirmwareFile{{Name: name, From: from}}}
}

func TestFirmwareLiesUnderTheVeryNameTheKernelAsksFor(t *testing.T) {
	n := node(t, hosts.Debian())
	apply(t, n, []hostops.Action{firmware(t, n, "d", "vendor/fw.bin", "x")})
	require.True(t, n.Exists("/var/lib/fitout/firmware/vendor/fw.bin"))
	require.NoError(t, setFirmwarePath(n, ordinaryState))
	require.Equal(t, "/var/lib/fitout/firmware", firmwarePath(t, n))
}

// Seen where the runner was killed in the middle of writing a firmware file.
func TestHalfWrittenFirmwareIsSweptAway(t *testing.T) {
	const left = "/var/lib/fitout/firmware/vendor/.fitout-fw.bin.tmp"
	n := node(t, hosts.Debian())
	a := firmware(t, n, "d", "vendor/fw.bin", "x")
	require.NoError(t, a.Prepare(context.Background(), n))
	require.NoError(t, n.WriteFile(left, []byte("x"), 0o644))
	undo(t, n, []hostops.Action{a})
	require.False(t, n.Exists("/var/lib/fitout/firmware"))

	require.NoError(t, n.WriteFile(left, []byte("x"), 0o644))
	apply(t, n, []hostops.Action{firmware(t, n, "d", "vendor/fw.bin", "x")})
	require.True(t, n.Exists("/var/lib/fitout/firmware/vendor/fw.bin"))
	require.False(t, n.Exists(left))
}

// A boot between a run and its undoing has told the kernel of the directory.
func TestUndoneFirmwareIsNoLongerLookedForEvenAfterABoot(t *testing.T) {
	for name, before := range map[string]string{"no path of its own": "", "the host's own": "/opt/fw"} {
		t.Run(name, func(t *testing.T) {
			n := node(t, hosts.Debian(), map[string]string{kmod.FirmwareParam: before, "/opt/fw/site/a.bin": "theirs"})
			done := apply(t, n, []hostops.Action{firmware(t, n, "d", "vendor/fw.bin", "x")})
			require.NoError(t, setFirmwarePath(n, ordinaryState))
			undo(t, n, done)
			require.Equal(t, before, firmwarePath(t, n))
		})
	}
}

func TestFirmwareOfTwoDriversUnderOneNameIsRefused(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
	err := firmware(t, n, "other", "e100/d101m_ucode.bin", "other content").Prepare(context.Background(), n)
	require.ErrorContains(t, err, "driver intel-e100 keeps a file of that name")
	require.NoError(t, firmware(t, n, "other", "e100/d101m_ucode.bin", "ucode").Prepare(context.Background(), n), "the same content is shared")
}

func TestRemovalKeepsFirmwareThatAnotherDriverShares(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	for _, name := range []string{"intel-e100", "twin"} {
		d := e100(t, n, kernelA)
		d.Name = name
		apply(t, n, mustPersist(t, f, d))
	}
	actions, err := f.Remove("intel-e100", false)
	require.NoError(t, err)
	apply(t, n, actions)
	require.True(t, n.Exists("/var/lib/fitout/firmware/e100/d101m_ucode.bin"))
	apply(t, n, remove(t, f, "twin"))
	require.False(t, n.Exists("/var/lib/fitout/firmware"))
}

// The host's own files of the same names are neither overwritten nor removed; a
// file that somebody changed since is left and named.
func TestRemovalLeavesFirmwareThatIsNotOurs(t *testing.T) {
	theirs := hosts.Files{"/lib/firmware/e100/d101m_ucode.bin": "theirs", "/lib/firmware/e100/old.bin": "old"}
	n := node(t, hosts.Debian(), theirs)
	f := family(t, n)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
	changed := "/var/lib/fitout/firmware/e100/d101m_ucode.bin"
	require.NoError(t, n.WriteFile(changed, []byte("mine now"), 0o644))
	out := &lines{}
	for _, a := range remove(t, f, "intel-e100") {
		require.NoError(t, a.Prepare(context.Background(), n))
		require.NoError(t, a.Do(context.Background(), n, out))
	}
	require.Contains(t, strings.Join(out.text, "\n"), changed)
	require.True(t, n.Exists(changed))
	for p, content := range theirs {
		got, err := n.ReadString(p)
		require.NoError(t, err)
		require.Equal(t, content, got)
	}
}

func TestForeignFirmwarePathIsJoinedAndComesBack(t *testing.T) {
	n := node(t, hosts.Debian(), map[string]string{
		kmod.FirmwareParam: "/opt/fw", "/opt/fw/site/a.bin": "theirs", "/opt/fw/e100/d101m_ucode.bin": "theirs",
	})
	f := family(t, n)
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA)))
	link, err := n.Readlink("/var/lib/fitout/firmware/site/a.bin")
	require.NoError(t, err)
	require.Equal(t, "/opt/fw/site/a.bin", link)
	theirs, err := n.ReadString("/opt/fw/e100/d101m_ucode.bin")
	require.NoError(t, err)
	require.Equal(t, "theirs", theirs)

	require.NoError(t, setFirmwarePath(n, ordinaryState))
	apply(t, n, remove(t, f, "intel-e100"))
	require.Equal(t, "/opt/fw", firmwarePath(t, n))
	require.False(t, n.Exists("/var/lib/fitout/firmware"))
	require.True(t, n.Exists("/opt/fw/site/a.bin"))
}

func TestFirmwareNameThatLeavesTheDirectoryIsRefused(t *testing.T) {
	n := node(t, hosts.Debian())
	a := firmware(t, n, "d", "ok.bin", "x")
	a.Files[0].Name = "../../etc/passwd"
	require.ErrorContains(t, a.Prepare(context.Background(), n), "leads out of")
}

func TestPackedFirmwareIsUnpackedUnderTheNameTheKernelAsksFor(t *testing.T) {
	n := node(t, hosts.Debian())
	f := family(t, n)
	d := e100(t, n, kernelA)
	b := d.Builds[kernelA]
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	require.NoError(t, err)
	_, err = w.Write([]byte("adsp"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, n.WriteFile(b.FirmwareDir+"/qcom/adsp.mbn.xz", packed.Bytes(), 0o644))
	require.NoError(t, n.WriteFile(b.FirmwareDir+"/qcom/blob.bin", packed.Bytes(), 0o644))
	b.Firmware = append(b.Firmware, "qcom/adsp.mbn.xz", "qcom/blob.bin")
	d.Builds[kernelA] = b
	apply(t, n, mustPersist(t, f, d))
	got, err := n.ReadString("/var/lib/fitout/firmware/qcom/adsp.mbn")
	require.NoError(t, err)
	require.Equal(t, "adsp", got)
	blob, err := n.ReadFile("/var/lib/fitout/firmware/qcom/blob.bin")
	require.NoError(t, err)
	require.Equal(t, packed.Bytes(), blob, "what is not named as packed is the firmware itself")
	again, err := f.Persist(d, "auto")
	require.NoError(t, err)
	require.Empty(t, apply(t, n, again))
}
