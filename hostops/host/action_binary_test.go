package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/testdata/hosts"
)

func TestAnotherBuildOfOneVersionDoesNotOverwriteTheFirst(t *testing.T) {
	n := node(t, hosts.Debian())
	install := func(content, version string) *InstallBinary {
		require.NoError(t, n.WriteFile("/run/store/fitout", []byte(content), 0o755))
		done := apply(t, n, []hostops.Action{&InstallBinary{State: ordinaryState, Source: "/run/store/fitout", Version: version}})
		require.Len(t, done, 1)
		return done[0].(*InstallBinary)
	}
	installed := func() string {
		b, err := n.ReadString("/var/lib/fitout/bin/fitout")
		require.NoError(t, err)
		return b
	}
	install("one", "1.0")
	second := install("two", "1.0")
	require.Equal(t, "two", installed())
	undo(t, n, []hostops.Action{second})
	require.Equal(t, "one", installed())

	install("two", "1.0")
	third := install("three", "2.0")
	require.Len(t, n.Glob("/var/lib/fitout/bin/fitout-*"), 2, "this one and the one before")
	undo(t, n, []hostops.Action{third})
	require.Equal(t, "two", installed())
	st, err := n.Stat("/var/lib/fitout/bin/fitout")
	require.NoError(t, err)
	require.Equal(t, "-rwxr-xr-x", st.Mode().String())
}

func TestDevelopmentBuildIsNamedByItsDigest(t *testing.T) {
	n := node(t, hosts.Debian())
	require.NoError(t, n.WriteFile("/run/store/fitout", []byte("dev"), 0o755))
	apply(t, n, []hostops.Action{&InstallBinary{State: ordinaryState, Source: "/run/store/fitout"}})
	link, err := n.Readlink("/var/lib/fitout/bin/fitout")
	require.NoError(t, err)
	require.Equal(t, "fitout-"+hashBytes([]byte("dev"))[:12], link)
}
