package term

import (
	"os"
	"path/filepath"
	"strings"
)

// printkFile holds four levels; the first is the console's: only messages of a
// lower number are drawn on it (Documentation/admin-guide/sysctl/kernel.rst).
const printkFile = "/proc/sys/kernel/printk"

// quietLevel lets only emergencies through.
const quietLevel = "1"

// Quiet keeps kernel messages off the screen while it is drawn. The zero value
// does nothing, and so does one whose file cannot be written.
type Quiet struct {
	path   string
	before string // the whole former line
}

// Hush lowers the console level when tty is a console that printk writes to.
func Hush(tty string) *Quiet {
	active, err := os.ReadFile("/sys/class/tty/console/active")
	if err != nil || !isConsole(tty, string(active)) {
		return &Quiet{}
	}
	return hush(printkFile)
}

// isConsole says whether printk's output goes to tty; a virtual terminal
// ("tty1") is drawn on when tty0 is among the consoles.
func isConsole(tty, active string) bool {
	name := filepath.Base(tty)
	virtual := strings.HasPrefix(name, "tty") && len(name) > 3 && name[3] >= '0' && name[3] <= '9'
	for _, console := range strings.Fields(active) {
		if console == name || (console == "tty0" && virtual) {
			return true
		}
	}
	return false
}

// hush lowers the level in a file of printk's form.
func hush(path string) *Quiet {
	data, err := os.ReadFile(path)
	if err != nil {
		return &Quiet{}
	}
	before := strings.TrimSpace(string(data))
	levels := strings.Fields(before)
	if len(levels) == 0 || levels[0] == quietLevel {
		return &Quiet{}
	}
	levels[0] = quietLevel
	if err := os.WriteFile(path, []byte(strings.Join(levels, " ")), 0o644); err != nil {
		return &Quiet{}
	}
	return &Quiet{path: path, before: strings.Join(strings.Fields(before), " ")}
}

// Restore puts the former levels back. It may be called more than once.
func (q *Quiet) Restore() {
	if q == nil || q.path == "" {
		return
	}
	_ = os.WriteFile(q.path, []byte(q.before), 0o644)
}
