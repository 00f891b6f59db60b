package pages

import (
	"strings"
	"time"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/look"
	"fitout/workflow/plan"
)

// Text is a one-line text field.
type Text struct {
	Value []rune
	// Limit in characters; what is too long is refused and said.
	Limit  int
	Secret bool
	// Note says why the last input was refused.
	Note string
}

// Key takes a key and says whether it was for the field.
func (t *Text) Key(k tea.KeyMsg) bool {
	t.Note = ""
	switch k.Type {
	case tea.KeyRunes, tea.KeySpace:
		if k.Alt {
			return false
		}
		t.insert(k)
	case tea.KeyBackspace, tea.KeyCtrlH, tea.KeyDelete:
		if n := len(t.Value); n > 0 {
			t.Value = t.Value[:n-1]
		}
	case tea.KeyCtrlU:
		t.Value = nil
	case tea.KeyCtrlW:
		s := strings.TrimRight(string(t.Value), " ")
		t.Value = []rune(s[:strings.LastIndexByte(s, ' ')+1])
	default:
		return false
	}
	return true
}

// insert appends what was typed or pasted; control characters and line ends in
// it are dropped, so a paste never presses Enter.
func (t *Text) insert(k tea.KeyMsg) {
	limit := t.Limit
	if limit == 0 {
		limit = 1024
	}
	for _, r := range k.Runes {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			continue
		}
		if len(t.Value) >= limit {
			t.Note = "too long: only the first " + plan.Count(limit, "character") + " were taken"
			return
		}
		t.Value = append(t.Value, r)
	}
}

// String is the value without blanks around it.
func (t *Text) String() string { return strings.TrimSpace(string(t.Value)) }

// View shows the end of the value and the cursor in w cells.
func (t *Text) View(th *look.Theme, w int) string {
	shown := string(t.Value)
	if t.Secret {
		shown = strings.Repeat("*", len(t.Value))
	}
	shown = look.Line(shown)
	for look.Width(shown) > max(w-3, 1) {
		r := []rune(shown)
		shown = string(r[1:])
	}
	fill := max(w-2-look.Width(shown)-1, 0)
	return "[" + shown + th.Marks.Field + strings.Repeat(" ", fill) + "]"
}

// Settle is how long after Enter a typed word must stay the last input. A block
// of text that was pasted into the terminal goes on sooner than that.
const Settle = 300 * time.Millisecond

// Word is a field in which one word has to be typed for something to happen.
type Word struct {
	Want string
	Text
	armed int // counts keys; a confirmation holds for the count it was made at
	keys  int // of text since the word was begun
}

// Confirmed is sent to the page when the word was typed and entered, and a
// moment has gone by. Its zero value holds nowhere.
type Confirmed struct {
	At int
	// Keys is how many keys of text went into the word, Enter being one. More
	// than these in one go are a paste that has the word in it.
	Keys int
}

// Active says that something was typed, so letters belong to the field.
func (w *Word) Active() bool { return len(w.Value) > 0 }

// Starts says that a letter begins the word and so goes into the field.
func (w *Word) Starts(k tea.KeyMsg) bool {
	return letter(k) != 0 && w.Want != "" && letter(k) == rune(w.Want[0])
}

// Key takes a key. On Enter with the right word it returns the command that
// confirms after a moment of silence.
func (w *Word) Key(c *Common, p Page, k tea.KeyMsg) (handled bool, cmd tea.Cmd) {
	w.armed++
	if k.Paste {
		w.Note = "pasted text does not count here: type " + w.Want
		w.Value = nil
		return true, nil
	}
	if !w.Active() {
		w.keys = 0
	}
	if IsText(k) {
		w.keys++
	}
	switch {
	case k.Type == tea.KeyEsc:
		w.Value = nil
		return true, nil
	case enter(k):
		if w.String() != w.Want {
			w.Note = "to go on, type the word " + w.Want + " and press Enter"
			w.Value = nil
			return true, nil
		}
		return true, c.later(p, Settle, Confirmed{w.armed, w.keys})
	}
	return w.Text.Key(k), nil
}

// Holds says whether a confirmation is still the last thing that was typed.
func (w *Word) Holds(c Confirmed) bool {
	ok := c.At == w.armed && w.String() == w.Want
	if !ok {
		w.Note = "more text came with it, as in a paste: wait a moment, then type " + w.Want
	}
	w.Value = nil
	return ok
}

// Line is the field with its request, in w cells.
func (w *Word) Line(th *look.Theme, does string, width int) string {
	text := does + " type  " + th.Paint(look.Word, w.Want) + "  and press Enter:  "
	if look.Width(text)+len(w.Want)+3 > width {
		text = "type " + th.Paint(look.Word, w.Want) + ", Enter: "
	}
	return text + w.View(th, max(min(len(w.Want)+9, width-look.Width(text)), 6))
}
