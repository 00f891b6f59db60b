package kmod

import (
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// Loaded lists the modules in /proc/modules, newest first, with what sysfs adds.
func Loaded(n *hostops.Node) ([]LoadedModule, error) {
	text, err := n.ReadFile("/proc/modules")
	if err != nil {
		return nil, fmt.Errorf("listing the loaded modules: %w", err)
	}
	var mods []LoadedModule
	for line := range strings.Lines(string(text)) {
		if m, ok := parseLoaded(line); ok {
			m.addSysfs(n)
			mods = append(mods, m)
		}
	}
	return mods, nil
}

// parseLoaded reads a line of /proc/modules: name, size in bytes, references
// ("-" when the kernel cannot unload), users as "a,b," or "-", state, address,
// taint in brackets (kernel/module/procfs.c, m_show).
func parseLoaded(line string) (LoadedModule, bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return LoadedModule{}, false
	}
	m := LoadedModule{Name: f[0], State: f[4]}
	m.Size, _ = strconv.ParseInt(f[1], 10, 64)
	m.RefCount, _ = strconv.Atoi(f[2])
	for user := range strings.SplitSeq(f[3], ",") {
		// "[permanent]" marks a module without an exit function.
		if user != "" && user != "-" && user[0] != '[' {
			m.Holders = append(m.Holders, user)
		}
	}
	if len(f) > 6 {
		m.Taint = strings.Trim(f[6], "()")
	}
	return m, true
}

func (m *LoadedModule) addSysfs(n *hostops.Node) {
	dir := "/sys/module/" + m.Name
	m.Srcversion, _ = n.ReadString(dir + "/srcversion")
	m.Version, _ = n.ReadString(dir + "/version")
	m.BuildID = BuildID(n, m.Name)
}

// BuildID is the GNU build id that a loaded module shows, "" for none: the
// description of an ELF note, after a header of 16 bytes (sizes, type, "GNU\0").
func BuildID(n *hostops.Node, name string) string {
	note, err := n.ReadFile("/sys/module/" + name + "/notes/.note.gnu.build-id")
	if err != nil || len(note) <= 16 || string(note[12:15]) != "GNU" {
		return ""
	}
	return hex.EncodeToString(note[16:])
}

// loaded finds one module by name, nil when it is not in /proc/modules.
func loaded(n *hostops.Node, name string) (*LoadedModule, error) {
	mods, err := Loaded(n)
	if err != nil {
		return nil, err
	}
	name = module.Normalize(name)
	for i := range mods {
		if mods[i].Name == name {
			return &mods[i], nil
		}
	}
	return nil, nil
}

// Usage explains a module's reference count.
type Usage struct {
	Module   string
	RefCount int
	// Holders are the modules that use it, with their own counts.
	Holders []Holder
	// Unexplained is the count less one a holder. It is not proof of a
	// process: other modules may hold references without being listed
	// (symbol_get, try_module_get).
	Unexplained int
}

// Holder is a module that uses another one.
type Holder struct {
	Module   string
	RefCount int
}

func (u Usage) String() string {
	if u.RefCount == 0 {
		return u.Module + " is not in use"
	}
	var parts []string
	for _, h := range u.Holders {
		parts = append(parts, fmt.Sprintf("module %s (itself in use %d times)", h.Module, h.RefCount))
	}
	if u.Unexplained > 0 {
		parts = append(parts, fmt.Sprintf("%d not explained by modules (open devices, mounts, interfaces that are up)", u.Unexplained))
	}
	return fmt.Sprintf("%s is in use %d times: %s", u.Module, u.RefCount, strings.Join(parts, ", "))
}

// Users explains the reference count of a loaded module; the zero Usage when
// it is not loaded.
func Users(n *hostops.Node, name string) (Usage, error) {
	mods, err := Loaded(n)
	if err != nil {
		return Usage{}, err
	}
	counts := map[string]int{}
	for _, m := range mods {
		counts[m.Name] = m.RefCount
	}
	u := Usage{Module: module.Normalize(name), RefCount: counts[module.Normalize(name)]}
	holders := map[string]bool{}
	for _, m := range mods {
		if m.Name != u.Module {
			continue
		}
		for _, h := range m.Holders {
			holders[h] = true
			u.Holders = append(u.Holders, Holder{h, counts[h]})
		}
	}
	entries, _ := n.ReadDir("/sys/module/" + u.Module + "/holders")
	for _, e := range entries {
		if h := path.Base(e.Name()); !holders[h] {
			u.Holders = append(u.Holders, Holder{h, counts[h]})
		}
	}
	u.Unexplained = max(0, u.RefCount-len(u.Holders))
	return u, nil
}
