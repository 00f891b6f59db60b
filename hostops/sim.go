package hostops

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
)

// At is a recorded or built node below root: files are read and written there,
// kernel calls and commands are simulated.
func At(root string, log *slog.Logger) *Node {
	abs, err := filepath.Abs(root)
	if err != nil {
		abs = root
	}
	n := &Node{Root: abs, Now: time.Now, Log: orDiscard(log)}
	n.Kernel = &simKernel{n}
	n.Exec = simExec{n}
	return n
}

// simKernel plays the kernel's part on the files of a recorded node: what a
// load or unload changes in /proc/modules and /sys.
type simKernel struct{ n *Node }

// Release is /proc/sys/kernel/osrelease of the recorded node or, failing that,
// the only directory below lib/modules.
func (k *simKernel) Release() string {
	if r, err := k.n.ReadString("/proc/sys/kernel/osrelease"); err == nil && r != "" {
		return r
	}
	if dirs, err := k.n.ReadDir("/lib/modules"); err == nil && len(dirs) == 1 {
		return dirs[0].Name()
	}
	return "unknown"
}

// Machine is /proc/sys/kernel/arch of the recorded node, else x86_64.
func (k *simKernel) Machine() string {
	if m, err := k.n.ReadString("/proc/sys/kernel/arch"); err == nil && m != "" {
		return m
	}
	return "x86_64"
}

func (k *simKernel) LoadModule(file *os.File, params string) error {
	info, err := module.Read(file, filepath.Base(file.Name()), module.Limits{})
	if err != nil {
		return unix.ENOEXEC
	}
	dir := "/sys/module/" + info.Name
	if k.n.Exists(dir + "/initstate") {
		return unix.EEXIST
	}
	files := map[string]string{
		"initstate": "live", "refcnt": "0",
		"srcversion": info.Srcversion, "version": info.Version,
	}
	for name, content := range files {
		if content == "" {
			continue
		}
		if err := k.n.WriteFile(dir+"/"+name, []byte(content+"\n"), 0o644); err != nil {
			return unix.ENOMEM
		}
	}
	if note := buildNote(info.BuildID); note != nil {
		_ = k.n.WriteFile(dir+"/notes/.note.gnu.build-id", note, 0o444)
	}
	for _, p := range strings.Fields(params) {
		if name, value, ok := strings.Cut(p, "="); ok {
			_ = k.n.WriteFile(dir+"/parameters/"+name, []byte(strings.Trim(value, `"`)+"\n"), 0o644)
		}
	}
	old, _ := k.n.ReadFile("/proc/modules")
	line := fmt.Sprintf("%s %d 0 - Live 0x0000000000000000 (OE)\n", info.Name, info.Size)
	if err := k.n.WriteFile("/proc/modules", append([]byte(line), old...), 0o444); err != nil {
		return unix.ENOMEM
	}
	k.bindAll(info)
	return nil
}

// buildNote is a build id as the kernel shows it: an ELF note of the name "GNU"
// and type 3, little endian; nil for none.
func buildNote(id string) []byte {
	desc, err := hex.DecodeString(id)
	if err != nil || len(desc) == 0 {
		return nil
	}
	note := binary.LittleEndian.AppendUint32(nil, 4)
	note = binary.LittleEndian.AppendUint32(note, uint32(len(desc)))
	note = binary.LittleEndian.AppendUint32(note, 3)
	return append(append(note, "GNU\x00"...), desc...)
}

// bindAll binds every unbound function that the module's aliases have, as the
// driver core does when a driver registers.
func (k *simKernel) bindAll(info *module.Info) {
	for _, dev := range k.n.Glob("/sys/bus/pci/devices/*") {
		alias, err := k.n.ReadString(dev + "/modalias")
		if err != nil || !matches(info.Aliases, alias) {
			continue
		}
		if o, err := k.n.ReadString(dev + "/driver_override"); err == nil && o != "" && o != "(null)" && o != info.Name {
			continue
		}
		if _, err := k.n.Readlink(dev + "/driver"); err == nil {
			continue
		}
		drv := "/sys/bus/pci/drivers/" + info.Name
		_ = k.n.MkdirAll(drv, 0o755)
		_ = k.n.Symlink("../../../../module/"+info.Name, drv+"/module")
		_ = k.n.Symlink(relDriver(k.n, dev, drv), dev+"/driver")
	}
}

// relDriver is the relative link from a device's real directory to a driver.
func relDriver(n *Node, dev, drv string) string {
	rel, err := filepath.Rel(n.Path(dev), n.Path(drv))
	if err != nil {
		return drv
	}
	return rel
}

func matches(patterns []string, alias string) bool {
	for _, p := range patterns {
		if module.MatchAlias(p, alias) {
			return true
		}
	}
	return false
}

func (k *simKernel) UnloadModule(name string) error {
	dir := "/sys/module/" + name
	if !k.n.Exists(dir + "/initstate") {
		return unix.ENOENT
	}
	if c, err := k.n.ReadString(dir + "/refcnt"); err == nil {
		if refs, _ := strconv.Atoi(c); refs > 0 {
			return unix.EAGAIN
		}
	}
	for _, dev := range k.n.Glob("/sys/bus/pci/devices/*") {
		if drv, err := k.n.Readlink(dev + "/driver"); err == nil && path.Base(drv) == name {
			_ = k.n.Remove(dev + "/driver")
		}
	}
	_ = k.n.RemoveAll("/sys/bus/pci/drivers/" + name)
	if err := k.n.RemoveAll(dir); err != nil {
		return unix.EBUSY
	}
	old, _ := k.n.ReadFile("/proc/modules")
	var kept strings.Builder
	for line := range strings.Lines(string(old)) {
		if !strings.HasPrefix(line, name+" ") {
			kept.WriteString(line)
		}
	}
	if err := k.n.WriteFile("/proc/modules", []byte(kept.String()), 0o444); err != nil {
		return unix.EBUSY
	}
	return nil
}

// simulateWrite plays the driver core's answer to a write below
// /sys/bus/pci: unbind, bind, drivers_probe.
func (n *Node) simulateWrite(p, data string) error {
	addr := strings.TrimSpace(data)
	dev := "/sys/bus/pci/devices/" + addr
	switch path.Base(p) {
	case "unbind":
		return n.Remove(dev + "/driver")
	case "bind":
		drv := path.Dir(path.Clean(p))
		if path.Base(path.Dir(drv)) != "drivers" {
			return nil
		}
		return n.Symlink(relDriver(n, dev, drv), dev+"/driver")
	case "drivers_probe":
		want, err := n.ReadString(dev + "/driver_override")
		if err != nil || want == "" || want == "(null)" {
			return nil
		}
		if drv := "/sys/bus/pci/drivers/" + want; n.Exists(drv) {
			return n.Symlink(relDriver(n, dev, drv), dev+"/driver")
		}
	}
	return nil
}

// simExec runs nothing: a recorded node's commands are not this machine's.
type simExec struct{ n *Node }

func (e simExec) Run(_ context.Context, argv ...string) ([]byte, error) {
	e.n.Log.Info("simulated, not run", "argv", argv)
	return nil, nil
}

// Look says no, so that callers take the way that needs no command.
func (simExec) Look(string) bool { return false }
