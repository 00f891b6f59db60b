package kmod

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A kernel that oopses in a module's init kills the calling process: insmod
// prints "Killed".
func TestInitThatCrashesTakesOnlyTheChild(t *testing.T) {
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	ask := func(script string) error { return askChild(exec.Command("sh", "-c", script), file, "a=1 b=2") }

	err = ask("kill -9 $$")
	var s *stuck
	require.ErrorAs(t, err, &s)
	require.Equal(t, "init-crashed", s.code)
	require.ErrorContains(t, err, "killed")

	require.ErrorAs(t, ask(`echo '{"errno":0,"killed":true}'`), &s)
	require.Equal(t, "init-crashed", s.code)

	require.NoError(t, ask(`[ "$(cat)" = "a=1 b=2" ] && [ -c /dev/fd/3 ] && echo '{"errno":0}'`), "it gets the parameters and the file")
	require.Equal(t, unix.EKEYREJECTED, ask(`echo '{"errno":129}'`))
	require.ErrorContains(t, ask("echo not a fitout >&2; exit 2"), "not a fitout")
	require.ErrorContains(t, ask("echo hello"), "answer")
}

// The kernel ends the one thread that oopsed; a Go process has others, which
// would wait for it for ever.
func TestThreadThatTheKernelEndsInTheCallIsMissed(t *testing.T) {
	err := onOwnThread(func() error {
		// Not RawSyscall: the scheduler must know that the thread is in the kernel, or
		// the next collection waits for it for ever.
		unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		return nil
	})
	require.ErrorIs(t, err, errKilled)
	require.Equal(t, unix.ENOEXEC, onOwnThread(func() error { return unix.ENOEXEC }))
	require.NoError(t, onOwnThread(func() error { return nil }))
}

func TestPiecesOfPatternsThatMustBeThere(t *testing.T) {
	for pattern, want := range map[string]string{
		"of:N*T*Cfoo,bar-baz": "Cfoo,bar", "pci:v*d*sv*": "pci:v", "usb:v0BDAp*d0[0-2]*abcdefghijklmnop": "usb:v0BDAp",
		"***": "", "": "", "plain": "plain", `a\*bcd`: "bcd",
	} {
		require.Equal(t, want, longestPiece(pattern), pattern)
	}
}
