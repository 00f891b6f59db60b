package tui

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/internal/fake"
	"fitout/tui/line"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// offered is the real engine that keeps the plan it offered last. What is
// started ends at once: a re-enactment changes nothing on the node.
type offered struct {
	*workflow.Engine
	plan *plan.Plan
	err  error
}

func (e *offered) Plan(ctx context.Context, a *answers.Answers, p image.Progress) (*plan.Plan, error) {
	e.plan, e.err = e.Engine.Plan(ctx, a, p)
	return e.plan, e.err
}

func (e *offered) Start(context.Context, *plan.Plan) (string, error) {
	const id = "2026-1130-01"
	if err := os.MkdirAll(e.RunDir(id), 0o755); err != nil {
		return "", err
	}
	w, err := journal.Create(e.RunDir(id))
	if err != nil {
		return "", err
	}
	defer w.Close()
	return id, w.Append(journal.Event{Event: journal.Done, Run: id, Outcome: journal.OutcomeDone})
}

// told is what one way of asking led to.
type told struct {
	plan  *plan.Plan
	err   error
	saved *answers.Answers // nil: nothing was started, so nothing was saved
}

// lines is the plan as it is shown, or the refusal.
func (o told) lines() []string {
	if o.err != nil {
		return []string{o.err.Error()}
	}
	return choice.PlanLines(o.plan)
}

// person acts on every page, and on every question, as one who wants what an
// answers file says.
type person struct {
	t      *testing.T
	wants  *answers.Answers
	begin  *answers.Answers // what the wizard begins from, nil: from nothing
	survey *workflow.Survey
	offers [][]workflow.Offer
	rule   []int // of each kind, -1 for none
}

func newPerson(t *testing.T, e workflow.Wizard, wants, begin *answers.Answers) *person {
	t.Helper()
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	p := &person{t: t, wants: wants, begin: begin, survey: s}
	for _, k := range s.Kinds {
		p.offers = append(p.offers, e.Offers(s, k))
		p.rule = append(p.rule, slices.IndexFunc(wants.Devices, func(r answers.Rule) bool {
			return slices.Contains(s.Matching(r.Match, map[int]bool{}), k.Devices[0])
		}))
	}
	return p
}

// listed are the kinds as they are listed, by index.
func (p *person) listed() (list []int) {
	for i, k := range p.survey.Kinds {
		if choice.Listed(k.State) {
			list = append(list, i)
		}
	}
	return list
}

// wanted are the listed kinds that have a rule.
func (p *person) wanted() (list []int) {
	for _, i := range p.listed() {
		if p.rule[i] >= 0 {
			list = append(list, i)
		}
	}
	return list
}

func (p *person) ruleOf(kind int) answers.Rule { return p.wants.Devices[p.rule[kind]] }

// alone says that a card is to be left alone although its rule has it.
func (p *person) alone(kind int, address string) bool {
	e := p.ruleOf(kind).Except
	return e != nil && slices.ContainsFunc(e.Slots, func(s string) bool { return s == address || "0000:"+s == address })
}

// imageDigit is the number of what the rule wants among the images; added says
// that it has to be put on the list first.
func (p *person) imageDigit(kind int) (digit string, added bool) {
	r := p.ruleOf(kind)
	if r.When == answers.Leave {
		return "0", false
	}
	if r.Image != nil {
		return strconv.Itoa(len(p.offers[kind]) + 1), p.begin == nil
	}
	at := slices.IndexFunc(p.offers[kind], func(o workflow.Offer) bool { return o.Driver.Name == r.Driver })
	require.GreaterOrEqual(p.t, at, 0, "%s is not offered for %s", r.Driver, p.survey.Kinds[kind].ID)
	return strconv.Itoa(at + 1), false
}

// whenDigit is the number of a way on the page "when", maintenanceDigit that of
// an answer on the page "maintenance".
var (
	whenDigit        = map[answers.When]string{answers.LoadNowPersist: "1", answers.LoadNow: "2", answers.Persist: "3", answers.LoadNowAtBoot: "4", answers.AtBoot: "5"}
	maintenanceDigit = map[string]string{"enter": "2", "skip": "3"}
)

func (p *person) onMissing(kind int) string {
	if o := p.ruleOf(kind).OnMissingModule; o != "" {
		return o
	}
	return "stop"
}

func (p *person) who() string {
	for _, l := range p.wants.Licences {
		return l.By
	}
	return "jane@example.org"
}

// onScreens presses the keys.
func (p *person) onScreens(e *workflow.Engine) told {
	p.t.Helper()
	o := &offered{Engine: e}
	h := &harness{t: p.t, now: fake.Began, from: p.begin}
	h.begin(o, basic, 80, 24)
	p.pick(h)
	for i := 0; i < 60 && !h.at("Done"); i++ {
		switch {
		case h.at("1/7"):
			if h.keys("n"); h.at("1/7") {
				h.sees("Nothing is selected")
				return told{plan: &plan.Plan{}}
			}
		case h.at("2/7"):
			h.keys(maintenanceDigit[p.wants.Maintenance], "enter")
		case h.at("3/7"):
			p.takeImage(h)
		case h.at("4/7"):
			h.keys("accept", "enter", "ctrl+u", p.who(), "enter")
		case h.at("5/7 Risk"):
			require.Contains(p.t, p.wants.AcceptRisks, h.risk())
			h.keys(h.risk(), "enter")
		case h.at("5/7"):
			p.takeWhen(h)
		case h.at("6/7"):
			if len(o.plan.Steps) == 0 {
				return told{plan: o.plan}
			}
			h.keys("run", "enter")
		case h.at("Not possible"):
			return told{err: o.err}
		}
		h.wait(3e9)
	}
	h.on("Done")
	return told{plan: o.plan, saved: read(p.t, h.m.c.AnswersPath)}
}

// pick selects the kinds, and leaves single cards alone.
func (p *person) pick(h *harness) {
	p.t.Helper()
	for row, kind := range p.listed() {
		h.on("1/7").keys("home")
		for range row {
			h.keys("down")
		}
		if h.m.c.Choices.Kinds[kind].Selected != (p.rule[kind] >= 0) {
			h.keys("space")
		}
		require.Equal(p.t, p.rule[kind] >= 0, h.m.c.Choices.Kinds[kind].Selected, h.view())
		if p.rule[kind] < 0 || p.ruleOf(kind).Except == nil {
			continue
		}
		h.keys("enter").on("1/7 Hardware > ")
		for i, at := range p.survey.Kinds[kind].Devices {
			if i > 0 {
				h.keys("down")
			}
			address := p.survey.Devices[at].Address
			if slices.Contains(h.m.c.Choices.Kinds[kind].Except, address) != p.alone(kind, address) {
				h.keys("space")
			}
		}
		h.keys("b")
	}
}

// asked is the kind that the page on top is about.
func (p *person) asked(h *harness, what choice.Asked) int {
	n := 1
	if title := h.m.top().Title(); strings.Contains(title, "(") {
		_, err := fmt.Sscanf(title[strings.IndexByte(title, '('):], "(%d of", &n)
		require.NoError(p.t, err)
	}
	for _, q := range h.m.c.Choices.Questions() {
		if q.Asked == what && q.Nth == n {
			return q.Kind
		}
	}
	p.t.Fatalf("no question %s %d", what, n)
	return 0
}

func (p *person) takeImage(h *harness) {
	kind := p.asked(h, choice.Image)
	digit, added := p.imageDigit(kind)
	if added {
		h.keys("c").on("3/7 Image > other image").keys("ctrl+u", p.ruleOf(kind).Image.Reference, "enter").on("3/7 Image")
	}
	h.keys(digit, "enter")
}

func (p *person) takeWhen(h *harness) {
	kind := p.asked(h, choice.When)
	if h.m.c.Choices.Kinds[kind].OnMissing != p.onMissing(kind) {
		h.keys("o")
	}
	h.keys(whenDigit[p.ruleOf(kind).When], "enter")
}

// inLines types the lines.
func (p *person) inLines(e *workflow.Engine) told {
	p.t.Helper()
	o := &offered{Engine: e}
	path := filepath.Join(p.t.TempDir(), "answers.yaml")
	err := typed(p.t, o, line.Options{AnswersPath: path, Begin: p.begin}, p.replies())
	switch {
	case o.plan == nil && o.err == nil:
		require.NoError(p.t, err)
		return told{plan: &plan.Plan{}}
	case o.err != nil:
		require.Equal(p.t, o.err, err)
		return told{err: o.err}
	case len(o.plan.Steps) == 0:
		return told{plan: o.plan}
	}
	require.NoError(p.t, err)
	return told{plan: o.plan, saved: read(p.t, path)}
}

func (p *person) replies() []reply {
	var which, cards, numbers, images, references, whens, missing []string
	for row, kind := range p.listed() {
		if p.rule[kind] < 0 {
			continue
		}
		numbers = append(numbers, strconv.Itoa(row+1))
		r := p.ruleOf(kind)
		if r.Except != nil && len(p.survey.Kinds[kind].Devices) > 1 {
			which = append(which, "c "+strconv.Itoa(row+1))
			var alone []string
			for i, at := range p.survey.Kinds[kind].Devices {
				if p.alone(kind, p.survey.Devices[at].Address) {
					alone = append(alone, strconv.Itoa(i+1))
				}
			}
			cards = append(cards, strings.Join(append(alone, "0"), " "))
		}
		digit, added := p.imageDigit(kind)
		if added {
			images, references = append(images, "c"), append(references, r.Image.Reference)
		}
		images = append(images, digit)
		if r.When != answers.Leave {
			whens = append(whens, whenDigit[r.When])
		}
		if strings.Contains(string(r.When), "persist") {
			missing = append(missing, p.onMissing(kind))
		}
	}
	which = append(which, strings.Join(append(numbers, "0"), " "))
	replies := []reply{{"Which?", which}, says("Maintenance?", maintenanceDigit[p.wants.Maintenance]), says("User", ""), says("Accepted by", p.who())}
	for ask, say := range map[string][]string{"Leave which": cards, "Image?": images, "Image reference": references, "When?": whens, "stop or continue?": missing} {
		if len(say) > 0 {
			replies = append(replies, reply{ask, say})
		}
	}
	return replies
}

// typed has a conversation in line mode on a pty and returns how it ended.
func typed(t *testing.T, w workflow.Wizard, o line.Options, replies []reply) error {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	o.In, o.Out, o.Reason, o.Version = slave, slave, "--line was given", "0.1.0"
	done := make(chan error, 1)
	go func() {
		out, err := line.Run(context.Background(), w, o)
		if err == nil && out.Exit != 0 {
			err = fmt.Errorf("exit %d", out.Exit)
		}
		done <- err
	}()
	var heard strings.Builder
	ended := make(chan struct{})
	go func() { answer(io.TeeReader(master, &heard), master, replies); close(ended) }()
	select {
	case err := <-done:
		return err
	case <-time.After(60 * time.Second):
		master.Close()
		<-ended
		t.Fatal("line mode does not end:\n" + heard.String())
	}
	return nil
}

// read reads an answers file as headless does.
func read(t *testing.T, path string) *answers.Answers {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := answers.Read(path, data)
	require.NoError(t, err)
	return a
}
