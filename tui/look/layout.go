package look

import "strings"

// Block is a piece of a page's body. When a screen is small, blocks of the
// lowest Keep go first; those of Need never go.
type Block struct {
	Lines []string
	Keep  int
}

// The order in which blocks are dropped.
const (
	Hint   = 1 // explanations
	Detail = 2 // more about the selected line
	Info   = 3 // what the page is about
	Need   = 9 // the list, the field, the question
)

// Fit stacks blocks in h rows: with a blank row between them where there is
// room, without the least needed where there is not. Lines of the block that
// must stay are clipped at the end when even they are too many.
func Fit(h int, blocks ...Block) []string {
	kept := make([]Block, 0, len(blocks))
	for _, b := range blocks {
		if len(b.Lines) > 0 {
			kept = append(kept, b)
		}
	}
	for rows(kept) > h {
		least := -1
		for i, b := range kept {
			if b.Keep < Need && (least < 0 || b.Keep <= kept[least].Keep) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		kept = append(kept[:least], kept[least+1:]...)
	}
	gaps := h - rows(kept)
	var lines []string
	for i, b := range kept {
		if i > 0 && gaps > 0 {
			lines = append(lines, "")
			gaps--
		}
		lines = append(lines, b.Lines...)
	}
	if len(lines) > h {
		lines = lines[:max(h, 0)]
	}
	return lines
}

func rows(blocks []Block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.Lines)
	}
	return n
}

// Column is a column of a table. Width 0 takes what is left. When the table is
// too wide, the columns of the highest Drop go first; 0 stays.
type Column struct {
	Head  string
	Width int
	Drop  int
	Right bool
}

// Table lays rows out in columns.
type Table struct {
	cols []Column
	show []int
}

// NewTable chooses which columns fit in w cells.
func NewTable(w int, cols ...Column) *Table {
	t := &Table{cols: append([]Column(nil), cols...)}
	for i := range t.cols {
		t.show = append(t.show, i)
	}
	const smallest = 12 // of a column that takes what is left
	for t.fixed(smallest) > w {
		worst := -1
		for at, i := range t.show {
			if t.cols[i].Drop > 0 && (worst < 0 || t.cols[i].Drop > t.cols[t.show[worst]].Drop) {
				worst = at
			}
		}
		if worst < 0 {
			break
		}
		t.show = append(t.show[:worst], t.show[worst+1:]...)
	}
	left := w - t.fixed(0)
	for _, i := range t.show {
		if t.cols[i].Width == 0 {
			t.cols[i].Width = max(left, 1)
			break
		}
	}
	return t
}

const gap = 2 // cells between columns

func (t *Table) fixed(flexible int) int {
	n := 0
	for at, i := range t.show {
		if at > 0 {
			n += gap
		}
		if t.cols[i].Width == 0 {
			n += flexible
		}
		n += t.cols[i].Width
	}
	return n
}

// Heads is the line of column heads, "" when none has one.
func (t *Table) Heads() string {
	heads := make([]string, len(t.cols))
	for i, c := range t.cols {
		heads[i] = c.Head
	}
	return t.Row(heads...)
}

// Row lays one row out; cells are cut to their columns and the end is trimmed.
func (t *Table) Row(cells ...string) string {
	var b strings.Builder
	for at, i := range t.show {
		if at > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		if t.cols[i].Right {
			b.WriteString(Right(cell, t.cols[i].Width))
		} else {
			b.WriteString(Pad(cell, t.cols[i].Width))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Bar is a bar of w cells for done of total.
func (t *Theme) Bar(w int, done, total int64) string {
	full := 0
	if total > 0 {
		full = int(int64(w) * min(done, total) / total)
	}
	return strings.Repeat(t.Marks.Full, full) + strings.Repeat(t.Marks.Empty, w-full)
}
