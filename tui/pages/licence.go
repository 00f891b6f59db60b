package pages

import (
	"context"
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/look"
)

// Licence shows one text and takes its acceptance by a typed word, with the
// name of the person who accepts. Nothing is preselected.
type Licence struct {
	*Common
	q      choice.Question
	reader Reader
	word   Word
	who    string
	form   *Form // for who
	naming bool  // the word was typed; the name is asked
}

const acceptedBy = "Accepted by (name or mail): "

// NewLicence is the page for q.Licence.
func NewLicence(c *Common, q choice.Question) *Licence {
	l := &Licence{Common: c, q: q, word: Word{Want: "accept"}}
	l.reader.SaveAs = c.SaveDir + "/licence-" + look.Line(q.Licence.ID) + ".txt"
	l.who = c.Choices.Who
	if l.who == "" {
		l.who = "root@" + c.Choices.Survey.NodeName
	}
	l.form = NewForm(c.Theme, len(acceptedBy), textField(acceptedBy, &l.who, 120, false))
	return l
}

// Acts says that a typed word counts here.
func (l *Licence) Acts() {}

func (l *Licence) Appear() tea.Cmd {
	l.word.Value, l.naming = nil, false
	return nil
}

func (l *Licence) Typing() bool { return l.naming || l.word.Active() || l.reader.Asking() }

func (l *Licence) Title() string {
	return fmt.Sprintf("4/7 Licence (%d of %d)", l.q.Nth, l.q.Of)
}

func (l *Licence) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case Confirmed:
		if l.word.Holds(msg) {
			l.naming = true
		}
	case declined:
		text := "Declined: nothing of it is kept. Choose another image, or leave the device alone."
		if msg.err != nil {
			text = "Declined, but " + msg.err.Error()
		}
		return tea.Sequence(send(Pop{}), notice(text))
	case tea.KeyMsg:
		return l.key(msg)
	}
	return nil
}

// declined is the end of forgetting what was read under the licence.
type declined struct{ err error }

func (l *Licence) key(k tea.KeyMsg) tea.Cmd {
	switch {
	case l.naming:
		return l.name(k)
	case l.reader.Asking():
		_, cmd := l.reader.Key(l.Common, k, l.q.Licence.Text)
		return cmd
	case l.word.Active() || l.word.Starts(k) || k.Paste:
		if handled, cmd := l.word.Key(l.Common, l, k); handled {
			return cmd
		}
	case letter(k) == 'd':
		return work("forgetting the image", func(context.Context, image.Progress) tea.Msg {
			return declined{Decline(l.Wizard, l.Choices, l.q)}
		})
	}
	if handled, cmd := l.reader.Key(l.Common, k, l.q.Licence.Text); handled {
		return cmd
	}
	switch Means(k) {
	case Back:
		return send(Pop{})
	case Go:
		return notice("To accept, type the word accept; d declines.")
	}
	return nil
}

// name takes who accepts.
func (l *Licence) name(k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		l.naming = false
	case enter(k):
		by := strings.TrimSpace(l.who)
		if by == "" {
			return notice("A name or a mail address belongs to the acceptance.")
		}
		l.Choices.Accept(l.q.Licence, by, l.Now())
		return send(Replace{New(l.Common, l.Choices.Next(l.q))})
	default:
		l.form.Key(k)
		if l.form.Note != "" {
			return notice(l.form.Note)
		}
	}
	return nil
}

// Body draws the text and the field below it.
func (l *Licence) Body(w, h int) []string {
	l.reader.Lay(l.q.Licence.Text, w, true)
	var foot []string
	switch {
	case l.naming:
		foot = append(foot, l.form.View(l.Theme, w)...)
	default:
		foot = append(foot, look.Cut(l.word.Line(l.Theme, "To accept,", w), w))
	}
	if l.word.Note != "" {
		foot = append(foot, look.Cut(l.word.Note, w))
	}
	head := []string{look.Cut(look.Line(l.q.Licence.ID)+"   needed by "+look.Line(l.q.For), w), look.Cut(look.Line(l.q.Licence.Digest), w)}
	rule := repeat(l.Theme.Marks.Rule, w)
	if h < 12 {
		head, rule = head[:1], ""
	}
	body := append([]string(nil), head...)
	room := h - len(head) - len(foot) - 1
	if rule != "" {
		body = append(body, rule)
		room -= 2
	}
	room = max(room, 1)
	body = append(body, l.reader.View(l.Theme, w, room)...)
	if rule != "" {
		body = append(body, rule)
	}
	body = append(body, l.reader.Status(l.Theme, w))
	return append(body, foot...)
}

func (l *Licence) Keys() []look.Key {
	if l.naming {
		return []look.Key{{Keys: "Enter", Does: "accept"}, {Keys: "Esc", Does: "not yet"}, {Keys: "F1", Does: "help"}}
	}
	return []look.Key{{Keys: "PgUp/PgDn", Does: "read"}, {Keys: "/", Does: "search"}, {Keys: "s", Does: "save"}, {Keys: "d", Does: "decline"},
		{Keys: "b", Does: "back"}, {Keys: "?", Does: "help"}}
}

func (l *Licence) Help() []string {
	return []string{
		"The licence of the driver, as its image or the catalog has it. PgUp, PgDn, Home and End read it, / searches, s saves it to a file.",
		"It is accepted by typing the word accept and Enter, and then the name or mail address of the person who accepts. The answers file records the digest of this very text, by whom, and when. Another text is asked for again.",
		"d declines: nothing is taken, the image that was read goes from this node again, and you choose another one.",
	}
}
