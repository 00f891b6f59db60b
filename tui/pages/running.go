package pages

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/look"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// How often the journal is pulled, and how much is kept of its log. The runner
// never waits for this page: it writes the journal whoever reads it.
const (
	pullBasic = time.Second
	pullRich  = 250 * time.Millisecond
	pullMax   = 2000
	tailBasic = 6
	tailRich  = 12
	// runnerGone is how long a run may be silent without a runner.
	runnerGone = 10 * time.Second
)

// Running follows a run's journal: steps, progress with rate and time left, the
// end of the log.
type Running struct {
	*Common
	run    string
	plan   *plan.Plan // nil for a run that was attached to
	reader *journal.Reader
	sum    Tale
	frozen []string // the tail as it was when f was pressed, nil when it runs
	now    time.Time
	begin  time.Time // when following began
	news   time.Time // of the last event
	pace   pace
	stops  int // presses of Ctrl-C
	leave  bool
	after  int64 // what the journal said up to here is of an earlier start
}

// NewRunning follows a run.
func NewRunning(c *Common, run string, p *plan.Plan) *Running {
	now := c.Now()
	c.Run = run
	return &Running{Common: c, run: run, plan: p, reader: journal.Open(c.Wizard.RunDir(run)), sum: NewTale(), now: now, begin: now, news: now}
}

// NewFollowing follows a run on which a runner was started again; last is the
// newest event that was known before.
func NewFollowing(c *Common, run string, p *plan.Plan, last int64) *Running {
	r := NewRunning(c, run, p)
	r.after = last
	return r
}

// pulled is what the journal had that was new.
type pulled struct {
	events []journal.Event
	err    error
	alive  bool
}

func (r *Running) Typing() bool    { return false }
func (r *Running) Appear() tea.Cmd { return r.pull() }

func (r *Running) Title() string {
	return "7/7 Running  " + look.Clock(r.elapsed())
}

func (r *Running) elapsed() time.Duration {
	if r.sum.Began.IsZero() {
		return r.now.Sub(r.begin)
	}
	return r.now.Sub(r.sum.Began)
}

// pull reads the journal; it is the only I/O of the page, and a command.
func (r *Running) pull() tea.Cmd {
	return func() tea.Msg {
		events, err := r.reader.Next(pullMax)
		return To{r, pulled{events, err, r.Wizard.Current() == r.run}}
	}
}

func (r *Running) interval() time.Duration {
	if r.Basic() {
		return pullBasic
	}
	return pullRich
}

func (r *Running) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case pulled:
		return r.take(msg)
	case tick:
		return r.pull()
	case asked:
		if msg.err != nil {
			return notice("Not stopped: " + msg.err.Error())
		}
		return notice("It stops after this step; then what was done is undone.")
	case tea.KeyMsg:
		return r.key(msg)
	}
	return nil
}

// take adds events and goes on to the result when the run has ended.
func (r *Running) take(msg pulled) tea.Cmd {
	r.now = r.Now()
	for _, e := range msg.events {
		r.sum.Add(e)
		r.news = r.now
	}
	r.pace.add(r.now, r.sum.Summary, r.plan)
	switch {
	case r.sum.Ended && r.sum.LastSeq > r.after:
		return r.ended()
	case !msg.alive && r.now.Sub(r.news) > runnerGone:
		return r.ended()
	case msg.err != nil:
		return tea.Batch(notice("The journal cannot be read: "+msg.err.Error()), r.later(r, r.interval(), tick{}))
	case len(msg.events) == pullMax:
		return r.pull()
	}
	return r.later(r, r.interval(), tick{})
}

func (r *Running) ended() tea.Cmd {
	_ = r.reader.Close()
	if r.sum.Outcome == journal.OutcomeDone || r.sum.Outcome == journal.OutcomeRolledBack {
		return send(Home{NewResult(r.Common, r.run, r.plan, r.sum)})
	}
	return send(Home{NewFailure(r.Common, r.run, r.plan, r.sum)})
}

// asked is the answer to a request to stop.
type asked struct{ err error }

// Interrupt is Ctrl-C: stop after this step. It never skips the undo.
func (r *Running) Interrupt() tea.Cmd {
	r.stops++
	c, ok := r.Wizard.(Canceller)
	switch {
	case !ok:
		return notice("To stop it after this step:  fitout cancel " + r.run)
	case r.stops > 1:
		return notice("It is stopping already; the undo is not skipped.")
	}
	return work("asking the run to stop", func(ctx context.Context, _ image.Progress) tea.Msg {
		return asked{c.Cancel(ctx, r.run)}
	})
}

func (r *Running) key(k tea.KeyMsg) tea.Cmd {
	was := r.leave
	r.leave = false
	switch letter(k) {
	case 'l':
		return send(Push{NewLog(r.Common, func() []string { return r.sum.Log })})
	case 'f':
		if r.frozen != nil {
			r.frozen = nil
			return notice("The log runs again.")
		}
		r.frozen = append([]string{}, r.sum.Log...)
		return notice("The log stands still here; the run goes on. f lets it run.")
	case 'q':
		if was {
			return send(Quit{Exit: 0, Text: []string{"The run " + r.run + " goes on. Come back with:  fitout attach " + r.run}})
		}
		r.leave = true
		return notice("The run goes on without this screen. q once more leaves it; fitout attach comes back.")
	}
	if Means(k) == Back {
		return notice("A run cannot be left backwards: Ctrl-C stops it, q leaves the screen.")
	}
	return nil
}

// Body draws steps, bars and the end of the log.
func (r *Running) Body(w, h int) []string {
	if h < 11 {
		return r.compact(w, h)
	}
	steps := r.steps(w)
	tail := tailBasic
	if !r.Basic() && h > 24 {
		tail = tailRich
	}
	room := max(h-len(steps)-len(r.bars(w))-3, 1)
	if most := h - tail - 6; len(steps) > most {
		steps = r.around(steps, max(most, 3))
		room = max(h-len(steps)-len(r.bars(w))-3, 1)
	}
	log := r.tail(w, min(tail, room))
	foot := look.Cut("You may disconnect: the run goes on. Come back with:  fitout attach", w)
	if q := r.sum.Question; q != nil {
		foot = look.Cut("The run waits for a person: "+look.Line(q.Message), w)
	}
	head := look.Cut("log, last lines of "+fmt.Sprint(r.sum.Lines), w)
	if r.frozen != nil {
		head += "   (stands still; f lets it run)"
	}
	return look.Fit(h,
		look.Block{Lines: steps, Keep: look.Need},
		look.Block{Lines: r.bars(w), Keep: look.Info},
		look.Block{Lines: append([]string{r.Theme.Paint(look.Faint, head)}, log...), Keep: look.Detail},
		look.Block{Lines: []string{r.Theme.Paint(look.Faint, foot)}, Keep: look.Hint})
}

// compact is for screens below 80x24: where it is, and the last lines.
func (r *Running) compact(w, h int) []string {
	lines := []string{look.Cut(r.where(), w)}
	lines = append(lines, r.bars(w)...)
	return append(lines, r.tail(w, max(h-len(lines), 1))...)
}

// where is the step under way in one line.
func (r *Running) where() string {
	if i := r.sum.Current; i >= 0 {
		s := r.sum.Steps[i]
		return fmt.Sprintf("step %d of %d  %s", i+1, len(r.sum.Steps), look.Line(s.Title))
	}
	return "waiting for the run to begin"
}

// stepMarks maps step states to marks and roles.
func (r *Running) mark(s journal.State) (string, look.Role) {
	m := r.Theme.Marks
	switch s {
	case journal.OK:
		return m.Done, look.Good
	case journal.Running, journal.Prepared, journal.Undoing:
		return m.Now, look.Care
	case journal.Failed, journal.UndoFail:
		return m.Failed, look.Bad
	case journal.Undone:
		return m.Undone, look.Care
	case journal.Skipped:
		return m.Skipped, look.Faint
	}
	return m.Todo, look.Faint
}

func (r *Running) steps(w int) []string {
	if len(r.sum.Steps) == 0 {
		return []string{"Waiting for the run to begin."}
	}
	t := look.NewTable(w, look.Column{Width: 4}, look.Column{Width: 2, Right: true}, look.Column{Width: 9, Drop: 2}, look.Column{}, look.Column{Width: 6, Right: true, Drop: 1})
	var lines []string
	for i, s := range r.sum.Steps {
		mark, role := r.mark(s.State)
		clock := ""
		switch {
		case !s.Began.IsZero() && !s.Ended.IsZero():
			clock = look.Clock(s.Ended.Sub(s.Began))
		case !s.Began.IsZero():
			clock = look.Clock(r.now.Sub(s.Began))
		}
		text := s.Title
		switch s.State {
		case journal.Failed, journal.UndoFail, journal.Skipped, journal.Undone, journal.Undoing:
			text = look.Upper(string(s.State)) + "  " + s.Title
		}
		lines = append(lines, t.Row(r.Theme.Paint(role, mark), fmt.Sprint(i+1), s.ID, r.Theme.Text(text), clock))
	}
	return lines
}

// around keeps the lines about the step under way.
func (r *Running) around(lines []string, n int) []string {
	from := max(min(r.sum.Current-n/2, len(lines)-n), 0)
	return lines[from:min(from+n, len(lines))]
}

// bars are the progress of the step and of the run.
func (r *Running) bars(w int) []string {
	bar := max(min(w-40, 40), 8)
	var lines []string
	if i := r.sum.Current; i >= 0 && r.sum.Steps[i].Done < r.sum.Steps[i].Total {
		s := r.sum.Steps[i]
		text := fmt.Sprintf("This step  [%s] %3d%%  %s of %s", r.Theme.Bar(bar, s.Done, s.Total), s.Done*100/s.Total, plan.Size(s.Done), plan.Size(s.Total))
		if rate := r.pace.rate; rate > 0 {
			text += ", " + plan.Size(rate) + "/s"
		}
		lines = append(lines, look.Cut(text, w))
	} else { // also when every byte is there and the step goes on with something else
		lines = append(lines, look.Cut("This step  "+r.doing(), w))
	}
	done := 0
	for _, s := range r.sum.Steps {
		if s.State == journal.OK || s.State == journal.Skipped {
			done++
		}
	}
	all := fmt.Sprintf("All        [%s] %d of %d", r.Theme.Bar(bar, int64(done), int64(len(r.sum.Steps))), done, len(r.sum.Steps))
	if r.pace.left > 0 {
		all += "  about " + plan.About(r.pace.left) + " left"
	}
	return append(lines, look.Cut(all, w))
}

// doing is the newest sentence about the step under way.
func (r *Running) doing() string {
	i := r.sum.Current
	if i < 0 {
		return "-"
	}
	if s := r.sum.Steps[i]; s.Message != "" {
		return look.Line(s.Message)
	}
	return look.Line(r.sum.Steps[i].Title)
}

// tail is the end of the log, n lines.
func (r *Running) tail(w, n int) []string {
	lines := r.sum.Log
	if r.frozen != nil {
		lines = r.frozen
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	out := make([]string, 0, n)
	for _, l := range lines {
		out = append(out, look.Cut(l, w))
	}
	for len(out) < n {
		out = append(out, "")
	}
	return out
}

func (r *Running) Keys() []look.Key {
	return []look.Key{{Keys: "l", Does: "full log"}, {Keys: "f", Does: "freeze"}, {Keys: "Ctrl-C", Does: "stop after this step"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "leave the screen"}}
}

func (r *Running) Help() []string {
	return []string{
		"The run is a process of its own; this page only reads its journal. You may disconnect, switch the screen, or lose the line: the run goes on. " + "fitout attach comes back to it from anywhere.",
		"Ctrl-C asks it to stop after this step; what was done is undone then. Pressed again it does not skip the undo.",
		"l shows the whole log, f freezes the lines here. The journal is " + strings.TrimSuffix(r.Wizard.RunDir(r.run), "/") + "/" + journal.File,
	}
}
