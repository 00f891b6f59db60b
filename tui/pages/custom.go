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
	q      choice.Question
	fields [3]Text // reference, user, password
	at     int     // field, 3 is the keep line, 4 the button
	keep   bool
}

// NewCustom is the form for a kind's image.
func NewCustom(c *Common, q choice.Question) *Custom {
	f := &Custom{Common: c, q: q}
	f.fields[0].Limit, f.fields[1].Limit, f.fields[2].Limit, f.fields[2].Secret = 512, 128, 4096, true
	return f
}

const (
	keepLine = 3
	goLine   = 4
)

func (f *Custom) Appear() tea.Cmd { return nil }
func (f *Custom) Typing() bool    { return f.at < keepLine }
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
		f.at = max(f.at-1, 0)
	case k.Type == tea.KeyDown || k.Type == tea.KeyTab || k.Type == tea.KeyCtrlN:
		f.at = min(f.at+1, goLine)
	case enter(k):
		if f.at < goLine && !(f.at == 0 && f.fields[1].String() == "") {
			f.at++
			return nil
		}
		return f.submit()
	case f.at < keepLine:
		f.fields[f.at].Key(k)
		if f.fields[f.at].Note != "" {
			return notice(f.fields[f.at].Note)
		}
	case f.at == keepLine && (Means(k) == Select || letter(k) == 'y' || letter(k) == 'n'):
		f.keep = letter(k) == 'y' || (letter(k) != 'n' && !f.keep)
	case Means(k) == Back:
		return send(Pop{})
	}
	return nil
}

// submit stores credentials first, where some were given.
func (f *Custom) submit() tea.Cmd {
	reference := f.fields[0].String()
	if reference == "" {
		f.at = 0
		return notice("Give an image reference, or the path of an archive or layout.")
	}
	user, password := f.fields[1].String(), []byte(string(f.fields[2].Value))
	if user == "" {
		return f.add()
	}
	r, ok := f.Wizard.(Registrar)
	if !ok {
		return notice("Passwords are read from the node's own docker or podman credentials here.")
	}
	keep := f.keep
	return work("keeping the credentials", func(ctx context.Context, _ image.Progress) tea.Msg {
		file, err := r.Login(ctx, reference, user, password, keep)
		return loggedIn{file, err}
	})
}

// add puts the image on offer and goes back to the list, which reads it.
func (f *Custom) add() tea.Cmd {
	reference := f.fields[0].String()
	f.fields[2].Value = nil
	kind := &f.Choices.Kinds[f.q.Kind]
	for i, o := range kind.Offers {
		if o.Given == reference {
			kind.Offers[i].Examined, kind.Offers[i].Err = nil, nil
			return send(Pop{})
		}
	}
	o := f.Wizard.OfferImage(f.Choices.Survey, f.Choices.Survey.Kinds[f.q.Kind], reference)
	kind.Offers = append(kind.Offers, choice.Offer{Offer: o, Given: reference})
	if kind.Pick == choice.Leave {
		kind.Pick = choice.NotChosen
	}
	return send(Pop{})
}

// Body draws the form.
func (f *Custom) Body(w, h int) []string {
	labels := [3]string{"Image", "User", "Password"}
	var lines []string
	for i := range f.fields {
		value := "[" + look.Pad(f.plain(i), max(min(w-16, 60)-2, 4)) + "]"
		if f.at == i {
			value = f.fields[i].View(f.Theme, max(min(w-16, 60), 6))
		}
		lines = append(lines, f.mark(i)+look.Pad(labels[i], 10)+value)
	}
	box := f.Theme.Marks.Free
	if f.keep {
		box = f.Theme.Marks.Chosen
	}
	lines = append(lines, f.mark(keepLine)+look.Pad("Keep", 10)+box+" keep user and password on this node for the next runs")
	lines = append(lines, "", f.mark(goLine)+"Go on: read the image")
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

func (f *Custom) plain(i int) string {
	if f.fields[i].Secret {
		return strings.Repeat("*", len(f.fields[i].Value))
	}
	return look.Line(string(f.fields[i].Value))
}

func (f *Custom) mark(i int) string {
	if f.at == i {
		return f.Theme.Paint(look.Cursor, f.Theme.Marks.Cursor) + " "
	}
	return "  "
}

func (f *Custom) Keys() []look.Key {
	return []look.Key{{Keys: "Tab", Does: "next field"}, {Keys: "Enter", Does: "go on"}, {Keys: "Space", Does: "keep or not"}, {Keys: "Esc", Does: "back"}, {Keys: "F1", Does: "help"}}
}

func (f *Custom) Help() []string {
	return []string{
		"Give the image by its reference, or by a file or directory on this node, a USB stick for example. It is read and judged like those of the catalog.",
		"The password is not shown. It is kept in a volatile file for this run only, unless the line Keep is marked.",
	}
}
