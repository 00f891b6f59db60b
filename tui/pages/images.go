package pages

import (
	"fmt"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
)

// Images offers driver images for one kind, with a verdict for each kernel that
// may boot. Images are read one after the other while the page is up.
type Images struct {
	*Common
	q       choice.Question
	list    List
	rows    int
	moved   bool // the cursor was moved by hand
	reading int  // index of the offer being read, -1 for none
	shown   int  // the line that the detail block is about
	done    atomic.Int64
	total   atomic.Int64
	percent int // as last drawn
}

// NewImages is the page for q.Kind.
func NewImages(c *Common, q choice.Question) *Images {
	p := &Images{Common: c, q: q, rows: 8, reading: -1}
	switch pick := p.kind().Pick; {
	case pick >= 0:
		p.list.Cur, p.moved = pick, true
	case pick == choice.Leave:
		p.list.Cur, p.moved = len(p.kind().Offers), true
	}
	p.shown = p.list.Cur
	return p
}

func (p *Images) kind() *choice.Kind   { return &p.Choices.Kinds[p.q.Kind] }
func (p *Images) group() workflow.Kind { return p.Choices.Survey.Kinds[p.q.Kind] }
func (p *Images) Typing() bool         { return false }

func (p *Images) Title() string {
	if p.q.Of > 1 {
		return fmt.Sprintf("3/7 Image (%d of %d)", p.q.Nth, p.q.Of)
	}
	return "3/7 Image"
}

// Appear reads the images that were not read yet.
func (p *Images) Appear() tea.Cmd {
	p.recommend()
	return p.readNext()
}

// examined is the end of reading one image. It is kept even when the page has
// gone meanwhile.
type examined struct {
	offer *choice.Offer
	ex    *workflow.Examined
	err   error
}

// Apply keeps the result.
func (e examined) Apply() { e.offer.Examined, e.offer.Err = e.ex, e.err }

// tick redraws progress; settle moves the detail block to the cursor.
type (
	tick    struct{}
	settled struct{ at int }
)

func (p *Images) readNext() tea.Cmd {
	if p.reading >= 0 {
		return nil
	}
	for i := range p.kind().Offers {
		o := &p.kind().Offers[i]
		if o.Examined != nil || o.Err != nil {
			continue
		}
		p.reading, p.percent = i, 0
		p.done.Store(0)
		p.total.Store(0)
		survey, kind := p.Choices.Survey, p.group()
		read := func() tea.Msg {
			ex, err := p.Wizard.Examine(p.Context, survey, kind, o.Offer, func(done, total int64) {
				p.done.Store(done)
				p.total.Store(total)
			})
			return To{p, examined{o, ex, err}}
		}
		return tea.Batch(read, p.later(p, time.Second, tick{}))
	}
	return nil
}

// recommend puts the cursor on the recommended image until it was moved.
func (p *Images) recommend() {
	if best, _ := p.kind().Recommended(); best >= 0 && !p.moved {
		p.list.Cur, p.shown = best, best
	}
}

func (p *Images) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case examined:
		p.reading = -1
		p.recommend()
		return p.readNext()
	case tick:
		if p.reading < 0 {
			return nil
		}
		if t := p.total.Load(); t > 0 {
			p.percent = int(p.done.Load() * 100 / t)
		}
		return p.later(p, time.Second, tick{})
	case settled:
		if msg.at == p.list.Cur {
			p.shown = msg.at
		}
	case tea.KeyMsg:
		return p.key(msg)
	}
	return nil
}

func (p *Images) key(k tea.KeyMsg) tea.Cmd {
	n := len(p.kind().Offers) + 1 // the last line is "leave it alone"
	switch letter(k) {
	case 'c':
		return send(Push{NewCustom(p.Common, p.q)})
	case 'w':
		return p.why()
	case 'r':
		return p.reread()
	}
	if d := digit(k); d >= 0 && d < n {
		if d == 0 {
			d = n
		}
		return p.move(d - 1)
	}
	before := p.list.Cur
	if p.list.Move(Means(k), n, p.rows) {
		at := p.list.Cur
		p.list.Cur = before
		return p.move(at)
	}
	switch {
	case onward(k), Means(k) == Select:
		return p.take()
	case Means(k) == Back:
		return send(Pop{})
	}
	return nil
}

// move puts the cursor on a line. On a slow screen the detail block follows
// when the cursor rests.
func (p *Images) move(at int) tea.Cmd {
	p.list.Cur, p.moved = at, true
	if !p.Basic() {
		p.shown = at
		return nil
	}
	return p.later(p, rest, settled{at})
}

// rest is how long a cursor stands still before the detail block follows it.
const rest = 250 * time.Millisecond

// offer is the one under the cursor, nil for "leave it alone".
func (p *Images) offer() *choice.Offer {
	if p.list.Cur >= len(p.kind().Offers) {
		return nil
	}
	return &p.kind().Offers[p.list.Cur]
}

// take chooses what is under the cursor and goes on.
func (p *Images) take() tea.Cmd {
	o := p.offer()
	if o == nil {
		p.kind().Pick = choice.Leave
		return next(p.Common, p.q)
	}
	if p.reading == p.list.Cur {
		return notice("Its image is still being read.")
	}
	if ok, why := o.Usable(); !ok {
		if o.Err != nil {
			return send(Push{NewTrouble(p.Common, "Reading "+o.Name(), o.Err, nil)})
		}
		return notice("Not possible: " + why)
	}
	if p.kind().Pick != p.list.Cur {
		p.kind().When = "" // the next page proposes one that fits this image
	}
	p.kind().Pick = p.list.Cur
	return next(p.Common, p.q)
}

func (p *Images) why() tea.Cmd {
	o := p.offer()
	switch {
	case o == nil:
		return notice("Left alone, it stays as it is.")
	case o.Err != nil:
		return send(Push{NewTrouble(p.Common, "Reading "+o.Name(), o.Err, nil)})
	case o.Examined == nil:
		return notice("Its image has not been read yet.")
	}
	return send(Push{NewWhy(p.Common, o)})
}

// reread tries images again that could not be read.
func (p *Images) reread() tea.Cmd {
	for i := range p.kind().Offers {
		p.kind().Offers[i].Err = nil
	}
	return p.readNext()
}

func (p *Images) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down or 0-9", Does: "choose"}, {Keys: "Enter", Does: "take it"}, {Keys: "w", Does: "why"}, {Keys: "c", Does: "other image"},
		{Keys: "r", Does: "read again"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (p *Images) Help() []string {
	return []string{
		"The driver images for one kind of device. Each is judged from its own modules for every kernel that may boot here, before anything on the node changes.",
		"OK: it would load. OK KABI: built for another release, the symbol versions match. UNSURE: it could not be checked. NO MODULE: nothing for this kernel. BLOCKED: the kernel would refuse it.",
		"Enter and n take the image under the cursor and go on.",
		"w shows the checks behind a verdict. c takes an image the catalog does not have: a reference in a registry, or a file or directory on a USB stick, with user and password where needed.",
	}
}
