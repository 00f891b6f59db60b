package node_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// tree builds a node's /sys, /proc and /dev by hand. Shapes are those of a
// Linux 6.1 machine; the comments in the tests say which.
type tree struct {
	t      *testing.T
	n      *hostops.Node
	mounts []string
}

func newTree(t *testing.T) *tree {
	b := &tree{t: t, n: hostops.At(t.TempDir(), nil)}
	b.write("/proc/self/mountinfo", "")
	return b
}

func (b *tree) write(p, content string) {
	require.NoError(b.t, b.n.WriteFile(p, []byte(content), 0o644))
}

// link makes a link; those in sysfs are relative, as the kernel's are.
func (b *tree) link(target, p string) {
	if strings.HasPrefix(p, "/sys/") {
		rel, err := filepath.Rel(path.Dir(p), target)
		require.NoError(b.t, err)
		target = rel
	}
	require.NoError(b.t, b.n.Symlink(target, p))
}

// pci makes a PCI function at a path below /sys/devices and returns the path.
func (b *tree) pci(p string) string {
	dir := "/sys/devices/" + p
	require.NoError(b.t, b.n.MkdirAll(dir, 0o755))
	b.link(dir, "/sys/bus/pci/devices/"+path.Base(p))
	return dir
}

// block makes a block device below a sysfs directory, with its number.
func (b *tree) block(dir, name, dev string) string {
	p := path.Join(dir, name)
	b.write(p+"/dev", dev+"\n")
	b.write(p+"/uevent", "MAJOR=8\nDEVNAME="+name+"\n")
	b.link(p, "/sys/class/block/"+name)
	b.link(p, "/sys/dev/block/"+dev)
	return p
}

// disk is a whole one, partition a part of it.
func (b *tree) disk(dir, name, dev string) string {
	p := b.block(dir, name, dev)
	b.link(p, "/sys/block/"+name)
	return p
}

func (b *tree) partition(disk, name, dev string) string {
	p := b.block(disk, name, dev)
	b.write(p+"/partition", "1\n")
	return p
}

// virtual is a stacked device with what is below it.
func (b *tree) virtual(name, dev string, slaves ...string) string {
	p := b.disk("/sys/devices/virtual/block", name, dev)
	for _, s := range slaves {
		b.link(s, p+"/slaves/"+path.Base(s))
		b.link(p, s+"/holders/"+name)
	}
	return p
}

// mount adds a line to mountinfo.
func (b *tree) mount(dev, point, fs, source, super string) {
	b.mounts = append(b.mounts, strings.Join([]string{"36", "35", dev, "/", strings.ReplaceAll(point, " ", `\040`), "rw", "-", fs, source, super}, " "))
	b.write("/proc/self/mountinfo", strings.Join(b.mounts, "\n")+"\n")
}

// netdev makes a network device below dir (a device's sysfs directory).
func (b *tree) netdev(dir, name, flags string) {
	p := dir + "/net/" + name
	b.write(p+"/flags", flags+"\n")
	b.link(dir, p+"/device")
	b.link(p, "/sys/class/net/"+name)
}

// stacked is a virtual network device over others.
func (b *tree) stacked(name string, lower ...string) {
	p := "/sys/devices/virtual/net/" + name
	b.write(p+"/flags", "0x1003\n")
	for _, l := range lower {
		b.link("/sys/class/net/"+l, p+"/lower_"+l)
	}
	b.link(p, "/sys/class/net/"+name)
}

const routeHead = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"

// process makes a process with open files and mappings.
func (b *tree) process(pid, comm string, maps []string, open ...string) {
	dir := "/proc/" + pid
	b.write(dir+"/comm", comm+"\n")
	b.write(dir+"/maps", strings.Join(maps, "\n")+"\n")
	require.NoError(b.t, b.n.MkdirAll(dir+"/fd", 0o755))
	for i, o := range open {
		b.link(o, dir+"/fd/"+string(rune('3'+i)))
	}
}

// TestMain keeps the many small trees in memory where that is possible.
func TestMain(m *testing.M) {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}
