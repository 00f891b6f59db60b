package tui

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	path := filepath.Join(t.TempDir(), "answers.yaml")
	require.NoError(t, typed(t, w, line.Options{AnswersPath: path}, replies))
	return path
}

// answer reads what line mode prints and types the reply to its newest question.
func answer(in io.Reader, out io.StringWriter, replies []reply) {
	var heard strings.Builder
	buf := make([]byte, 4096)
	say := func(text string) {
		time.Sleep(5 * time.Millisecond)
		_, _ = out.WriteString(text + "\n")
		heard.Reset()
	}
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		heard.Write(buf[:n])
		last := heard.String()[strings.LastIndexByte(heard.String(), '\n')+1:]
		if !strings.HasSuffix(last, ": ") {
			continue
		}
		if m := wordAsked.FindStringSubmatch(last); m != nil {
			time.Sleep(300 * time.Millisecond) // sooner it would be a paste
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

// saved is the answers file as headless would read it; when a licence was
// accepted is left out.
func saved(t *testing.T, path string) *answers.Answers {
	t.Helper()
	a := read(t, path)
	require.NotEmpty(t, a.Devices)
	require.NotEmpty(t, a.Licences)
	for i := range a.Licences {
		a.Licences[i].At = time.Time{}
	}
	return a
}
