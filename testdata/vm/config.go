// Package vm is a throw-away machine: Debian's own kernel under QEMU's software
// emulation, a read-only root, a small persistent disk for /etc and /var, a
// serial console with a terminal on it, and devices that its kernel may have no
// driver for.
//
// A test says what it needs and gets a machine that is up:
//
//	kernel, err := debian.Newest(debian.Stock)
//	m := vm.Start(t, vm.Config{
//		Kernel:        kernel,
//		RemoveModules: []string{"e1000e"},
//		Devices:       []string{"e1000e,addr=05.0"},
//		Tools:         map[string]string{"fitout": binary},
//	})
//	out, code := m.Run("fitout devices --json")
//	m.Console.Type("fitout\r")
//	err = m.Console.WaitFor("No driver", time.Minute)
//
// On the machine: busybox, dash, bash, kmod, and the file "fitout" of Tools at
// /usr/bin/fitout. It coldplugs at boot as udev does (every modalias through
// modprobe), loads /etc/modules-load.d, and runs /etc/local.d/*.start and
// /etc/rc.local. It has no systemd. People start one with the program run in
// this directory.
package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/program"
	"fitout/testdata/vm/debian"
)

// Config says what machine to start. Only Kernel is required, or Disk.
type Config struct {
	// Kernel is booted.
	Kernel debian.Kernel
	// Disk is what the machine boots from in place of a Kernel: an installed
	// system with its own init. Kernel, AlsoInstalled, RemoveModules and Files
	// are of no use then.
	Disk *Disk
	// AlsoInstalled kernels are in /boot and /lib/modules too (Machine.Boot
	// goes there).
	AlsoInstalled []debian.Kernel
	// RemoveModules are taken out of all the kernels' trees.
	RemoveModules []string
	// OnlyModules, if set, are all that the kernels' trees have, with what those
	// need: such a machine boots and makes its module tables in no time.
	OnlyModules []string
	// Devices are QEMU's device descriptions ("e1000e,addr=05.0"). Slots 03
	// to 0f are free.
	Devices []string
	// Tools are programs of this host, on the machine below /tools by the
	// name given; "fitout" is at /usr/bin/fitout too.
	Tools map[string]string
	// Files are put on the persistent disk before the first boot: paths below
	// /etc, /var or /root. A path that ends in ".start" is executable.
	Files map[string]string
	// Media are directories or files of this host, each on a read-only disk
	// of its own, mounted at /media/NAME.
	Media map[string]string
	// Registry is host:port of a registry on this host; the machine reaches
	// it at registry.local:5000. Empty: the machine has no network at all.
	Registry string
	// CountsInstructions makes the machine's time that of its instructions, two
	// nanoseconds each: what it measures does not depend on how busy this host is.
	CountsInstructions bool
	// Elemental makes the machine a node of Elemental's toolkit v2 whose first
	// active image is this file, made by ElementalImage; AlsoInstalled,
	// RemoveModules and Files do not count then.
	Elemental string
	// Disks are the names of empty disks of 64 MiB, for controllers in Devices
	// ("nvme,serial=one,drive=data").
	Disks []string
	// Networks are the names of further networks, each with nobody on it but a
	// gateway that answers to ping, for cards in Devices ("e1000e,netdev=two").
	// The first is 10.1.0.0/24 with the gateway 10.1.0.2, and so on.
	Networks []string
	// Cmdline is added to the kernel's command line.
	Cmdline string
	// Memory is in MiB, by default 1024.
	Memory int
	// Snapshots lets the machine be taken back to a moment (Machine.Snapshot). Its
	// disk then lasts only as long as its QEMU.
	Snapshots bool
}

// Disk is the disk of an installed system, which boots as its own boot loader
// says: at every start and reboot, also when the system itself asks for one.
type Disk struct {
	// Image is a raw image; the machine has a copy.
	Image string
	// Loader stands for the boot loader: it reads what the disk, which no
	// machine has open then, boots next. Files that it takes out go to dir.
	Loader func(disk, dir string) (Boot, error)
}

// Boot is what a boot loader hands over to.
type Boot struct {
	// Kernel and Initramfs are files of this host.
	Kernel, Initramfs string
	// Options is the kernel's command line.
	Options string
}

// kernels are all that are installed, the booted one first.
func (c Config) kernels() []debian.Kernel {
	return append([]debian.Kernel{c.Kernel}, c.AlsoInstalled...)
}

// kernelArgs is the kernel's command line. Mitigations cost emulated time and
// guard nothing here; the console says errors only, as on an installed system.
const kernelArgs = "console=ttyS0 quiet mitigations=off tsc=reliable no_timer_check nokaslr panic=5"

// cmdline are the words of the rig and of the test. Without being asked for, the
// kernel writes no audit records: each is a line to wait for.
func (c Config) cmdline() string {
	args := kernelArgs
	if !strings.Contains(c.Cmdline, "audit=") {
		args += " audit=0"
	}
	if c.Snapshots {
		// QEMU takes this clock back with a snapshot; the processor's only goes on.
		args += " clocksource=acpi_pm"
	}
	return args + " " + c.Cmdline
}

// nics are the emulated network cards, which come with a boot ROM that only
// costs time.
var nics = []string{"e1000e", "e1000", "vmxnet3", "rtl8139", "pcnet", "i82550", "ne2k_pci", "igb", "tulip"}

// deviceArg adds to a device description what every machine wants.
func deviceArg(desc string) string {
	name, _, _ := strings.Cut(desc, ",")
	for _, nic := range nics {
		if name == nic && !strings.Contains(desc, "romfile=") {
			return desc + ",romfile="
		}
	}
	return desc
}

// qemuArgs is QEMU's command line for a machine whose disks and sockets lie in
// dir; root is its read-only root, "" for one that boots from its own disk.
func (c Config) qemuArgs(dir, root string, boot Boot) []string {
	memory := c.Memory
	if memory == 0 {
		memory = 1024
	}
	threads, clock := "multi", []string(nil)
	if c.CountsInstructions {
		threads, clock = "single", []string{"-icount", "shift=1"}
	}
	// One processor: it boots as fast as with two, and two emulated ones on a busy
	// host have been seen to lose a timer at boot.
	args := []string{
		"-machine", "q35", "-accel", "tcg,thread=" + threads, "-cpu", "max,la57=off", "-smp", "1", "-m", fmt.Sprint(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none", "-S",
		"-kernel", boot.Kernel, "-initrd", boot.Initramfs, "-append", strings.TrimSpace(boot.Options + " " + c.cmdline()),
		"-qmp", "unix:" + filepath.Join(dir, "qmp") + ",server=on,wait=off",
	}
	args = append(args, clock...)
	for _, port := range []string{"console", "agent"} {
		args = append(args, "-chardev", "socket,id="+port+",server=on,wait=off,path="+filepath.Join(dir, port), "-serial", "chardev:"+port)
	}
	slot := 0x10
	disk := func(name, file string, readonly bool) {
		mode := "readonly=on"
		switch {
		case !readonly && c.Snapshots:
			// An overlay in qcow2 that QEMU makes and deletes by itself.
			mode = "cache=writeback,snapshot=on"
		case !readonly:
			mode = "cache=unsafe"
		}
		args = append(args, "-drive", "if=none,format=raw,id=disk-"+name+",file="+file+","+mode,
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk-%s,serial=%s,addr=%x.0", name, name, slot))
		slot++
	}
	if c.Disk != nil {
		disk("disk", filepath.Join(dir, "disk"), false)
		args = append(args, "-no-reboot")
	} else {
		if c.Elemental == "" {
			disk("root", root, true)
		}
		disk("persist", filepath.Join(dir, "persist.ext4"), false)
	}
	if len(c.Tools) > 0 {
		disk("tools", filepath.Join(dir, "tools.squashfs"), true)
	}
	for _, name := range sortedKeys(c.Media) {
		disk(name, filepath.Join(dir, "media-"+name+".squashfs"), true)
	}
	if c.Registry != "" {
		host, port, _ := strings.Cut(c.Registry, ":")
		args = append(args, "-netdev", fmt.Sprintf("user,id=net,restrict=on,guestfwd=tcp:10.0.2.100:5000-cmd:/bin/busybox nc %s %s", host, port),
			"-device", "virtio-net-pci,netdev=net,addr=02.0,romfile=")
	}
	for _, name := range c.Disks {
		args = append(args, "-drive", "if=none,format=raw,snapshot=on,id="+name+",file="+filepath.Join(dir, "disk-"+name))
	}
	for i, name := range c.Networks {
		args = append(args, "-netdev", fmt.Sprintf("user,id=%s,restrict=on,net=10.%d.0.0/24", name, i+1))
	}
	for _, d := range c.Devices {
		args = append(args, "-device", deviceArg(d))
	}
	return args
}

// makeDisks makes the machine's own disks in dir.
func (c Config) makeDisks(dir string) error {
	if len(c.Tools) > 0 {
		stage := filepath.Join(dir, "tools")
		if err := os.Mkdir(stage, 0o755); err != nil {
			return err
		}
		for name, from := range c.Tools {
			if err := copyFile(from, filepath.Join(stage, name), 0o755); err != nil {
				return err
			}
		}
		if err := squash(stage, filepath.Join(dir, "tools.squashfs")); err != nil {
			return err
		}
	}
	for name, from := range c.Media {
		if err := squash(from, filepath.Join(dir, "media-"+name+".squashfs")); err != nil {
			return err
		}
	}
	for _, name := range c.Disks {
		file, err := os.Create(filepath.Join(dir, "disk-"+name))
		if err != nil {
			return err
		}
		if err := errors.Join(file.Truncate(64<<20), file.Close()); err != nil {
			return err
		}
	}
	if c.Disk != nil {
		return program.Run("cp", "--sparse=always", "--", c.Disk.Image, filepath.Join(dir, "disk"))
	}
	return c.makePersist(dir)
}

// makePersist makes the persistent disk with Files on it.
func (c Config) makePersist(dir string) error {
	stage := filepath.Join(dir, "persist")
	if c.Elemental != "" {
		return c.makeElemental(dir, stage)
	}
	for _, d := range []string{"etc", "work", "var/roothome", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(stage, d), 0o755); err != nil {
			return err
		}
	}
	for name, text := range c.Files {
		rel := strings.TrimPrefix(name, "/")
		if home, ok := strings.CutPrefix(rel, "root/"); ok {
			rel = "var/roothome/" + home
		}
		if !strings.HasPrefix(rel, "etc/") && !strings.HasPrefix(rel, "var/") {
			return fmt.Errorf("file %s of the machine: only /etc, /var and /root are on the persistent disk", name)
		}
		to := filepath.Join(stage, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		perm := os.FileMode(0o644)
		if strings.HasSuffix(name, ".start") {
			perm = 0o755
		}
		if err := os.WriteFile(to, []byte(text), perm); err != nil {
			return err
		}
	}
	return Ext4(stage, filepath.Join(dir, "persist.ext4"), "1G", "-N", "16384")
}
