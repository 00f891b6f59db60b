package pages

import (
	"context"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/catalog/image"
	"fitout/tui/choice"
	"fitout/tui/look"
)

// Custom takes an image the catalog does not have, and credentials where the
// registry wants them. The password is not shown and not kept unless asked.
type Custom struct {
	*Common
	q        choice.Question
	draft    *Draft
	password string
	form     *Form
}

// Draft is what was typed into the form, kept when the page is left. Passwords
// are not.
type Draft struct {
	Reference, User string
	Keep            bool
}

// The fields of the form, in order.
const (
	referenceField = iota
	userField
	passwordField
	keepField
)

// labelWidth is the width of the form's labels.
const labelWidth = 10

// NewCustom is the form for a kind's image.
func NewCustom(c *Common, q choice.Question) *Custom {
	if c.drafts == nil {
		c.drafts = map[string]*Draft{}
	}
	kind := c.Choices.Survey.Kinds[q.Kind]
	name := kind.ID + " " + kind.Subsystem
	if c.drafts[name] == nil {
		c.drafts[name] = &Draft{}
	}
	f := &Custom{Common: c, q: q, draft: c.drafts[name]}
	f.form = NewForm(c.Theme, labelWidth,
		textField("Image", &f.draft.Reference, 512, false),
		textField("User", &f.draft.User, 128, false),
		textField("Password", &f.password, 4096, true),
		choiceField("Kept", "for the next runs", "for this run only", &f.draft.Keep))
	return f
}

func (f *Custom) Appear() tea.Cmd { return nil }
func (f *Custom) Typing() bool    { return f.form.Typing() }
func (f *Custom) Title() string   { return "3/7 Image > other image" }

// loggedIn is the end of storing credentials.
type loggedIn struct {
	file string
	err  error
}

func (f *Custom) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case loggedIn:
		if msg.err != nil {
			return notice("Not taken: " + msg.err.Error())
		}
		f.Choices.RegistryAuth = msg.file
		f.Choices.ReadAgain()
		return f.add()
	case tea.KeyMsg:
		return f.key(msg)
	}
	return nil
}

func (f *Custom) key(k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		return send(Pop{})
	case k.Type == tea.KeyUp || k.Type == tea.KeyShiftTab || k.Type == tea.KeyCtrlP:
		f.form.Go(f.form.At() - 1)
	case k.Type == tea.KeyDown || k.Type == tea.KeyTab || k.Type == tea.KeyCtrlN:
		f.form.Go(f.form.At() + 1)
	case enter(k):
		if at := f.form.At(); at < keepField && !(at == referenceField && strings.TrimSpace(f.draft.User) == "") {
			f.form.Go(at + 1)
			return nil
		}
		return f.submit()
	case !f.form.Typing() && letter(k) == 'b':
		return send(Pop{})
	default:
		f.form.Key(k)
		if f.form.Note != "" {
			return notice(f.form.Note)
		}
	}
	return nil
}

// submit stores credentials first, where some were given.
func (f *Custom) submit() tea.Cmd {
	reference, user, password := strings.TrimSpace(f.draft.Reference), strings.TrimSpace(f.draft.User), []byte(f.password)
	if reference == "" {
		f.form.Go(referenceField)
		return notice("Give an image reference, or the path of an archive or layout.")
	}
	if user == "" {
		return f.add()
	}
	r, ok := f.Wizard.(Registrar)
	if !ok {
		return notice("Passwords are read from the node's own docker or podman credentials here.")
	}
	keep := f.draft.Keep
	return work("keeping the credentials", func(ctx context.Context, _ image.Progress) tea.Msg {
		file, err := r.Login(ctx, reference, user, password, keep)
		return loggedIn{file, err}
	})
}

// add puts the image on offer and goes back to the list, which reads it.
func (f *Custom) add() tea.Cmd {
	reference := strings.TrimSpace(f.draft.Reference)
	f.password = ""
	f.Choices.Give(f.Wizard, f.q.Kind, reference)
	return send(Pop{})
}

// Body draws the form.
func (f *Custom) Body(w, h int) []string {
	lines := f.form.View(f.Theme, min(w, 72))
	return look.Fit(h,
		look.Block{Lines: []string{"An image for this device that the catalog does not have."}, Keep: look.Info},
		look.Block{Lines: lines, Keep: look.Need},
		look.Block{Lines: []string{
			"registry.example:5000/drivers/x:1.2    a registry",
			"oci-archive:/media/usb/x.tar           an OCI archive",
			"docker-archive:/media/usb/x.tar        what docker save wrote",
			"oci:/media/usb/layout                  an OCI layout directory",
			"/media/usb/x.tar                       recognised by its content",
		}, Keep: look.Hint},
		look.Block{Lines: []string{"User and password are needed only where the registry asks for them."}, Keep: look.Hint})
}

func (f *Custom) Keys() []look.Key {
	return []look.Key{{Keys: "Tab", Does: "next field"}, {Keys: "Enter", Does: "go on"}, {Keys: "Space", Does: "other choice"}, {Keys: "Esc", Does: "back"}, {Keys: "F1", Does: "help"}}
}

func (f *Custom) Help() []string {
	return []string{
		"Give the image by its reference, or by a file or directory on this node, a USB stick for example. It is read and judged like those of the catalog.",
		"The password is not shown. It is kept in a file that is gone after the next reboot, unless Kept says for the next runs; root alone can read either.",
	}
}
