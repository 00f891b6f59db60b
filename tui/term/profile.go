// Package term answers what the terminal at hand can do, and gives it back as
// it was found: which of the three kinds of screen fits (rich, basic, line) and
// why, how large it is, reading keys whose bytes arrive in pieces, silencing
// the kernel's console, and restoring modes on every way out.
package term

import (
	"path/filepath"
	"strings"
)

// Mode is a way to draw.
type Mode string

// The modes. Basic is ASCII with attributes only; Line asks line by line and
// never moves the cursor.
const (
	Rich  Mode = "rich"
	Basic Mode = "basic"
	Line  Mode = "line"
)

// Profile is the chosen mode with the reason in words.
type Profile struct {
	Mode Mode
	// Reason completes "basic screen because: …".
	Reason string
	// Color is false when no colour may be used (NO_COLOR, --no-color, basic).
	Color bool
	// Serial says that the terminal is a serial port or a hypervisor console.
	Serial bool
	// TrueColor is only believed of terminals that say they are like xterm.
	TrueColor bool
}

// Facts are what a profile is decided from.
type Facts struct {
	// TTY is the device's path ("/dev/ttyS0", "/dev/pts/3", "" unknown).
	TTY string
	Env func(name string) string
	// Width and Height in cells, after fallbacks (see Size).
	Width, Height int
	// Speed in baud, 0 unknown or not a serial line.
	Speed int
	// The flags of the command line.
	WantBasic, WantLine, NoColor bool
	// Chosen is the mode that Ctrl-T chose here before (see Recall), "" none.
	Chosen Mode
}

// serialPrefixes are device names of lines on which a plain terminal sits.
var serialPrefixes = []string{"ttyS", "ttyAMA", "ttyUSB", "ttyACM", "ttysclp", "hvc", "hvsi", "xvc"}

// plainTerms are TERM values (by prefix) that promise no colour or no Unicode.
var plainTerms = []string{"vt", "linux", "ansi", "cons", "sun"}

// richTerms are TERM values (by prefix) known to do colour and Unicode.
var richTerms = []string{
	"xterm", "screen", "tmux", "rxvt", "alacritty", "foot", "kitty", "wezterm",
	"konsole", "gnome", "vte", "st-", "st", "contour", "ghostty", "iterm", "putty",
}

// Smallest screens: below MinWidth x MinHeight only line mode works.
const (
	MinWidth  = 40
	MinHeight = 10
)

// slowest is the speed in baud up to which a screen takes too long to draw
// (1.8 KB a screen: two seconds at 9600).
const slowest = 9600

// Detect chooses the mode. Rich only if everything says so.
func Detect(f Facts) Profile {
	p := Profile{Serial: IsSerial(f.TTY)}
	term := f.Env("TERM")
	switch {
	case f.WantLine:
		p.Mode, p.Reason = Line, "--line was given"
	case term == "dumb":
		p.Mode, p.Reason = Line, "TERM=dumb"
	case f.Width < MinWidth || f.Height < MinHeight:
		p.Mode, p.Reason = Line, "the terminal is smaller than 40x10"
	case p.Serial && f.Speed > 0 && f.Speed <= slowest:
		p.Mode, p.Reason = Line, "the serial line runs at 9600 baud or less"
	default:
		if why := basicBecause(f, term, p.Serial); why != "" {
			p.Mode, p.Reason = Basic, why
		} else {
			p.Mode, p.Reason = Rich, "TERM="+term+" and a UTF-8 locale"
			p.Color = !f.NoColor
		}
	}
	if p.Mode != Line && !f.WantBasic && f.Chosen != p.Mode && (f.Chosen == Rich || f.Chosen == Basic) {
		p.Mode, p.Reason = f.Chosen, "Ctrl-T chose it here before"
	}
	ct := f.Env("COLORTERM")
	p.TrueColor = (ct == "truecolor" || ct == "24bit") && strings.HasPrefix(term, "xterm")
	return p
}

// basicBecause is the first reason against a rich screen, "" for none.
func basicBecause(f Facts, term string, serial bool) string {
	switch {
	case f.WantBasic:
		return "--basic was given"
	case serial:
		return filepath.Base(f.TTY) + " is a serial console"
	case term == "":
		return "TERM is not set"
	case hasPrefix(term, plainTerms):
		return "TERM=" + term
	case f.Env("NO_COLOR") != "":
		return "NO_COLOR is set"
	case !hasPrefix(term, richTerms):
		return "TERM=" + term + " is not known"
	case !utf8Locale(f.Env):
		return "the locale is not UTF-8"
	}
	return ""
}

// IsSerial says whether a device path names a serial or hypervisor console.
func IsSerial(tty string) bool { return hasPrefix(filepath.Base(tty), serialPrefixes) }

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// utf8Locale follows the C library: LC_ALL, then LC_CTYPE, then LANG.
func utf8Locale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
