// Command fingerprint prints, line by line, all that a run of fitout may change
// on a node: the loaded modules and which build of them, the drivers that devices
// are bound to, the firmware path, and every file of /etc, /boot, the state
// directory and the volatile one, but for what a run that was undone leaves there. Who wrote a record,
// and when, is left out.
package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// left are the parts of the state directory that an undone run leaves there on
// purpose: the record of runs, what was accepted, and what was read of the kernel.
var left = []string{"/var/lib/fitout/runs", "/var/lib/fitout/licences.json", "/var/lib/fitout/cache"}

// whoAndWhen is what two records that say the same may differ in.
var whoAndWhen = regexp.MustCompile(`"(run|at)": ?"[^"]*"`)

func main() {
	for _, part := range []func() []string{modules, bindings, files} {
		for _, line := range part() {
			fmt.Println(line)
		}
	}
}

func modules() []string {
	var out []string
	table, _ := os.ReadFile("/proc/modules")
	for line := range strings.Lines(string(table)) {
		name, _, _ := strings.Cut(line, " ")
		note, _ := os.ReadFile("/sys/module/" + name + "/notes/.note.gnu.build-id")
		out = append(out, fmt.Sprintf("module %s build %x", name, note))
	}
	slices.Sort(out)
	path, _ := os.ReadFile("/sys/module/firmware_class/parameters/path")
	return append(out, "firmware path "+strings.TrimSpace(string(path)))
}

func bindings() []string {
	var out []string
	devices, _ := filepath.Glob("/sys/bus/pci/devices/*")
	for _, d := range devices {
		driver, _ := os.Readlink(d + "/driver")
		override, _ := os.ReadFile(d + "/driver_override")
		out = append(out, fmt.Sprintf("device %s driver %s override %s", filepath.Base(d), filepath.Base(driver), strings.TrimSpace(string(override))))
	}
	return out
}

func files() []string {
	var out []string
	for _, top := range []string{"/etc", "/boot", "/run/fitout", "/var/lib/fitout"} {
		_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil, slices.Contains(left, p) && d.IsDir():
				return fs.SkipDir
			case slices.Contains(left, p):
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			out = append(out, fmt.Sprintf("%s %s %s", p, info.Mode(), content(p, info)))
			return nil
		})
	}
	return out
}

func content(p string, info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(p)
		return to
	case !info.Mode().IsRegular():
		return ""
	case strings.HasPrefix(p, "/boot/"): // on the read-only root
		return fmt.Sprint(info.Size())
	}
	data, err := os.ReadFile(p)
	if err != nil {
		return err.Error()
	}
	if strings.HasSuffix(p, ".json") || strings.HasSuffix(p, ".json.prev") {
		data = whoAndWhen.ReplaceAll(data, nil)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
