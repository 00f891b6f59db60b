package pages

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
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
	switch Means(k) {
	case Go, Select:
		return p.take()
	case Back:
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

// Body draws the offers and what is known of the one the cursor rests on.
func (p *Images) Body(w, h int) []string {
	k := p.group()
	name := k.Name
	if name == "" {
		name = k.ID
	}
	now := "no driver"
	if k.Driver != "" {
		now = k.Driver
	}
	now = "now: " + now + ", " + look.State(k.State)
	what := look.Cut(fmt.Sprintf("For %dx %s (%s)", len(k.Devices), p.Theme.Text(name), k.ID), w)
	head := []string{what, now}
	if fill := w - look.Width(what) - look.Width(now); fill > 1 {
		head = []string{what + strings.Repeat(" ", fill) + p.Theme.Paint(look.StateRole(k.State), now)}
	}
	offers := p.kind().Offers
	t, kernels := p.table(w - 2)
	best, rule := p.kind().Recommended()
	detail := p.detail(w)
	list := p.list.draw(p.Theme, share(h, len(head)+2, len(offers)+1, len(detail)), len(offers)+1, func(at int) string { return p.line(t, kernels, at, best) })
	p.rows = list.rows
	ruleLine := []string{p.Theme.Marks.Recommended + " recommended: " + rule}
	if best < 0 {
		ruleLine = p.none(len(offers))
	}
	return look.Fit(h,
		look.Block{Lines: head, Keep: look.Info},
		look.Block{Lines: append(p.heads(t, kernels), list.text...), Keep: look.Need},
		look.Block{Lines: ruleLine, Keep: look.Hint},
		look.Block{Lines: detail, Keep: look.Detail})
}

// none says why nothing is recommended.
func (p *Images) none(offers int) []string {
	switch {
	case p.reading >= 0:
		return []string{"The images are being read; the recommended one is marked then."}
	case offers == 0:
		return []string{"The catalog has nothing for it. c takes an image reference, or a file on a USB stick."}
	}
	for _, o := range p.kind().Offers {
		if o.Ambiguous {
			return []string{"None is recommended: several entries fit equally well, and only you can choose."}
		}
	}
	return []string{"None is recommended: no image is OK on the running kernel. w says why."}
}

// table has a column for each kernel that there is room for.
func (p *Images) table(w int) (*look.Table, int) {
	kernels := len(p.Choices.Survey.Kernels)
	room := 2
	if w >= 100 {
		room = 3
	}
	kernels = min(kernels, room)
	cols := []look.Column{{Width: 3}, {Head: "Image"}, {Head: "Size", Width: 7, Drop: 2, Right: true}}
	for i := 0; i < kernels; i++ {
		cols = append(cols, look.Column{Head: kernelHead(p.Choices.Survey.Kernels[i]), Width: 14, Drop: i})
	}
	return look.NewTable(w, cols...), kernels
}

func (p *Images) heads(t *look.Table, kernels int) []string {
	second := []string{"", "", ""}
	for i := 0; i < kernels; i++ {
		second = append(second, tail(p.release(p.Choices.Survey.Kernels[i].Release), 14))
	}
	return []string{p.Theme.Paint(look.Faint, "  "+t.Heads()), p.Theme.Paint(look.Faint, "  "+t.Row(second...))}
}

// release is a kernel's release without the flavour that all of them share.
func (p *Images) release(release string) string {
	i := strings.LastIndexByte(release, '-')
	if i < 0 || len(release) <= 14 {
		return release
	}
	for _, k := range p.Choices.Survey.Kernels {
		if !strings.HasSuffix(k.Release, release[i:]) {
			return release
		}
	}
	return release[:i]
}

func (p *Images) line(t *look.Table, kernels, at, best int) string {
	if at == len(p.kind().Offers) {
		return t.Row("  0", "leave it alone")
	}
	o := &p.kind().Offers[at]
	star := ""
	if at == best {
		star = p.Theme.Marks.Recommended
	}
	size := ""
	if o.Examined != nil && o.Examined.Bytes > 0 {
		size = plan.Size(o.Examined.Bytes)
	}
	cells := []string{fmt.Sprintf("%1s%2d", star, at+1), p.Theme.Text(o.Name()), size}
	for i := 0; i < kernels; i++ {
		cells = append(cells, p.verdict(o, at, i))
	}
	return t.Row(cells...)
}

// verdict is a cell of the table.
func (p *Images) verdict(o *choice.Offer, at, kernel int) string {
	switch {
	case o.Err != nil:
		return p.Theme.Paint(look.Bad, "UNREADABLE")
	case o.Examined == nil && at == p.reading && p.percent > 0:
		return fmt.Sprintf("reading %d%%", p.percent)
	case o.Examined == nil && at == p.reading:
		return "reading"
	case o.Examined == nil:
		return "waiting"
	case kernel >= len(o.Examined.Judgements):
		return "-"
	}
	v := o.Examined.Judgements[kernel].Verdict
	return p.Theme.Paint(look.VerdictRole(v), look.Verdict(v))
}

// detail is what is known of the image that the cursor rests on.
func (p *Images) detail(w int) []string {
	if p.shown >= len(p.kind().Offers) {
		return []string{"Left alone, the device stays as it is; the answers file says so."}
	}
	o := &p.kind().Offers[p.shown]
	lines := []string{look.Cut(fmt.Sprintf("%d %s  %s", p.shown+1, look.Line(o.Name()), look.Line(o.Driver.Title)), w)}
	if o.Err != nil {
		return append(lines, look.Wrap(o.Err.Error(), w)...)
	}
	if o.Examined == nil {
		return append(lines, labelled(w, 11, "offered", o.Why)...)
	}
	var digest, layout string
	for _, j := range o.Examined.Judgements {
		if inv := o.Examined.Inventories[j.Release]; inv != nil {
			digest, layout = inv.Digest, inv.Layout
			break
		}
	}
	lines = append(lines, labelled(w, 11, "digest", digest, "layout", layout, "offered", o.Why, "licence", licences(o.Examined))...)
	for _, j := range o.Examined.Judgements {
		if len(j.Findings) > 0 {
			lines = append(lines, labelled(w, 11, look.Cut(string(j.Findings[0].Severity), 10), j.Findings[0].Message+" ("+tail(j.Release, 14)+")")...)
		}
		if j.Verdict == finding.NoModule && j.Nearest != "" {
			lines = append(lines, labelled(w, 11, "nearest", "the image has "+j.Nearest)...)
		}
	}
	return lines
}

// licences says which texts go with an image and whether they were accepted.
func licences(e *workflow.Examined) string {
	var words []string
	for _, l := range e.Licences {
		state := "not accepted yet"
		if l.Accepted {
			state = "accepted on this node"
		}
		words = append(words, l.ID+", "+state)
	}
	return strings.Join(words, "; ")
}

func (p *Images) Keys() []look.Key {
	return []look.Key{{Keys: "Up/Down or 0-9", Does: "choose"}, {Keys: "Enter", Does: "take it"}, {Keys: "w", Does: "why"}, {Keys: "c", Does: "other image"},
		{Keys: "r", Does: "read again"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (p *Images) Help() []string {
	return []string{
		"The driver images for one kind of device. Each is judged from its own modules for every kernel that may boot here, before anything on the node changes.",
		"OK: it would load. OK KABI: built for another release, the symbol versions match. UNSURE: it could not be checked. NO MODULE: nothing for this kernel. BLOCKED: the kernel would refuse it.",
		"w shows the checks behind a verdict. c takes an image the catalog does not have: a reference in a registry, or a file or directory on a USB stick, with user and password where needed.",
	}
}
