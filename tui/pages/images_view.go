package pages

import (
	"fitout/tui/choice"
	"fitout/tui/look"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/plan"
	"fmt"
	"strings"
)

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
	advice := p.Theme.Marks.Recommended + " recommended: " + rule
	if best < 0 {
		advice = p.none(len(offers))
	}
	return look.Fit(h,
		look.Block{Lines: head, Keep: look.Info},
		look.Block{Lines: append(p.heads(t, kernels), list.text...), Keep: look.Need},
		look.Block{Lines: look.Wrap(advice, w), Keep: look.Hint},
		look.Block{Lines: detail, Keep: look.Detail})
}

// none says why nothing is recommended.
func (p *Images) none(offers int) string {
	switch {
	case p.reading >= 0:
		return "The images are being read; the recommended one is marked then."
	case offers == 0:
		return "The catalog has nothing for it. c takes an image reference, or a file on a USB stick."
	}
	for _, o := range p.kind().Offers {
		if o.Ambiguous {
			return "None is recommended: several entries fit equally well, and only you can choose."
		}
	}
	return "None is recommended: no image is OK on the running kernel. w says why."
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
	case o.Examined == nil && at == p.reading && p.percent >= 100:
		return "judging"
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
		return look.Wrap("Left alone, the device stays as it is; the answers file says so.", w)
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
	lines = append(lines, labelled(w, 11, "digest", digest, "layout", layout, "offered", o.Why, "licence", Licences(o.Examined))...)
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

// Licences says which texts go with an image and whether they were accepted.
func Licences(e *workflow.Examined) string {
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
