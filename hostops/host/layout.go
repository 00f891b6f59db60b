package host

import (
	"fmt"
	"path"
	"regexp"
)

// Layout is where fitout's things lie on one family. Paths are node paths.
type Layout struct {
	// State is kept over reboots and upgrades; everything of fitout's own is
	// below it.
	State string
	// ModprobeD is a kept modprobe.d directory, "" where there is none and the
	// boot stage copies <state>/modprobe.d to /run/modprobe.d before coldplug.
	ModprobeD string
	// Apart says that State is not on the root's own file system.
	Apart bool
	// UnitDir is where units are kept, "" without systemd.
	UnitDir string
	// OEM is Elemental's hook directory, "" elsewhere.
	OEM string
	// ChrootState are the paths under which an upgrade's chroot may see State,
	// tried in order (facts of both toolkits: the pod has its own mounts).
	ChrootState []string
	// Gate is the native point where an upgrade is stopped ("kernel-hooks",
	// "ostree-finalize", "elemental", "elemental-hold", "" for none).
	Gate string
	// HoldInhibitor says that an agent reboots by itself here, so that a
	// shutdown inhibitor must be held while an uncovered kernel is staged.
	HoldInhibitor bool
}

// Paths below the state directory.
func (l Layout) tree() string                 { return treeDir(l.State) }
func (l Layout) releaseDir(rel string) string { return path.Join(treeDir(l.State), "lib/modules", rel) }
func (l Layout) bin() string                  { return path.Join(l.State, "bin", "fitout") }

func treeDir(state string) string     { return path.Join(state, "tree") }
func firmwareDir(state string) string { return path.Join(state, "firmware") }
func savedDir(state string) string    { return path.Join(state, "saved") }
func removedDir(state string) string  { return path.Join(state, "removed") }

// confPath is the driver's modprobe.d file: in the kept directory, or in the
// state directory from where the boot stage copies it.
func (l Layout) confPath(driver string) string {
	dir := l.ModprobeD
	if dir == "" {
		dir = path.Join(l.State, "modprobe.d")
	}
	return path.Join(dir, "fitout-"+driver+".conf")
}

// bootModprobe is where the boot stage copies them to.
const bootModprobe = "/run/modprobe.d"

func bootConf(driver string) string { return path.Join(bootModprobe, "fitout-"+driver+".conf") }

// hookPath is the driver's hook file in /oem. Names sort after 90_custom.yaml,
// and the upgrade owns 91_, 92_ and 99_.
func (l Layout) hookPath(driver string) string {
	return path.Join(l.OEM, "95_fitout_"+driver+".yaml")
}

// holdPath is the guard that holds a Harvester upgrade.
func (l Layout) holdPath() string { return path.Join(l.OEM, "95_fitout_hold.yaml") }

var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// checkName refuses driver names that would not do as a file, unit or stage
// name.
func checkName(name string) error {
	if !nameShape.MatchString(name) {
		return fmt.Errorf("driver name %q: only a-z, 0-9, '.', '_' and '-' are allowed, at most 63, starting with a letter or digit, because it becomes part of file names", name)
	}
	return nil
}
