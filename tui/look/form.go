package look

import (
	"strings"

	"github.com/charmbracelet/huh"
	"github.com/charmbracelet/lipgloss"

	_ "fitout/tui/term/guard" // before Bubble Tea, which huh imports, asks the terminal
)

// FormText and FormChoice are the themes of huh's text fields and yes-or-no
// fields in this profile, with labels of that many cells. The field in focus has
// the mark of the cursor before it, and the place where text goes is a mark as
// well, so that both are seen without attributes. Nothing of it blinks.
func (t *Theme) FormText(label int) *huh.Theme {
	th := t.form(label, t.renderer.NewStyle().PaddingLeft(1).Border(lipgloss.Border{Left: " ", Right: "]"}, false, true, false, true))
	return th
}

// FormChoice is said above.
func (t *Theme) FormChoice(label int) *huh.Theme {
	return t.form(label, t.renderer.NewStyle().PaddingLeft(1).Border(lipgloss.Border{Left: " "}, false, false, false, true))
}

// form gives the roles of the one theme to the parts of a form that are used.
func (t *Theme) form(label int, base lipgloss.Style) *huh.Theme {
	s := t.renderer.NewStyle
	th := &huh.Theme{FieldSeparator: s().SetString("\n")}
	th.Blurred.Base = base
	th.Blurred.Title = s().Width(label)
	th.Blurred.FocusedButton = s().SetString(t.Marks.Chosen).PaddingRight(2)
	th.Blurred.BlurredButton = s().SetString(t.Marks.Free).PaddingRight(2)
	th.Focused = th.Blurred
	border, top, right, bottom, left := base.GetBorder()
	border.Left = t.Marks.Cursor
	th.Focused.Base = base.Border(border, top, right, bottom, left).BorderLeftForeground(t.styles[Cursor].GetForeground())
	th.Focused.TextInput.Cursor = s().Transform(func(under string) string {
		if strings.TrimSpace(under) == "" {
			return t.Marks.Field
		}
		return under
	})
	return th
}
