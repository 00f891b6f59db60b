package look

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Width is how many cells text takes.
func Width(text string) int { return ansi.StringWidth(text) }

// Cut shortens text to w cells; what is cut ends in "~". Nothing is wrapped.
func Cut(text string, w int) string {
	if w <= 0 {
		return ""
	}
	return ansi.Truncate(text, w, "~")
}

// Pad cuts or fills text to exactly w cells.
func Pad(text string, w int) string {
	text = Cut(text, w)
	if n := w - Width(text); n > 0 {
		return text + strings.Repeat(" ", n)
	}
	return text
}

// Right puts text at the right end of w cells.
func Right(text string, w int) string {
	text = Cut(text, w)
	if n := w - Width(text); n > 0 {
		return strings.Repeat(" ", n) + text
	}
	return text
}

// Wrap breaks text into lines of at most w cells, at blanks where it can; a
// word longer than a line is broken. Line ends in the text are kept.
func Wrap(text string, w int) []string {
	if w < 1 {
		w = 1
	}
	var lines []string
	for _, line := range strings.Split(Clean(text), "\n") {
		for _, part := range strings.Split(ansi.Wrap(line, w, ""), "\n") {
			lines = append(lines, strings.TrimRight(part, " "))
		}
	}
	return lines
}

// Clean makes text from outside harmless and visible: tabs become blanks, CRLF
// a line end, other control characters ^X or <hex>. Logs of drivers and texts
// of vendors are hostile until shown otherwise.
func Clean(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	plain := true
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar) {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteRune(r)
		case r == '\t':
			b.WriteString("    ")
		case r < 0x20:
			b.WriteString("^" + string(r+'@'))
		case r == 0x7f:
			b.WriteString("^?")
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, "<%02x>", r)
		case r == unicode.ReplacementChar:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Clean for what must stay on one line.
func Line(text string) string {
	return strings.Join(strings.Split(Clean(text), "\n"), " ")
}

// folds are ASCII forms of what occurs in device names and licence texts.
var folds = map[rune]string{
	'®': "(R)", '©': "(C)", '™': "(TM)", '“': `"`, '”': `"`, '„': `"`, '‘': "'", '’': "'",
	'–': "-", '—': "--", '…': "...", '•': "*", '·': "-", '×': "x", '→': "->", '←': "<-",
	'≤': "<=", '≥': ">=", 'µ': "u", 'μ': "u", '°': " deg", '\u00a0': " ", '½': "1/2", '§': "S.",
	'ä': "ae", 'ö': "oe", 'ü': "ue", 'Ä': "Ae", 'Ö': "Oe", 'Ü': "Ue", 'ß': "ss", 'é': "e", 'è': "e",
	'ê': "e", 'á': "a", 'à': "a", 'â': "a", 'ç': "c", 'í': "i", 'ó': "o", 'ô': "o", 'ú': "u", 'ñ': "n", 'ï': "i", 'î': "i", 'ë': "e", 'å': "a", 'ø': "o",
}

// ASCII folds text to bytes below 127; ESC stays, it is ours by then.
func ASCII(text string) string {
	ok := true
	for i := 0; i < len(text); i++ {
		if text[i] > 126 {
			ok = false
			break
		}
	}
	if ok {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch f, known := folds[r]; {
		case r < 127:
			b.WriteRune(r)
		case known:
			b.WriteString(f)
		case unicode.Is(unicode.Mn, r):
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// Clock is a span as minutes and seconds ("02:14"), with hours when needed.
func Clock(d time.Duration) string {
	s := int(d.Seconds())
	if s < 0 {
		s = 0
	}
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
