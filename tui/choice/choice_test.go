package choice_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/tui/choice"
	"fitout/tui/internal/fake"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

func start(t *testing.T, change func(*fake.Engine)) (*choice.Choices, *fake.Engine) {
	t.Helper()
	e := fake.New(t.TempDir())
	if change != nil {
		change(e)
	}
	s, err := e.Survey(context.Background())
	require.NoError(t, err)
	c := choice.New(e, s, "fitout 0.1.0")
	for i := range c.Kinds {
		for j := range c.Kinds[i].Offers {
			o := &c.Kinds[i].Offers[j]
			o.Examined, o.Err = e.Examine(context.Background(), s, s.Kinds[i], o.Offer, nil)
		}
	}
	return c, e
}

func TestDevicesWithoutADriverAreSelectedAndOthersAreNot(t *testing.T) {
	c, _ := start(t, nil)
	require.Equal(t, []int{0}, c.Selected(), "the card that works with an older driver, and the one with no image, are the person's choice")
}

func TestRecommendedIsOKOnEveryKernelFirst(t *testing.T) {
	c, _ := start(t, nil)
	best, rule := c.Kinds[0].Recommended()
	require.Equal(t, 0, best)
	require.Contains(t, rule, "every kernel")

	c.Kinds[0].Offers[0].Examined.Judgements[1].Verdict = finding.NoModule
	best, rule = c.Kinds[0].Recommended()
	require.Equal(t, 0, best)
	require.Contains(t, rule, "running kernel")

	for i := range c.Kinds[0].Offers {
		c.Kinds[0].Offers[i].Examined.Judgements[0].Verdict = finding.Blocked
		c.Kinds[0].Offers[i].Examined.Judgements[1].Verdict = finding.Blocked
	}
	best, _ = c.Kinds[0].Recommended()
	require.Equal(t, -1, best)
}

func TestEntriesThatFitEquallyWellAreThePersonsChoice(t *testing.T) {
	c, _ := start(t, nil)
	for i := range c.Kinds[0].Offers {
		c.Kinds[0].Offers[i].Ambiguous = true
	}
	best, _ := c.Kinds[0].Recommended()
	require.Equal(t, -1, best)
}

func TestWhatIsLeftAloneIsWritten(t *testing.T) {
	c, _ := start(t, nil)
	c.Kinds[0].Pick = choice.Leave
	a := c.Answers()
	require.Equal(t, []answers.Rule{{Match: answers.Match{ID: "10de:2330"}, When: answers.Leave}}, a.Devices)
	_, err := answers.Marshal(a)
	require.NoError(t, err)
}

func TestExceptBindsTheFileToItsNode(t *testing.T) {
	c, _ := start(t, nil)
	c.Kinds[0].Pick, c.Kinds[0].When, c.Kinds[0].Except = 0, answers.LoadNow, []string{"0000:18:00.0", "0000:17:00.0"}
	a := c.Answers()
	require.True(t, a.NodeBound)
	require.Equal(t, []string{"0000:17:00.0", "0000:18:00.0"}, a.Devices[0].Except.Slots)
	_, err := answers.Marshal(a)
	require.NoError(t, err)
}

func TestEqualIdsOfDifferentSubsystemsAreTwoRules(t *testing.T) {
	c, _ := start(t, func(e *fake.Engine) {
		twin := e.Node.Kinds[0]
		twin.Subsystem = "10de:0001"
		e.Node.Kinds = append(e.Node.Kinds, twin)
	})
	c.Kinds[0].Pick, c.Kinds[0].When = 0, answers.LoadNow
	require.Equal(t, "10de:16c1", c.Answers().Devices[0].Match.Subsystem)
}

func TestLicenceOfWhatWasNotChosenIsNotInTheAnswers(t *testing.T) {
	c, _ := start(t, nil)
	c.Kinds[0].Pick, c.Kinds[0].When = 0, answers.LoadNow
	l := c.Kinds[0].Offers[0].Examined.Licences[0]
	c.Accept(l, "jane", time.Date(2026, 11, 30, 14, 1, 12, 999, time.UTC))
	c.Accept(l, "jane", time.Date(2026, 11, 30, 14, 2, 0, 0, time.UTC))
	require.Len(t, c.Answers().Licences, 1)
	require.Equal(t, "jane", c.Answers().Licences[0].By)
	require.Equal(t, answers.OnScreen, c.Answers().Licences[0].How)
	c.Kinds[0].Pick = choice.Leave
	require.Empty(t, c.Answers().Licences)
}

func TestQuestionsThatNeedNoAskingAreNotAsked(t *testing.T) {
	c, _ := start(t, nil)
	q := c.Next(choice.Question{Asked: choice.Hardware})
	require.Equal(t, choice.Image, q.Asked, "the node is in maintenance")
	c.Kinds[0].Pick = 0
	require.Equal(t, choice.Licence, c.Next(q).Asked)
	c.Kinds[0].Offers[0].Examined.Licences[0].Accepted = true
	require.Equal(t, choice.When, c.Next(q).Asked, "the text was accepted on this node before")
	c.Kinds[0].Pick = choice.Leave
	require.Equal(t, choice.Plan, c.Next(q).Asked)
}

func TestNewLookKeepsWhatWasChosen(t *testing.T) {
	c, e := start(t, nil)
	c.Kinds[0].Pick, c.Kinds[0].When = 1, answers.LoadNow
	s := *c.Survey
	s.Kinds = append([]workflow.Kind{{ID: "dead:beef", State: finding.StateNeedsDriver}}, s.Kinds...)
	n := c.Renew(e, &s)
	require.Equal(t, 1, n.Kinds[1].Pick)
	require.NotNil(t, n.Kinds[1].Offers[1].Examined, "images are not read twice")
}

func TestWaysThatThisHostCannotGoAreImpossibleWithTheReason(t *testing.T) {
	c, _ := start(t, func(e *fake.Engine) {
		e.Node.Host.SideTree, e.Node.Host.OSImage, e.Node.Host.Refusal = false, false, "use the vendor's own command: talosctl upgrade"
	})
	c.Kinds[0].Pick = 0
	byWhen := map[answers.When]choice.WhenOption{}
	for _, o := range c.WhenOptions(0) {
		byWhen[o.When] = o
	}
	require.Contains(t, byWhen[answers.Persist].Impossible, "talosctl upgrade")
	require.Empty(t, byWhen[answers.LoadNowAtBoot].Impossible)
	c.Kinds[0].Offers[0].Examined.Judgements[0].Verdict = finding.NoModule
	for _, o := range c.WhenOptions(0) {
		if o.When == answers.LoadNow {
			require.Contains(t, o.Impossible, "no module for the running kernel")
		}
	}
}

// begun are choices that begin from a file with a rule for the GPUs and one for
// cards that this node does not have.
func begun(t *testing.T) *choice.Choices {
	t.Helper()
	c, e := start(t, nil)
	c.Begin(e, &answers.Answers{
		Metadata: answers.Metadata{Name: "gpu nodes"}, OSTag: "rhcos4.18", Maintenance: "enter", OnUnanswered: "fail", AcceptRisks: []string{"in-use"},
		Devices: []answers.Rule{
			{Match: answers.Match{ID: "10de:*"}, Driver: "nvidia-open-575", When: answers.LoadNow, Parameters: map[string][]string{"nvidia": {"a=1"}}},
			{Match: answers.Match{ID: "1af4:*", Count: &answers.Count{}}, Driver: "other", When: answers.AtBoot}},
		Drivers: []answers.Extra{{Name: "drbd", When: answers.LoadNow}},
		Limits:  answers.Limits{Timeout: "30m"},
	})
	return c
}

func TestWhatAFileSaysIsPreselectedAndWrittenAgainUnchanged(t *testing.T) {
	c := begun(t)
	require.Equal(t, []int{0}, c.Selected())
	require.Equal(t, "nvidia-open-575", c.Kinds[0].Chosen().Driver.Name)
	a := c.Answers()
	require.Equal(t, "10de:*", a.Devices[0].Match.ID)
	require.Equal(t, map[string][]string{"nvidia": {"a=1"}}, a.Devices[0].Parameters)
	require.Equal(t, "other", a.Devices[1].Driver, "a rule for other nodes stays")
	require.Equal(t, "drbd", a.Drivers[0].Name)
	require.Equal(t, []string{"enter", "fail", "rhcos4.18", "30m", "gpu nodes"}, []string{a.Maintenance, a.OnUnanswered, a.OSTag, a.Limits.Timeout, a.Metadata.Name})
	require.Equal(t, []string{"in-use"}, a.AcceptRisks)
}

func TestChangeOfOneChoiceLeavesTheRestOfTheFile(t *testing.T) {
	c := begun(t)
	c.Kinds[0].When = answers.LoadNowAtBoot
	a := c.Answers()
	require.Equal(t, answers.LoadNowAtBoot, a.Devices[0].When)
	require.Equal(t, "10de:2330", a.Devices[0].Match.ID, "the rule is about this kind now")
	require.Equal(t, map[string][]string{"nvidia": {"a=1"}}, a.Devices[0].Parameters)
	require.Equal(t, "other", a.Devices[1].Driver)

	c.Kinds[0].Pick = 0
	require.Nil(t, c.Answers().Devices[0].Parameters, "those were for another driver")
	c.Kinds[0].Selected = false
	require.Equal(t, answers.Leave, c.Answers().Devices[0].When, "left alone, and said so: the file wants every device answered")
}

func TestRestartThatAFileAllowsCanBeTakenOut(t *testing.T) {
	c, e := start(t, nil)
	c.Begin(e, &answers.Answers{Limits: answers.Limits{Reboot: "if-needed"}})
	require.True(t, c.Restart)
	require.Equal(t, "if-needed", c.Answers().Limits.Reboot)
	c.Restart = false
	require.Equal(t, "ask", c.Answers().Limits.Reboot)

	c.Begin(e, &answers.Answers{Limits: answers.Limits{Reboot: "never"}})
	require.Equal(t, "never", c.Answers().Limits.Reboot)
}
