package tui

import (
	"fmt"
	"os"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/stretchr/testify/require"

	"fitout/tui/internal/fake"
	"fitout/tui/pages"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

func TestWalkFromHardwareToResult(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.on("1/7 Hardware").sees("NVIDIA H100", "WRONG DRIVER", "> [x]", Running())
	h.keys("n").on("3/7 Image").sees("recommended: the newest image that is OK on every kernel", "> * 1", "BLOCKED")
	h.keys("enter").on("4/7 Licence").sees("lines 1-")
	h.keys("accept", "enter").sees("Accepted by").keys("ctrl+u", "jane@example.org", "enter")
	h.on("5/7 When").sees("1 Load now and keep it over OS upgrades").keys("enter")
	h.on("6/7 Plan").sees("To run it, type", "6 steps", "undo: ")
	require.Empty(t, h.engine.Started(), "nothing may be changed before the word is typed")
	h.keys("run", "enter")
	h.wait(3e9)
	h.on("Done").sees("2 of 2 devices as wanted", "fitout rollback 2026-1130-01", "After reboot")
	require.Equal(t, []string{"2026-1130-01"}, h.engine.Started())

	saved, err := os.ReadFile(h.m.c.AnswersPath)
	require.NoError(t, err)
	require.Contains(t, string(saved), "by: jane@example.org")
	require.Contains(t, string(saved), "digest: sha256:41d09c77")
	h.keys("q")
	require.True(t, h.quit)
	require.Equal(t, 0, h.m.result().Exit)
	require.Contains(t, h.m.result().Text[0], "DONE")
}

// Running is the fake node's kernel as the title line has room for it.
func Running() string { return fake.Running }

func TestBackKeepsAnswersAndTheCursor(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "2", "enter", "accept", "enter", "enter").on("5/7 When").keys("2", "o", "enter").on("6/7 Plan")
	want := h.m.c.Choices.Answers()
	h.keys("b").on("5/7 When").sees("> 2 Load now only")
	h.keys("b").on("3/7 Image").sees("> ", "2 nvidia-open-575")
	h.keys("b").on("1/7").keys("n").on("3/7").keys("enter").on("5/7 When" /* the licence is not asked again */).keys("enter").on("6/7")
	require.Equal(t, want, h.m.c.Choices.Answers())
}

func TestLicenceIsNeitherSkippedNorPreselected(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "enter").on("4/7 Licence")
	h.keys("enter", "enter", "down", "pgdown", "end", "y", "enter").on("4/7 Licence")
	require.Empty(t, h.m.c.Choices.Licences)
	h.keys("accepted", "enter").on("4/7 Licence").sees("to go on, type the word accept")
	require.Empty(t, h.m.c.Choices.Licences)
	require.Empty(t, h.engine.Forgotten)
	h.keys("d").on("3/7 Image").sees("Declined: nothing of it is kept.")
	require.Contains(t, h.engine.Forgotten, "nvidia-open-580")
	require.Empty(t, h.m.c.Choices.Licences)
	require.Empty(t, h.engine.Started())
}

func TestSameLicenceTextIsAskedOnceAndAnotherTextAgain(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) {
		other := *e.Images["nvidia-open-575"]
		other.Licences = []workflow.Licence{{ID: "nvidia-driver-2025-01", Digest: "sha256:" + strings.Repeat("ab", 32), Text: "changed terms"}}
		e.Images["nvidia-open-575"] = &other
	})
	h.keys("n", "1", "enter", "accept", "enter", "enter").on("5/7 When")
	h.keys("b", "b", "n", "1", "enter").on("5/7 When")
	h.keys("b", "2", "enter").on("4/7 Licence").sees("changed terms")
}

func TestLicenceOfOneTenKilobyteLineIsReadToItsEnd(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) {
		other := *e.Images["nvidia-open-580"]
		text := make([]byte, 10_000)
		for i := range text {
			text[i] = 'x'
		}
		copy(text[9_990:], "LAST WORDS")
		other.Licences = []workflow.Licence{{ID: "one-line", Digest: "sha256:" + strings.Repeat("01", 32), Text: string(text)}}
		e.Images["nvidia-open-580"] = &other
	})
	h.keys("n", "enter").on("4/7").keys("end").sees("LAST WORDS", "(100%)")
}

func TestRisksAreTakenOneByOneByName(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Missing = []string{"unsigned-module", "in-use"} })
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("5/7 Risk (1 of 2)").sees("unsigned-module")
	h.keys("all", "enter").on("5/7 Risk (1 of 2)")
	h.keys("unsigned-module", "enter").on("5/7 Risk (2 of 2)")
	h.keys("in-use", "enter").on("6/7 Plan").sees("Risks taken: unsigned-module, in-use")
	require.Equal(t, []string{"unsigned-module", "in-use"}, h.m.c.Choices.Answers().AcceptRisks)
}

func TestRestartIsOfferedWhereTheAnswersLeaveItOpen(t *testing.T) {
	wants := func(e *fake.Engine) { e.WantsRestart = true }
	h := newHarness(t, basic, 80, 24, wants)
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("6/7 Plan").sees("t restarts the node as a step of the run")
	require.Equal(t, "ask", h.m.c.Choices.Answers().Limits.Reboot, "without a word nothing restarts")
	h.keys("t").on("6/7 Plan").sees("The node is restarted as a step of the run")
	require.Equal(t, "if-needed", h.m.c.Choices.Answers().Limits.Reboot)
	h.keys("t").on("6/7 Plan").sees("t restarts the node")
	require.Equal(t, "ask", h.m.c.Choices.Answers().Limits.Reboot)

	h = newHarness(t, basic, 80, 24, nil)
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("6/7 Plan").keys("t").on("6/7 Plan").sees("needs no restart")
	require.Equal(t, "ask", h.m.c.Choices.Answers().Limits.Reboot)
}

func TestNothingToFitOutIsAPage(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Node.Kinds, e.Node.Devices = nil, nil })
	h.on("1/7 Hardware").sees("Nothing to fit out.").keys("n", "enter", "space", "down", "b").on("1/7 Hardware").keys("q")
	require.True(t, h.quit)
	require.Equal(t, workflow.ExitStopped, h.m.result().Exit)
}

func TestMaintenanceThatIsNotKnownIsAsked(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Node.Maintenance.State = "in-service" })
	h.keys("n").on("2/7 Maintenance").sees("kubectl drain node-17")
	h.keys("3", "enter").on("3/7 Image")
	require.Equal(t, "skip", h.m.c.Choices.Answers().Maintenance)
	h.keys("b").on("2/7").sees("> 3")
	h.engine.Node.Maintenance.State = "in-maintenance"
	h.keys("r").on("3/7 Image")
	require.Equal(t, "required", h.m.c.Choices.Answers().Maintenance)
}

// n goes on from the first page, so it does from every page where it has no other
// meaning.
func TestNGoesOnLikeEnter(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Node.Maintenance.State = "in-service" })
	h.keys("n").on("2/7 Maintenance").keys("3", "n").on("3/7 Image").keys("n").on("4/7 Licence")
	h.keys("accept", "enter", "enter").on("5/7 When").sees("? says what each way costs").keys("n").on("6/7 Plan")
}

func TestImpossibleWaysAreShownWithTheReason(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Node.Host.SideTree, e.Node.Host.AtBoot = false, false })
	h.keys("n", "enter", "accept", "enter", "enter").on("5/7 When").sees("1 Load now and keep it over OS upgrades   NOT POSSIBLE", "> 2 Load now only   * recommended")
	h.keys("1", "enter").on("5/7 When").sees("Not possible here: SUSE Elemental")
}

func TestImageByHandGoesIntoTheAnswers(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "c").on("3/7 Image > other image").keys("oci-archive:/media/usb/x.tar", "tab", "jane", "tab", "secret!", "tab", "tab", "enter")
	h.on("3/7 Image").sees("oci-archive:/media/usb/x.tar")
	require.Len(t, h.engine.Logins(), 1)
	h.keys("4", "enter").on("5/7 When").keys("enter").on("6/7 Plan")
	a := h.m.c.Choices.Answers()
	require.Equal(t, &answers.Image{Reference: "oci-archive:/media/usb/x.tar"}, a.Devices[0].Image)
	require.NotNil(t, a.Secrets.RegistryAuth)
	require.NotContains(t, h.view(), "secret!")
}

func TestFailureOffersEveryWayOn(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.FailAt(4, true) })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter")
	h.wait(3e9)
	h.on("FAILED at step 4 of 6").sees("EKEYREJECTED", "fitout explain key-not-enrolled", "r  run the same plan again", "s  save a support bundle")
	h.keys("l").sees("could not insert").keys("w").sees("^[[31m").keys("b").keys("s").sees("The support bundle is").keys("!")
	require.Equal(t, 1, h.shells)
	h.keys("i").on("3/7 Image").keys("b").on("1/7")
	require.NotEmpty(t, h.m.c.Choices.Licences, "answers are kept")
}

func TestFailureThatWasNotUndoneSaysWhatIsLeft(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.FailAt(4, false) })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter")
	h.wait(3e9)
	h.on("FAILED").sees("NOT everything could be undone", "0000:17:00.0 is not bound to nouveau again", "> u  undo")
	h.keys("u").on("Undo").sees("rmmod nvidia", "type  undo").keys("enter").on("Undo").keys("undo", "enter")
	h.wait(3e9)
	h.on("Done").sees("the run was undone")
}

func TestUnknownOutcomeIsShownByItsName(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.EndAs("eaten-by-a-grue", 42) })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter")
	h.wait(3e9)
	h.on("EATEN BY A GRUE").sees("eaten-by-a-grue").keys("q")
	require.Equal(t, 42, h.m.result().Exit)
}

func TestRunThatLostItsRunnerIsNotWaitedForForEver(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.Vanish })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter")
	h.on("7/7 Running")
	h.wait(20e9)
	h.on("INTERRUPTED").sees("undo what is left of it", "go on where it stopped")
}

func TestRunThatAPowerCutBrokeIsOfferedAtTheNextStart(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Break("2026-1130-01") })
	h.on("INTERRUPTED").sees("run 2026-1130-01", "u  undo what is left of it", "r  go on where it stopped", "m  go to the devices")
	h.keys("r").on("Go on").sees("type  resume").keys("enter", "resume", "enter")
	h.wait(3e9)
	h.on("Done")
}

func TestRunInProgressIsOfferedAndNotDisturbed(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Hold("2026-1130-01") })
	h.on("A run is in progress").sees("2026-1130-01", "> 1 watch it").keys("3", "enter")
	require.True(t, h.quit)
	require.Equal(t, workflow.ExitLocked, h.m.result().Exit)
	require.Empty(t, h.engine.Started())
}

func TestErrorsAreAPageWithAWayBack(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) {
		e.PlanErr = &workflow.Error{Exit: 6, Code: "lifeline", Message: "the root disk hangs on this driver", Hint: "leave it alone"}
	})
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("Not possible").sees("the root disk hangs on this driver", "leave it alone", "fitout explain lifeline")
	h.engine.PlanErr = nil
	h.keys("r").on("6/7 Plan")
	h.keys("b").on("5/7 When")
}

func TestPastedBlockActsNowhere(t *testing.T) {
	paste := named["enter"]
	paste.Type, paste.Runes, paste.Paste = -1, []rune("run\nn\n\naccept\nrun\n"), true
	h := newHarness(t, basic, 80, 24, nil)
	h.press(paste)
	h.on("1/7").sees("Pasted text does nothing here")
	h.keys("n", "enter").on("4/7").press(paste)
	h.on("4/7").sees("pasted text does not count")
	h.keys("accept", "enter", "enter", "enter").on("6/7")
	h.press(paste)
	h.on("6/7")
	require.Empty(t, h.engine.Started())
}

func TestTypedWordFollowedByMoreTextDoesNotCount(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("6/7")
	h.wait(1e9)
	for i := 0; i < 200; i++ { // a paste of 200 lines on a line that marks none
		for _, k := range []string{"r", "u", "n"} {
			h.send(key(k))
		}
		h.send(named["enter"])
	}
	h.wait(2e9)
	require.LessOrEqual(t, len(h.engine.Started()), 0)
	h.on("6/7")
}

// A sender that stutters lets the word stand alone for a moment; what came right
// before it tells.
func TestWordInsideAPasteThatStuttersDoesNotCount(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "enter", "accept", "enter", "enter", "enter").on("6/7")
	h.wait(1e9)
	enter := func(text string) {
		for _, k := range text {
			h.send(key(string(k)))
		}
		h.send(named["enter"])
	}
	enter("x")
	h.wait(200e6)
	enter("run")
	h.wait(2e9)
	h.on("6/7").sees("more text came with it, as in a paste")
	for _, k := range "z run" { // one line, with the word at its end
		h.send(key(string(k)))
	}
	h.send(named["enter"])
	h.wait(2e9)
	require.Empty(t, h.engine.Started())
	h.on("6/7")
	enter("run")
	h.wait(2e9)
	require.Len(t, h.engine.Started(), 1)
}

func TestTypeAheadIsThrownAwayWherePagesAct(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "enter").on("4/7")
	flushed := h.flushes
	require.NotZero(t, flushed)
	h.keys("accept", "enter", "enter").on("5/7")
	h.wait(1e9)
	h.send(named["enter"]) // to the plan, and at once:
	for _, k := range []string{"r", "u", "n"} {
		h.send(key(k))
	}
	h.send(named["enter"])
	h.wait(2e9)
	h.on("6/7")
	require.Empty(t, h.engine.Started())
	require.Greater(t, h.flushes, flushed)
}

func TestCtrlCLeavesBeforeTheRunAndStopsInIt(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "ctrl+z").sees("Ctrl-Z does nothing here").keys("ctrl+c")
	require.True(t, h.quit)
	require.Equal(t, workflow.ExitStopped, h.m.result().Exit)

	h = newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.Vanish })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter").on("7/7 Running")
	h.keys("ctrl+c").sees("It stops after this step")
	h.keys("ctrl+c").sees("the undo is not skipped")
	require.False(t, h.quit)
	page[*pages.Running](h)
}

func TestRedrawToggleAndHelpEverywhere(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("ctrl+t").sees("❯").keys("ctrl+t").sees("> [x]")
	for _, k := range []string{"?", "f1"} {
		h.keys(k).on("Help: 1/7").sees("Keys on this page").keys("esc").on("1/7")
	}
	h.keys("ctrl+l").on("1/7")
}

func TestThreeHundredDevicesAreAllReachable(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Many(300) })
	h.sees("1/300").keys("end").sees("300/300", ">", "q quit").keys("pgup", "home").sees("1/300")
	seen := map[string]bool{}
	for i := 0; i < 300; i++ {
		for _, l := range lines(h.view()) {
			seen[l] = true
		}
		h.keys("down")
	}
	found := 0
	for l := range seen {
		if containsAny(l, "card-") {
			found++
		}
	}
	require.GreaterOrEqual(t, found, 300)
	h.keys("/", "card-217", "enter").sees("card-217", "1/1")
}

func TestListOpensOnThePreselectedEntry(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Many(60); e.Want(45) })
	h.sees("> [x]  1x card-045")

	h = newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Many(60); e.Want(30); e.Want(45); e.Want(59) })
	h.sees("> [x]  1x card-030", "3 selected", "31/60")
	h.keys("down", "n").on("3/7").keys("b").on("1/7").sees("> [ ]  1x card-031", "32/60")
}

func TestFailureAtEveryStepFitsAPlainTerminal(t *testing.T) {
	for step := 1; step <= 6; step++ {
		for _, undone := range []bool{true, false} {
			h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play = fake.FailAt(step, undone) })
			h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter")
			h.wait(3e9)
			h.on(fmt.Sprintf("FAILED at step %d of 6", step)).sees("EKEYREJECTED", "q  quit and leave it like this")
			fits(t, h.view(), basic, 80, 24)
		}
	}
}

func TestPasteThatIsTooLongIsSaid(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "c")
	h.press(tea.KeyMsg{Type: tea.KeyRunes, Paste: true, Runes: []rune(strings.Repeat("registry/", 600) + "\n")})
	h.sees("too long: only the first 512 characters were taken").on("3/7 Image > other image")
}

func TestWhatTheKernelSaidIsOnTheResultPage(t *testing.T) {
	lines := pages.DeviceLines(79, journal.DeviceResult{Address: "0000:17:00.0", Name: "NVIDIA H100", Driver: "nvidia", Want: "nvidia",
		Text: "bound, and the kernel log is not clean", Log: []string{"nvidia 0000:17:00.0: firmware\tmissing\x1b[2J"}})
	require.Equal(t, "      | nvidia 0000:17:00.0: firmware    missing^[[2J", lines[2])
	require.Contains(t, lines[0], "NOT 0000:17:00.0")
}

func TestSecretShowsOnlyDots(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "c", "down", "down")
	h.press(tea.KeyMsg{Type: tea.KeyRunes, Paste: true, Runes: []rune("hunter2!\n")})
	h.sees("[********_")
	require.NotContains(t, h.view(), "hunter2")
}

func TestFilterFindsByNumberDriverAndState(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	for want, row := range map[string]string{"15b3": "ConnectX-7", "i40e": "X710", "wrong dr": "H100", "MEGARAID": "Broadcom"} {
		h.keys("/", "ctrl+u", want, "enter").sees(row, "1/1").keys("b")
	}
	h.keys("/", "no such thing", "enter").sees("No device matches").keys("b").sees("1/5")
}

func TestOneCardOfSeveralCanBeLeftAlone(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("enter", "down", "space").sees("This card is left alone", "[ ]  0000:18:00.0").keys("up", "space").sees("That would leave all of them alone")
	h.keys("b", "n", "enter", "accept", "enter", "enter", "enter").on("6/7")
	a := h.m.c.Choices.Answers()
	require.True(t, a.NodeBound)
	require.Equal(t, []string{"0000:18:00.0"}, a.Devices[0].Except.Slots)
}

func TestRunningLogIsFrozenSearchedAndFollowed(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) { e.Play, e.Stays = fake.Vanish, true })
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter").on("7/7 Running").sees("65%", "270 MB of 412 MB")
	h.keys("f").sees("stands still").keys("f").keys("l").sees("layer 12 of 12", "follows the end")
	h.keys("/", "layer 3", "enter").sees("layer 3 of 12").keys("end").sees("follows the end").keys("b").on("7/7")
	h.keys("b").sees("A run cannot be left backwards").keys("q").sees("q once more leaves it").keys("q")
	require.True(t, h.quit)
	require.Contains(t, h.m.result().Text[0], "fitout attach 2026-1130-01")
	require.Equal(t, "2026-1130-01", h.m.result().Run)
}

func TestLicenceIsSavedToAFile(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	path := t.TempDir() + "/licence.txt"
	h.keys("n", "enter", "s", "ctrl+u", path, "enter").sees("Saved as")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, fake.LicenceText, string(data))
	h.keys("/", "end of terms", "enter").sees("END OF TERMS", "(100%)")
}

func TestBusyIsShownAndCanBeGivenUp(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.m.start(pages.Work{Label: "reading the registry", Do: nil})
	h.m.beat(jobTick{h.m.jobs})
	h.sees("Working: reading the registry", "Esc gives up")
	h.keys("n").on("1/7").keys("esc").sees("Given up: nothing was changed.").keys("n").on("3/7")
}

func TestFormKeepsWhatWasTypedButNoPassword(t *testing.T) {
	h := newHarness(t, basic, 80, 24, nil)
	h.keys("n", "c", "registry/x:1", "tab", "jane", "tab")
	h.press(tea.KeyMsg{Type: tea.KeyRunes, Paste: true, Runes: []rune("one\r\ntwo\x1b\x03\n")})
	h.on("3/7 Image > other image").sees("> Password  [******_").keys("tab", "space").sees("[x] for the next runs", "[ ] for this run only")
	require.Empty(t, h.engine.Logins(), "a pasted line end is no Enter")
	h.keys("esc").on("3/7 Image").keys("c").sees("[registry/x:1", "[jane", "[x] for the next runs", "Password  [ ")
	h.keys("ctrl+t").sees("❯ Image", "[✓] for the next runs").keys("ctrl+t").sees("> Image     [registry/x:1_", "[x] for the next runs")
}

func TestAllFunctionsAreListedWhenAsked(t *testing.T) {
	h := &harness{t: t, now: fake.Began}
	h.begin(inProcess{realEngine(t)}, basic, 80, 24)
	require.NotContains(t, h.view(), "1b36:000c")
	h.keys("a").sees("1b36:000c", "NOT NEEDED").keys("end", "space").sees("needs no driver of its own")
	h.keys("a")
	require.NotContains(t, h.view(), "1b36:000c")
}

// TestNothingIsPromisedOfAStepThatTakesLonger looks at a step whose bytes are
// all there while it goes on with something else, past its estimate.
func TestNothingIsPromisedOfAStepThatTakesLonger(t *testing.T) {
	h := newHarness(t, basic, 80, 24, func(e *fake.Engine) {
		e.Stays = true
		e.Play = func(w *journal.Writer, p *plan.Plan) {
			fake.Vanish(w, p)
			_ = w.Append(journal.Event{Event: journal.Progress, Step: p.Steps[0].ID, N: 1, Done: 412_000_000, Total: 412_000_000})
			_ = w.Append(journal.Event{Event: journal.Log, Step: p.Steps[0].ID, N: 1, Message: "depmod for 2 kernels"})
		}
	})
	h.keys("n", "enter", "accept", "enter", "enter", "enter", "run", "enter").on("7/7 Running")
	h.wait(120e9)
	h.on("7/7 Running")
	require.NotContains(t, h.view(), "100%")
	require.NotContains(t, h.view(), " left")
}
