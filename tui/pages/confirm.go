package pages

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/look"
)

// Confirm shows what would be done and does it when the word is typed.
type Confirm struct {
	*Common
	title string
	about string
	word  Word
	// read fetches the exact text; do starts it.
	read  func(ctx context.Context) ([]string, error)
	do    func(ctx context.Context) error
	then  func() tea.Cmd
	lines []string
	err   error
	known bool
}

// Acts says that a typed word counts here.
func (c *Confirm) Acts() {}

// told is the exact text; acted the end of starting it.
type (
	told struct {
		lines []string
		err   error
	}
	acted struct{ err error }
)

func (c *Confirm) Typing() bool  { return c.word.Active() }
func (c *Confirm) Title() string { return c.title }

func (c *Confirm) Appear() tea.Cmd {
	c.word.Value = nil
	if c.known || c.read == nil {
		return nil
	}
	return work("reading what would be done", func(ctx context.Context, _ image.Progress) tea.Msg {
		lines, err := c.read(ctx)
		return told{lines, err}
	})
}

func (c *Confirm) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case told:
		c.lines, c.err, c.known = msg.lines, msg.err, true
	case Confirmed:
		if c.word.Holds(msg) {
			return work("starting", func(ctx context.Context, _ image.Progress) tea.Msg { return acted{c.do(ctx)} })
		}
	case acted:
		if msg.err != nil {
			return send(Push{NewTrouble(c.Common, c.title, msg.err, nil)})
		}
		return c.then()
	case tea.KeyMsg:
		if c.word.Active() || c.word.Starts(msg) || msg.Paste {
			if handled, cmd := c.word.Key(c.Common, c, msg); handled {
				return cmd
			}
		}
		switch Means(msg) {
		case Back:
			return send(Pop{})
		case Go:
			return notice("To go on, type the word " + c.word.Want + "; b goes back.")
		}
	}
	return nil
}

// Body draws the exact text and the field.
func (c *Confirm) Body(w, h int) []string {
	text := c.lines
	if c.err != nil {
		text = look.Wrap("What it would do cannot be told: "+c.err.Error(), w)
	}
	field := []string{look.Cut(c.word.Line(c.Theme, "To do it,", w), w)}
	if c.word.Note != "" {
		field = append(field, look.Cut(c.word.Note, w))
	}
	return look.Fit(h,
		look.Block{Lines: look.Wrap(c.about, w), Keep: look.Need},
		look.Block{Lines: clip(cutAll(indent(2, text), w), h-6, "fitout history shows all"), Keep: look.Info},
		look.Block{Lines: field, Keep: look.Need})
}

func (c *Confirm) Keys() []look.Key {
	return []look.Key{{Keys: "type " + c.word.Want, Does: "does it"}, {Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}, {Keys: "q", Does: "quit"}}
}

func (c *Confirm) Help() []string {
	return []string{"What would be done to the node is listed. Type the word and press Enter to do it; b goes back and does nothing."}
}
