package node

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFDs and maxMaps bound what is looked at of one process, maxProcs how many
// processes.
const (
	maxProcs = 65536
	maxFDs   = 16384
	maxMaps  = 4 << 20 // bytes
)

// processes finds processes that have the device's nodes open or mapped, those of
// one name that have the same one together. unseen is how many could not be
// looked at.
func (t *target) processes() (out []Use, unseen int) {
	if len(t.nodes) == 0 && len(t.majors) == 0 && t.dir == "" {
		return nil, 0
	}
	var pids []int
	for _, name := range names(t.n, "/proc") {
		if pid, err := strconv.Atoi(name); err == nil && len(pids) < maxProcs {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	type holding struct{ name, node string }
	at := map[holding]int{}
	for _, pid := range pids {
		open, err := t.openBy(pid)
		if errors.Is(err, fs.ErrPermission) {
			unseen++
		}
		for _, p := range open {
			h := holding{t.nameOf(pid), p}
			if i, ok := at[h]; ok {
				out[i].PIDs = append(out[i].PIDs, pid)
				out[i].Text = fmt.Sprintf("%s x %d have %s open", h.name, len(out[i].PIDs), p)
				continue
			}
			kind := "process"
			if strings.HasPrefix(p, "/dev/vfio/") {
				kind = "vfio"
			}
			at[h] = len(out)
			out = append(out, Use{Kind: kind, PIDs: []int{pid}, Text: fmt.Sprintf("pid %d %s has %s open", pid, h.name, p)})
		}
	}
	return out, unseen
}

// openBy lists the device's nodes and resources that a process holds, each
// once.
func (t *target) openBy(pid int) ([]string, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	var found []string
	note := func(p string) {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	entries, err := t.n.ReadDir(dir + "/fd")
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if i == maxFDs {
			break
		}
		fd := dir + "/fd/" + e.Name()
		p, err := t.n.Readlink(fd)
		if err == nil && (t.ours(p) || t.ourMajor(p, fd)) {
			note(p)
		}
	}
	maps, err := t.n.Open(dir + "/maps")
	if err != nil {
		return found, nil // it ended meanwhile
	}
	defer maps.Close()
	buf := make([]byte, 0, 64<<10)
	for len(buf) < maxMaps {
		buf = slices.Grow(buf, 64<<10)
		k, err := maps.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+k]
		if err != nil || k == 0 {
			break
		}
	}
	for line := range strings.SplitSeq(string(buf), "\n") {
		i := strings.IndexByte(line, '/')
		if i >= 0 && t.ours(strings.TrimSuffix(line[i:], " (deleted)")) {
			note(line[i:])
		}
	}
	return found, nil
}

// ours says that a path is one of the device's nodes, or a resource of it in
// sysfs (a user-space driver maps resource0).
func (t *target) ours(p string) bool {
	if t.nodes[p] {
		return true
	}
	return t.dir != "" && strings.HasPrefix(p, t.dir+"/resource")
}

// ourMajor says that an open file is a character device that one of the
// modules made.
func (t *target) ourMajor(p, fd string) bool {
	if len(t.majors) == 0 || !strings.HasPrefix(p, "/dev/") {
		return false
	}
	st, err := t.n.Stat(fd)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Mode&syscall.S_IFMT == syscall.S_IFCHR && t.majors[uint64(unix.Major(sys.Rdev))]
}

// containerID is the id of a container in a cgroup path, of any runtime.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// nameOf is a process's name, with its container.
func (t *target) nameOf(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	name, err := t.n.ReadString(dir + "/comm")
	if err != nil {
		name = "(gone)"
	}
	if group, err := t.n.ReadString(dir + "/cgroup"); err == nil {
		if all := containerID.FindAllString(group, -1); len(all) > 0 {
			name += " (container " + all[len(all)-1][:12] + ")"
		}
	}
	return name
}
