package line

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fitout/tui/internal/fake"
	"fitout/workflow"
	"fitout/workflow/finding"
)

// talk is line mode on a pty.
type talk struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	engine *fake.Engine
	path   string
	mu     sync.Mutex
	out    strings.Builder
	done   chan Outcome
}

func begin(t *testing.T, change func(*fake.Engine)) *talk {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	c := &talk{t: t, master: master, slave: slave, engine: fake.New(t.TempDir()), path: t.TempDir() + "/answers.yaml", done: make(chan Outcome, 1)}
	if change != nil {
		change(c.engine)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			c.mu.Lock()
			c.out.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		out, err := Run(context.Background(), c.engine, Options{In: slave, Out: slave, Reason: "TERM=dumb", Version: "0.1.0", AnswersPath: c.path})
		if err != nil {
			t.Log(err)
		}
		c.done <- out
	}()
	// The slave stays open: line mode's reader may be waiting on it still, and
	// ends when the master goes.
	t.Cleanup(func() { master.Close() })
	return c
}

func (c *talk) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// asks waits for a question and answers it.
func (c *talk) asks(question, answer string) *talk {
	c.t.Helper()
	c.says(question)
	time.Sleep(30 * time.Millisecond)
	if strings.HasPrefix(question, "type the word") {
		time.Sleep(calm)
	}
	_, err := c.master.WriteString(answer)
	require.NoError(c.t, err)
	time.Sleep(30 * time.Millisecond)
	return c
}

func (c *talk) says(text string) *talk {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.output(), text) }, 5*time.Second, 5*time.Millisecond, "not said: %q", text)
	return c
}

func (c *talk) ends(code int) {
	c.t.Helper()
	select {
	case out := <-c.done:
		require.Equal(c.t, code, out.Exit, c.output())
	case <-time.After(5 * time.Second):
		c.t.Fatal("line mode does not end:\n" + c.output())
	}
}

// toPlan answers everything up to the plan.
func (c *talk) toPlan() *talk {
	return c.asks("Which?", "1\n").asks("Image?", "\n").asks("-- line 20", "e\n").asks("type the word accept", "accept\n").
		asks("Accepted by", "jane@example.org\n").asks("When?", "\n").asks("stop or continue?", "\n").says("type the word run")
}

func TestLineModeGoesAllTheWay(t *testing.T) {
	c := begin(t, nil)
	c.says("Line mode because: TERM=dumb.")
	c.toPlan()
	require.Empty(t, c.engine.Started())
	c.asks("type the word run", "run\n").says("2 of 2 devices as wanted")
	c.ends(0)
	require.NotContains(t, c.output(), "\x1b", "the cursor is never moved")
	require.NotContains(t, strings.ReplaceAll(c.output(), "\r\n", ""), "\r")
	for _, b := range []byte(c.output()) {
		require.Less(t, b, byte(127))
	}
	saved, err := os.ReadFile(c.path)
	require.NoError(t, err)
	require.Contains(t, string(saved), "by: jane@example.org")
	require.Contains(t, c.output(), "[1/6] fetch    begins")
}

func TestLineModeAsksForARestartOnce(t *testing.T) {
	for answer, want := range map[string]string{"y": "if-needed", "": "ask"} {
		c := begin(t, func(e *fake.Engine) { e.WantsRestart = true })
		c.asks("Which?", "1\n").asks("Image?", "\n").asks("-- line 20", "e\n").asks("type the word accept", "accept\n").
			asks("Accepted by", "jane@example.org\n").asks("When?", "\n").asks("stop or continue?", "\n")
		c.asks("Restart the node as a step of the run?", answer+"\n").asks("type the word run", "run\n").says("2 of 2 devices as wanted")
		c.ends(0)
		saved, err := os.ReadFile(c.path)
		require.NoError(t, err)
		require.Contains(t, string(saved), "reboot: "+want)
	}
}

func TestEndOfInputIsAnAbortNeverAnAnswer(t *testing.T) {
	c := begin(t, nil)
	c.asks("Which?", "\x04")
	c.ends(workflow.ExitStopped)
	require.Empty(t, c.engine.Started())

	c = begin(t, nil)
	c.toPlan().asks("type the word run", "\x04")
	c.ends(workflow.ExitStopped)
	require.Empty(t, c.engine.Started())
}

func TestOneReaderTakesEveryLineOnce(t *testing.T) {
	c := begin(t, nil)
	c.asks("Which?", "9\n1\n") // a wrong answer, and the right one typed ahead
	c.says("There is no 9").says("Image?")
}

func TestEmptyAnswerWithoutADefaultIsNotANumberThatIsMissing(t *testing.T) {
	c := begin(t, func(e *fake.Engine) {
		for _, x := range e.Images {
			for i := range x.Judgements {
				x.Judgements[i].Verdict = finding.Unsure
			}
		}
	})
	c.asks("Which?", "1\n").asks("Image?", "\n").says("There is no default here")
}

func TestWordTypedAheadOrPastedDoesNotCount(t *testing.T) {
	c := begin(t, nil)
	c.asks("Which?", "1\n").asks("Image?", "1\n").asks("-- line 20", "e\naccept\nroot\n1\nstop\nrun\n")
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, c.engine.Started())

	c = begin(t, nil)
	c.toPlan()
	_, err := c.master.WriteString("run\n") // sooner than anybody types
	require.NoError(t, err)
	c.says("as in a paste").ends(workflow.ExitStopped)
	require.Empty(t, c.engine.Started())

	c = begin(t, nil)
	c.toPlan().asks("type the word run", "run\nrun\nrun\n").says("as in a paste")
	c.ends(workflow.ExitStopped)
	require.Empty(t, c.engine.Started())
}

func TestPasswordIsNotEchoed(t *testing.T) {
	c := begin(t, nil)
	before, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	c.asks("Which?", "1\n").asks("Image?", "c\n").asks("Image reference", "oci-archive:/media/usb/x.tar\n").asks("User", "jane\n").
		asks("Password (not shown)", "hunter2!\n").asks("Keep user", "\n").says("4  oci-archive:/media/usb/x.tar")
	require.NotContains(t, c.output(), "hunter2")
	require.Len(t, c.engine.Logins(), 1)
	require.Contains(t, c.engine.Logins()[0], "jane false")
	after, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, *before, *after)
}

func TestRisksAreNamedOneByOne(t *testing.T) {
	c := begin(t, func(e *fake.Engine) { e.Missing = []string{"unsigned-module", "in-use"} })
	c.asks("Which?", "1\n").asks("Image?", "\n").asks("-- line 20", "e\n").asks("type the word accept", "accept\n").
		asks("Accepted by", "\n").asks("When?", "\n").asks("stop or continue?", "\n").
		asks("type the word unsigned-module", "unsigned-module\n").asks("type the word in-use", "yes\n")
	c.ends(workflow.ExitPerson)
	require.Empty(t, c.engine.Started())
}

func TestFailureIsSaidWithItsExitCode(t *testing.T) {
	c := begin(t, func(e *fake.Engine) { e.Play = fake.FailAt(4, true) })
	c.toPlan().asks("type the word run", "run\n").says("EKEYREJECTED").says("Everything was undone")
	c.ends(7)
}

func TestRunInProgressIsWatchedNotDisturbed(t *testing.T) {
	c := begin(t, func(e *fake.Engine) { e.Hold("2026-1130-01") })
	c.asks("Watch it?", "n\n")
	c.ends(workflow.ExitLocked)
}
