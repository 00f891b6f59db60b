package tui

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"fitout/tui/choice"
	"fitout/tui/internal/fake"
	"fitout/tui/line"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/plan"
)

// watched is the real engine that keeps the plan it starts and carries it out.
type watched struct {
	inProcess
	plan *plan.Plan
}

func (e *watched) Start(ctx context.Context, p *plan.Plan) (string, error) {
	e.plan = p
	return e.inProcess.Start(ctx, p)
}

// ways are the choices of the page "when" that this host can go, by the number
// that is typed for each.
func ways(t *testing.T, image string) map[string]answers.When {
	t.Helper()
	e := inProcess{realEngine(t)}
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.toTheEnd(image, "5/7 When")
	found := map[string]answers.When{}
	for i, o := range h.m.c.Choices.WhenOptions(h.m.c.Choices.Selected()[0]) {
		if o.Impossible == "" {
			found[fmt.Sprint(i+1)] = o.When
		}
	}
	require.GreaterOrEqual(t, len(found), 3)
	return found
}

// TestScreensLinesAndHeadlessMakeTheSamePlan makes every choice of when on the
// screens and line by line, over the engine itself, and lets a third node of the
// same kind plan the answers that were saved.
func TestScreensLinesAndHeadlessMakeTheSamePlan(t *testing.T) {
	image := driverImage(t)
	for digit, when := range ways(t, image) {
		t.Run(string(when), func(t *testing.T) {
			onScreen, saved := planByWizard(t, image, digit)
			inLines, savedInLines := planByLine(t, image, digit)
			require.Equal(t, onScreen, inLines)
			require.Equal(t, saved, savedInLines)
			p, err := realEngine(t).Plan(context.Background(), saved, nil)
			require.NoError(t, err)
			require.Equal(t, onScreen, choice.PlanLines(p))
		})
	}
}

// TestAnswersFilesOfTheTestdataAreReplayed plans every file of testdata/answers
// with the engine that the screens use and, read back from what that engine
// saves, once more: the same plan, or the same refusal.
func TestAnswersFilesOfTheTestdataAreReplayed(t *testing.T) {
	files, err := filepath.Glob("../testdata/answers/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		a, err := answers.Read(file, data)
		require.NoError(t, err)
		again, err := answers.Marshal(a)
		require.NoError(t, err)
		b, err := answers.Read(file, again)
		require.NoError(t, err)
		one, errOne := realEngine(t).Plan(context.Background(), a, nil)
		two, errTwo := realEngine(t).Plan(context.Background(), b, nil)
		require.Equal(t, errOne == nil, errTwo == nil, file)
		if errOne != nil {
			require.Equal(t, errOne.Error(), errTwo.Error(), file)
			continue
		}
		require.Equal(t, choice.PlanLines(one), choice.PlanLines(two), file)
	}
}

func planByWizard(t *testing.T, image, digit string) ([]string, *answers.Answers) {
	t.Helper()
	e := &watched{inProcess: inProcess{realEngine(t)}}
	h := &harness{t: t, now: fake.Began}
	h.begin(e, basic, 80, 24)
	h.toTheEnd(image, "5/7 When")
	h.keys(digit, "enter")
	h.toTheEnd(image, "Done")
	return choice.PlanLines(e.plan), saved(t, h.m.c.AnswersPath)
}

func planByLine(t *testing.T, image, digit string) ([]string, *answers.Answers) {
	t.Helper()
	e := &watched{inProcess: inProcess{realEngine(t)}}
	path := converse(t, e, []reply{says("Which?", "1"), says("Maintenance?", "3"), says("Image?", "c", "1"), says("Image reference", image),
		says("User", ""), says("-- line", "e"), says("Accepted by", ""), says("When?", digit), says("stop or continue?", "")})
	return choice.PlanLines(e.plan), saved(t, path)
}

// reply is what is typed when the last line asks for something: the first time,
// the second, and so on; the last of them for ever.
type reply struct {
	ask string
	say []string
}

func says(ask string, say ...string) reply { return reply{ask, say} }

// wordAsked finds the word that is to be typed.
var wordAsked = regexp.MustCompile(`type the word ([^ ;]+)`)

// converse answers line mode on a pty until it ends well, and returns the file
// it saved. Words that have to be typed are typed.
func converse(t *testing.T, w workflow.Wizard, replies []reply) string {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	// The slave stays open: line mode's reader may be waiting on it still.
	path := filepath.Join(t.TempDir(), "answers.yaml")
	done := make(chan error, 1)
	go func() {
		out, err := line.Run(context.Background(), w, line.Options{In: slave, Out: slave, Reason: "--line was given", Version: "0.1.0", AnswersPath: path})
		if err == nil && out.Exit != 0 {
			err = fmt.Errorf("exit %d", out.Exit)
		}
		done <- err
	}()
	go answer(master, replies)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("line mode does not end")
	}
	return path
}

// answer reads what line mode prints and types the reply to its newest question.
func answer(master *os.File, replies []reply) {
	var out strings.Builder
	buf := make([]byte, 4096)
	say := func(text string) {
		time.Sleep(5 * time.Millisecond)
		_, _ = master.WriteString(text + "\n")
		out.Reset()
	}
	for {
		n, err := master.Read(buf)
		if err != nil {
			return
		}
		out.Write(buf[:n])
		last := out.String()[strings.LastIndexByte(out.String(), '\n')+1:]
		if !strings.HasSuffix(last, ": ") {
			continue
		}
		if m := wordAsked.FindStringSubmatch(last); m != nil {
			say(m[1])
			continue
		}
		for i, r := range replies {
			if strings.Contains(last, r.ask) {
				say(r.say[0])
				replies[i].say = r.say[min(1, len(r.say)-1):]
				break
			}
		}
	}
}
