package pages

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/huh"

	"fitout/tui/look"
	"fitout/workflow/plan"
)

// Form is a few fields of huh one below the other, embedded in a page. The page
// keeps Enter, Esc and the moves between fields to itself, so a form cannot end
// by itself; the commands of huh are not carried out, which leaves its cursor
// still and the clipboard alone.
type Form struct {
	form   *huh.Form
	group  *huh.Group
	fields []field
	at     int
	// drawn is the theme that the fields look like.
	drawn *look.Theme
	label int
	// Note says why the last input was not taken as it was.
	Note string
}

// field is a field of huh with the theme that it was given, which changes in
// place when the profile does: huh takes a field's theme once.
type field struct {
	huh.Field
	theme *huh.Theme
	limit int // characters of a text, 0 for a choice
}

// NewForm makes a form with labels of that many cells.
func NewForm(th *look.Theme, label int, fields ...field) *Form {
	f := &Form{fields: fields, label: label}
	list := make([]huh.Field, len(fields))
	for i := range fields {
		fields[i].theme = &huh.Theme{}
		list[i] = fields[i].WithTheme(fields[i].theme)
	}
	f.paint(th)
	f.group = huh.NewGroup(list...).WithShowHelp(false).WithShowErrors(false)
	f.form = huh.NewForm(f.group).WithTheme(f.fields[0].theme).WithKeyMap(formKeys())
	f.form.Init()
	return f
}

// textField is a field for a line of text; secret shows dots.
func textField(label string, value *string, limit int, secret bool) field {
	in := huh.NewInput().Title(label).Inline(true).Prompt("[").Value(value)
	if secret {
		in.EchoMode(huh.EchoModePassword)
	}
	return field{Field: in, limit: limit}
}

// choiceField is a yes-or-no field.
func choiceField(label, yes, no string, value *bool) field {
	return field{Field: huh.NewConfirm().Title(label).Inline(true).Affirmative(yes).Negative(no).Value(value)}
}

// formKeys leaves huh the keys inside a field only; the page moves between them.
func formKeys() *huh.KeyMap {
	k := huh.NewDefaultKeyMap()
	none := key.NewBinding(key.WithDisabled())
	k.Quit = none
	k.Input = huh.InputKeyMap{AcceptSuggestion: none, Next: none, Prev: none, Submit: none}
	k.Confirm = huh.ConfirmKeyMap{
		Toggle: key.NewBinding(key.WithKeys(" ", "left", "right")),
		Accept: key.NewBinding(key.WithKeys("y")), Reject: key.NewBinding(key.WithKeys("n")),
		Next: none, Prev: none, Submit: none,
	}
	return k
}

// paint makes the fields look like a theme.
func (f *Form) paint(th *look.Theme) {
	if f.drawn == th {
		return
	}
	f.drawn = th
	for _, field := range f.fields {
		if field.limit > 0 {
			*field.theme = *th.FormText(f.label)
		} else {
			*field.theme = *th.FormChoice(f.label)
		}
	}
}

// At is the number of the field in focus.
func (f *Form) At() int { return f.at }

// Typing says that letters go into a text.
func (f *Form) Typing() bool { return f.fields[f.at].limit > 0 }

// Go moves the focus to a field; beyond either end it stays.
func (f *Form) Go(to int) {
	for to = min(max(to, 0), len(f.fields)-1); f.at < to; f.at++ {
		f.form.NextField()
	}
	for ; f.at > to; f.at-- {
		f.form.PrevField()
	}
}

// Key takes a key that is for the field in focus.
func (f *Form) Key(k tea.KeyMsg) {
	f.Note = ""
	if k.Type == tea.KeyRunes || k.Type == tea.KeySpace {
		k = f.clean(k)
		if len(k.Runes) == 0 {
			return
		}
	}
	f.form.Update(k)
}

// clean drops what no field takes, so that a paste presses no key, and what is
// over the limit.
func (f *Form) clean(k tea.KeyMsg) tea.KeyMsg {
	kept := []rune{}
	for _, r := range k.Runes {
		if !k.Alt && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			kept = append(kept, r)
		}
	}
	if limit := f.fields[f.at].limit; limit > 0 {
		have, _ := f.fields[f.at].GetValue().(string)
		if room := max(limit-len([]rune(have)), 0); len(kept) > room {
			kept = kept[:room]
			f.Note = "too long: only the first " + plan.Count(limit, "character") + " were taken"
		}
	} else if k.Paste {
		kept = nil
	}
	k.Runes = kept
	return k
}

// View draws the fields in w cells.
func (f *Form) View(th *look.Theme, w int) []string {
	f.paint(th)
	f.group.WithWidth(max(w-2, f.label+4)) // huh counts the marks at both ends not in
	return strings.Split(f.group.Content(), "\n")
}
