package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

func firmware(t *testing.T, n *hostops.Node, driver, name, content string) *PutFirmware {
	t.Helper()
	from := "/run/store/fw-" + driver + "/" + name
	require.NoError(t, n.WriteFile(from, []byte(content), 0o644))
	return &PutFirmware{State: ordinaryState, Driver: driver, Files: []FirmwareFile{{Name: name, From: from}}}
}

func TestFirmwareLiesUnderTheVeryNameTheKernelAsksFor(t *testing.T) {
	n := node(t, debianNode())
	apply(t, n, []hostops.Action{firmware(t, n, "d", "vendor/fw.bin", "x")})
	require.True(t, n.Exists("/var/lib/fitout/firmware/vendor/fw.bin"))
	require.NoError(t, setFirmwarePath(n, ordinaryState))
	require.Equal(t, "/var/lib/fitout/firmware", firmwarePath(n))
}

func TestFirmwareOfTwoDriversUnderOneNameIsRefused(t *testing.T) {
	n := node(t, debianNode())
	f := family(t, n)
	actions, err := f.Persist(e100(t, n, kernelA), "auto")
	require.NoError(t, err)
	apply(t, n, actions)
	err = firmware(t, n, "other", "e100/d101m_ucode.bin", "other content").Prepare(context.Background(), n)
	require.ErrorContains(t, err, "driver intel-e100 keeps a file of that name")
	require.NoError(t, firmware(t, n, "other", "e100/d101m_ucode.bin", "ucode").Prepare(context.Background(), n), "the same content is shared")
}

func TestRemovalKeepsFirmwareThatAnotherDriverShares(t *testing.T) {
	n := node(t, debianNode())
	f := family(t, n)
	for _, name := range []string{"intel-e100", "twin"} {
		d := e100(t, n, kernelA)
		d.Name = name
		actions, err := f.Persist(d, "auto")
		require.NoError(t, err)
		apply(t, n, actions)
	}
	actions, err := f.Remove("intel-e100", false)
	require.NoError(t, err)
	apply(t, n, actions)
	require.True(t, n.Exists("/var/lib/fitout/firmware/e100/d101m_ucode.bin"))
	actions, err = f.Remove("twin", true)
	require.NoError(t, err)
	apply(t, n, actions)
	require.False(t, n.Exists("/var/lib/fitout/firmware"))
}

func TestForeignFirmwarePathIsJoinedAndComesBack(t *testing.T) {
	n := node(t, debianNode(), map[string]string{
		firmwareParam: "/opt/fw", "/opt/fw/site/a.bin": "theirs", "/opt/fw/e100/d101m_ucode.bin": "theirs",
	})
	f := family(t, n)
	actions, err := f.Persist(e100(t, n, kernelA), "auto")
	require.NoError(t, err)
	apply(t, n, actions)
	link, err := n.Readlink("/var/lib/fitout/firmware/site/a.bin")
	require.NoError(t, err)
	require.Equal(t, "/opt/fw/site/a.bin", link)
	theirs, err := n.ReadString("/opt/fw/e100/d101m_ucode.bin")
	require.NoError(t, err)
	require.Equal(t, "theirs", theirs)

	require.NoError(t, setFirmwarePath(n, ordinaryState))
	actions, err = f.Remove("intel-e100", true)
	require.NoError(t, err)
	apply(t, n, actions)
	require.Equal(t, "/opt/fw", firmwarePath(n))
	require.False(t, n.Exists("/var/lib/fitout/firmware"))
	require.True(t, n.Exists("/opt/fw/site/a.bin"))
}

func TestFirmwareNameThatLeavesTheDirectoryIsRefused(t *testing.T) {
	n := node(t, debianNode())
	a := firmware(t, n, "d", "ok.bin", "x")
	a.Files[0].Name = "../../etc/passwd"
	require.ErrorContains(t, a.Prepare(context.Background(), n), "leads out of")
}
