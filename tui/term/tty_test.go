package term

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// raw is a pty in raw mode, as the screen has it.
func raw(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() { master.Close(); slave.Close() })
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	mode.Iflag &^= unix.ICRNL | unix.IXON
	mode.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	require.NoError(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode))
	return master, slave
}

func TestPrintkLevelIsLoweredAndPutBackExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printk")
	require.NoError(t, os.WriteFile(path, []byte("7\t4\t1\t7\n"), 0o644))
	q := hush(path)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "1 4 1 7", string(data))
	q.Restore()
	q.Restore()
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "7 4 1 7", string(data))
}

func TestPrintkThatCannotBeWrittenIsLeft(t *testing.T) {
	hush(filepath.Join(t.TempDir(), "missing")).Restore()
	(&Quiet{}).Restore()
}

func TestReaderJoinsWhatBelongsTogether(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"arrow in three pieces", []string{"\x1b", "[", "B"}, "\x1b[B"},
		{"keypad Enter", []string{"\x1bO", "M"}, "\x1bOM"},
		{"F1 of the Linux console", []string{"\x1b[", "[", "A"}, "\x1b[[A"},
		{"long sequence", []string{"\x1b[1", ";5", "A"}, "\x1b[1;5A"},
		{"UTF-8 in pieces", []string{"\xc3", "\xa9"}, "é"},
		{"lone Esc", []string{"\x1b"}, "\x1b"},
		{"Alt and a letter", []string{"\x1bv"}, "\x1bv"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			master, slave := raw(t)
			go func() {
				for _, p := range tc.parts {
					_, _ = master.WriteString(p)
					time.Sleep(10 * time.Millisecond)
				}
			}()
			buf := make([]byte, 256)
			r := NewReader(slave)
			if r.wait = time.Minute; tc.name == "lone Esc" {
				r.wait = joinWait
			}
			n, err := r.Read(buf)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(buf[:n]))
		})
	}
}

func TestReaderMarksWhatNobodyTypes(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"a block of lines", "cordon node-17\rrun\r\r", "\x1b[200~cordon node-17\rrun\r\r\x1b[201~"},
		{"a block with an escape in it", "echo \x1b]0;title and more text", "\x1b[200~echo ]0;title and more text\x1b[201~"},
		{"a word", "accept\r", "accept\r"},
		{"a key held down", "jjjjjjjjjjjjjjjjjjjjjjjj", "jjjjjjjjjjjjjjjjjjjjjjjj"},
		{"arrows held down", "\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B", "\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B"},
		{"marked by the terminal", "\x1b[200~a long enough text\x1b[201~", "\x1b[200~a long enough text\x1b[201~"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			master, slave := raw(t)
			_, err := master.WriteString(tc.in)
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
			buf := make([]byte, 256)
			n, err := NewReader(slave).Read(buf)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(buf[:n]))
		})
	}
}

func TestReaderTakesTheAnswerToTheSizeQuestion(t *testing.T) {
	master, slave := raw(t)
	r := NewReader(slave)
	var row, col int
	r.Cursor = func(a, b int) { row, col = a, b }
	_, err := master.WriteString("n\x1b[24;80Rx")
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	buf := make([]byte, 256)
	n, err := r.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "nx", string(buf[:n]))
	require.Equal(t, [2]int{24, 80}, [2]int{row, col})
}

func TestReaderTellsWhenTheTerminalIsGone(t *testing.T) {
	master, slave := raw(t)
	r := NewReader(slave)
	gone := 0
	r.Hangup = func() { gone++ }
	require.NoError(t, master.Close())
	buf := make([]byte, 256)
	for range 3 {
		_, err := r.Read(buf)
		require.Error(t, err)
	}
	require.Equal(t, 1, gone)
}

func TestWriterReturnsOnceItIsAbandoned(t *testing.T) {
	_, slave := raw(t) // nobody reads the master
	w := NewWriter(slave)
	done := make(chan error, 1)
	go func() {
		_, err := w.Write(make([]byte, 1<<20))
		done <- err
	}()
	require.Eventually(t, w.Stuck, 5*time.Second, 10*time.Millisecond)
	w.Abandon()
	select {
	case err := <-done:
		require.Error(t, err)
	case <-time.After(2 * time.Second):
		t.Fatal("the writer waits for a terminal that was given up")
	}
}

func TestSizeIsAskedOfTheTerminalDrawnOn(t *testing.T) {
	_, wide := raw(t)
	_, narrow := raw(t)
	require.NoError(t, pty.Setsize(wide, &pty.Winsize{Rows: 50, Cols: 160}))
	require.NoError(t, pty.Setsize(narrow, &pty.Winsize{Rows: 24, Cols: 80}))
	w, h, known := Size(narrow, env("COLUMNS", "160"))
	require.Equal(t, []any{80, 24, true}, []any{w, h, known})
}

func TestSizeFallsBackToTheEnvironmentThenToTheStandard(t *testing.T) {
	_, slave := raw(t)
	w, h, known := Size(slave, env("COLUMNS", "132", "LINES", "-1"))
	require.Equal(t, []any{132, 24, false}, []any{w, h, known})
}

func TestModesComeBackExactly(t *testing.T) {
	_, slave := raw(t)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	s := Save(slave)
	changed := *before
	changed.Lflag |= unix.ECHO | unix.ICANON
	changed.Oflag &^= unix.OPOST
	require.NoError(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, &changed))
	require.NoError(t, s.Restore())
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, *before, *after)
}

func TestPipedBytesAreNoKeys(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	tty, _, err := Input(r)
	if err != nil {
		require.ErrorIs(t, err, ErrNoTerminal)
		return
	}
	require.NotEqual(t, r, tty)
	tty.Close()
}
