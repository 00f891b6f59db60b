// Package look holds how screens look: the one theme, the frame, and how text
// is cut, cleaned and laid out. It decides no content. Everything is a pure
// function of a Theme and a size.
package look

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"

	"fitout/tui/term"
)

// Role is what a piece of text means; the theme alone knows how that looks.
// Every role is told apart by a word or a mark as well, so that nothing is lost
// without attributes.
type Role int

// The roles.
const (
	Plain   Role = iota
	Title        // the page's name
	Faint        // headings of columns, hints
	Cursor       // the line the cursor is on
	Good         // works
	Care         // works with a condition, or wants attention
	Bad          // refused, failed
	Word         // a word to type
	KeyName      // a key in the key line
)

// Theme draws roles and marks for one profile.
type Theme struct {
	Rich   bool
	styles map[Role]lipgloss.Style
	Marks  Marks
	// renderer knows the colours of the profile; styles are made by it alone,
	// since the library's own asks the terminal.
	renderer *lipgloss.Renderer
}

// Marks are the glyphs of a profile; all are one cell wide.
type Marks struct {
	Cursor, Chosen, Free, Fixed, Problem, Recommended, Rule string
	Full, Empty                                             string // of a bar
	Done, Now, Todo, Failed, Undone, Skipped                string // of a step
	Field                                                   string // the text cursor
}

var asciiMarks = Marks{
	Cursor: ">", Chosen: "[x]", Free: "[ ]", Fixed: " - ", Problem: " ! ", Recommended: "*", Rule: "-",
	Full: "#", Empty: ".",
	Done: "[ok]", Now: "[>>]", Todo: "[  ]", Failed: "[!!]", Undone: "[<-]", Skipped: "[==]",
	Field: "_",
}

var unicodeMarks = Marks{
	Cursor: "❯", Chosen: "[✓]", Free: "[ ]", Fixed: " · ", Problem: " ! ", Recommended: "★", Rule: "─",
	Full: "█", Empty: "░",
	Done: " ✓  ", Now: " ▸  ", Todo: " ·  ", Failed: " ✗  ", Undone: " ↶  ", Skipped: " =  ",
	Field: "▏",
}

// The colours, chosen to be told apart by colour-blind eyes on dark and on
// light: blue for what is right and in focus, amber for care, vermilion for
// what is refused. There is no green to confuse with red.
const (
	blue      = lipgloss.Color("39")
	amber     = lipgloss.Color("214")
	vermilion = lipgloss.Color("203")
	grey      = lipgloss.Color("245")
)

// New makes the theme for a profile. Basic uses attributes only: its renderer
// is told of a 16-colour terminal, because with none lipgloss drops reverse and
// bold as well, and uses no colour of it.
func New(p term.Profile) *Theme {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetHasDarkBackground(true)
	s := r.NewStyle
	if p.Mode != term.Rich {
		r.SetColorProfile(termenv.ANSI)
		return &Theme{Marks: asciiMarks, renderer: r, styles: map[Role]lipgloss.Style{
			Title: s().Bold(true), Cursor: s().Reverse(true), Word: s().Bold(true),
		}}
	}
	switch {
	case !p.Color:
		r.SetColorProfile(termenv.ANSI)
		return &Theme{Rich: true, Marks: unicodeMarks, renderer: r, styles: map[Role]lipgloss.Style{
			Title: s().Bold(true), Cursor: s().Bold(true).Reverse(true), Word: s().Bold(true), KeyName: s().Bold(true), Bad: s().Bold(true),
		}}
	case p.TrueColor:
		r.SetColorProfile(termenv.TrueColor)
	default:
		r.SetColorProfile(termenv.ANSI256)
	}
	return &Theme{Rich: true, Marks: unicodeMarks, renderer: r, styles: map[Role]lipgloss.Style{
		Title:   s().Bold(true).Foreground(blue),
		Faint:   s().Foreground(grey),
		Cursor:  s().Bold(true).Foreground(blue),
		Good:    s().Foreground(blue),
		Care:    s().Foreground(amber),
		Bad:     s().Bold(true).Foreground(vermilion),
		Word:    s().Bold(true).Foreground(amber),
		KeyName: s().Bold(true),
	}}
}

// Paint draws text in a role.
func (t *Theme) Paint(r Role, text string) string {
	st, ok := t.styles[r]
	if !ok || text == "" {
		return text
	}
	return st.Render(text)
}

// Text is foreign text on one line, in the characters of the profile; it has
// its final width, so columns stay in line.
func (t *Theme) Text(text string) string {
	if t.Rich {
		return Line(text)
	}
	return ASCII(Line(text))
}

// Focus draws the line the cursor is on; colours inside it give way.
func (t *Theme) Focus(line string) string { return t.Paint(Cursor, ansi.Strip(line)) }
