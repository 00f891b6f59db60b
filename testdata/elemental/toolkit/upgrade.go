package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"fitout/testdata/elemental/stages"
)

const (
	statePartition = "/run/initramfs/elemental-state"
	snapshots      = statePartition + "/.snapshots"
	workingTree    = "/run/elemental/workingtree"
	// spare is what the toolkit adds to the size of the tree.
	spare = 256 << 20
	// maxSnapshots is the loop-device snapshotter's default.
	maxSnapshots = 2
)

// binds are what the chroot sees of the host, by where it sees it.
var binds = []struct{ from, to string }{
	{"/dev", "/dev"}, {"/proc", "/proc"}, {"/sys", "/sys"}, {"/oem", "/oem"},
	{"/run/elemental/persistent", "/run/elemental/persistent"},
}

// upgrade is one call of the command.
type upgrade struct {
	system, source, logfile string
	strict                  bool
}

func (u *upgrade) log(text string) {
	if u.logfile == "" {
		return
	}
	f, err := os.OpenFile(u.logfile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

// run is the order of pkg/action/upgrade.go: hooks around the new tree, then
// the image, the state file, and the links last.
func (u *upgrade) run() (err error) {
	if err := u.hook("before-upgrade", func() error { return stages.Run("before-upgrade", "v2") }); err != nil {
		return err
	}
	number, err := u.newSnapshot()
	if err != nil {
		return err
	}
	dir := filepath.Join(snapshots, strconv.Itoa(number))
	defer func() {
		if err != nil {
			// The toolkit's cleanup removes the tree, through whatever is still
			// bound into it.
			_ = os.RemoveAll(workingTree)
			_ = os.RemoveAll(dir)
		}
	}()
	u.log("dumping " + u.source)
	if err := command("debugfs", "-R", "rdump / "+workingTree, u.source); err != nil {
		return err
	}
	if err := u.inChroot(); err != nil {
		return err
	}
	for _, stage := range []string{"after-upgrade", "post-upgrade"} {
		if err := u.hook(stage, func() error { return stages.Run(stage, "v2") }); err != nil {
			return err
		}
	}
	u.log("making snapshot " + strconv.Itoa(number))
	if err := makeImage(workingTree, filepath.Join(dir, "snapshot.img")); err != nil {
		return err
	}
	if err := os.RemoveAll(workingTree); err != nil {
		return err
	}
	return u.commit(number)
}

// hook drops a stage's error unless strict is on.
func (u *upgrade) hook(stage string, run func() error) error {
	u.log("running stage " + stage)
	if err := run(); err != nil && u.strict {
		return fmt.Errorf("stage %s: %w", stage, err)
	}
	return nil
}

func (u *upgrade) newSnapshot() (int, error) {
	entries, err := os.ReadDir(snapshots)
	if err != nil {
		return 0, err
	}
	number := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > number {
			number = n
		}
	}
	number++
	for _, d := range []string{filepath.Join(snapshots, strconv.Itoa(number)), workingTree} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return 0, err
		}
	}
	return number, nil
}

// inChroot runs the stage in the new tree with the host's directories bound in.
// One that cannot be unbound, because a process was left in it, ends the
// upgrade, and the cleanup then deletes through it.
func (u *upgrade) inChroot() error {
	for _, b := range binds {
		at := workingTree + b.to
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(b.from, at, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s: %w", b.from, err)
		}
	}
	failed := u.hook("after-upgrade-chroot", func() error {
		// Output of a hook is never logged: the level is raised for it.
		return exec.Command(os.Args[0], "chroot-stage", workingTree, "after-upgrade-chroot").Run()
	})
	for i := len(binds) - 1; i >= 0; i-- {
		if err := syscall.Unmount(workingTree+binds[i].to, 0); err != nil {
			return fmt.Errorf("failed closing chroot environment: unmounting %s: %w", binds[i].to, err)
		}
	}
	return failed
}

// makeImage is an ext2 file system of the tree, as large as it needs.
func makeImage(tree, img string) error {
	var size int64 = spare
	err := filepath.Walk(tree, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	return command("mke2fs", "-q", "-t", "ext2", "-L", "COS_ACTIVE", "-d", tree, img, fmt.Sprint(size>>10)+"k")
}

// commit lists the snapshot, drops the oldest over the limit, and moves the
// active link.
func (u *upgrade) commit(number int) error {
	file := statePartition + "/state.yaml"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var state map[string]any
	if err := yaml.Unmarshal(b, &state); err != nil {
		return err
	}
	part, _ := state["state"].(map[string]any)
	listed, _ := part["snapshots"].(map[string]any)
	if listed == nil {
		return fmt.Errorf("%s lists no snapshots", file)
	}
	for _, s := range listed {
		if m, ok := s.(map[string]any); ok {
			delete(m, "active")
		}
	}
	listed[strconv.Itoa(number)] = map[string]any{"source": u.system, "active": true, "fromAction": "upgrade"}
	if err := drop(listed, number); err != nil {
		return err
	}
	if b, err = yaml.Marshal(state); err != nil {
		return err
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return err
	}
	link := filepath.Join(snapshots, "active")
	if err := os.Remove(link); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(strconv.Itoa(number), "snapshot.img"), link)
}

// drop keeps the newest directories, listed or not: that is how a stray one
// pushes out the good fallback.
func drop(listed map[string]any, newest int) error {
	entries, err := os.ReadDir(snapshots)
	if err != nil {
		return err
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	for len(numbers) > maxSnapshots {
		oldest := newest
		at := 0
		for i, n := range numbers {
			if n < oldest {
				oldest, at = n, i
			}
		}
		numbers = append(numbers[:at], numbers[at+1:]...)
		delete(listed, strconv.Itoa(oldest))
		if err := os.RemoveAll(filepath.Join(snapshots, strconv.Itoa(oldest))); err != nil {
			return err
		}
	}
	return nil
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// strictByEnvironment reads the ways besides the flag: the environment, the
// configuration, and os-release, which is merged into it.
func strictByEnvironment() bool {
	if os.Getenv("ELEMENTAL_STRICT") == "true" {
		return true
	}
	for file, line := range map[string]string{"/etc/elemental/config.yaml": "strict: true", "/etc/os-release": "STRICT=true"} {
		if b, err := os.ReadFile(file); err == nil && strings.Contains("\n"+string(b), "\n"+line) {
			return true
		}
	}
	return false
}
