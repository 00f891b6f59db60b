package vm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"

	"fitout/testdata/vm/debian"
)

// Initramfs is an initramfs with busybox, modules to load in order, and a first
// process, which finds their names in /modules/order.
type Initramfs struct {
	Kernel debian.Kernel
	// Init is the first process' text.
	Init []byte
	// Modules are loaded, with what they need; those built in are left out.
	Modules []string
	// Files are programs and libraries of this host: path in the initramfs
	// (without the first slash) → path here.
	Files map[string]string
}

// DiskModules reach a disk of QEMU's with an ext4 on it. crc32c_generic: ext4
// asks the kernel's crypto layer for crc32c, which is no dependency that depmod
// sees.
var DiskModules = []string{"crc32c_generic", "virtio_pci", "virtio_blk", "ext4"}

// readOnlyModules reach a root in a squashfs too, with an overlay on it.
var readOnlyModules = append([]string{"squashfs", "overlay", "loop"}, DiskModules...)

// Bytes is the archive. It is not compressed: unpacking under emulation costs
// more than reading.
func (i Initramfs) Bytes() ([]byte, error) {
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return nil, fmt.Errorf("%w: install busybox-static (make deps)", err)
	}
	var c cpio
	for _, d := range []string{"bin", "dev", "proc", "run", "sys", "newroot", "persist", "modules"} {
		c.dir(d)
	}
	c.node("dev/console", 0o020600, 5, 1)
	c.file("init", 0o755, i.Init)
	c.file("bin/busybox", 0o755, busybox)
	made := map[string]bool{"bin": true}
	for _, name := range sortedKeys(i.Files) {
		data, err := os.ReadFile(i.Files[name])
		if err != nil {
			return nil, err
		}
		for at, r := range name {
			if dir := name[:at]; r == '/' && !made[dir] {
				c.dir(dir)
				made[dir] = true
			}
		}
		c.file(name, 0o755, data)
	}
	if err := addModules(&c, i.Kernel, i.Modules); err != nil {
		return nil, err
	}
	return c.end(), nil
}

// buildInitramfs returns the initramfs of a machine with a read-only root, built
// once for each content.
func buildInitramfs(k debian.Kernel) (string, error) {
	init, err := guest.ReadFile("guest/initramfs-init")
	if err != nil {
		return "", err
	}
	data, err := Initramfs{Kernel: k, Init: init, Modules: readOnlyModules}.Bytes()
	if err != nil {
		return "", err
	}
	dir, err := debian.CacheDir("vm")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	image := filepath.Join(dir, "initramfs-"+hex.EncodeToString(sum[:])[:16]+".cpio")
	return image, debian.Once(image, func(tmp string) error { return os.WriteFile(tmp, data, 0o644) })
}

// addModules adds modules and the order to load them in.
func addModules(c *cpio, k debian.Kernel, wanted []string) error {
	files, err := k.ModuleFiles(wanted...)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range files {
		data, err := readModule(filepath.Join(k.Modules(), p))
		if err != nil {
			return err
		}
		name := debian.ModuleName(p) + ".ko"
		c.file("modules/"+name, 0o644, data)
		names = append(names, name)
	}
	c.file("modules/order", 0o644, []byte(strings.Join(names, "\n")+"\n"))
	return nil
}

// readModule reads a module file, uncompressed.
func readModule(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".xz") {
		return data, err
	}
	r, err := xz.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return io.ReadAll(r)
}

// cpio writes an archive in the "newc" format of the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst.
type cpio struct {
	buf bytes.Buffer
	ino int
}

func (c *cpio) dir(name string) { c.entry(name, 0o040755, nil, 0, 0) }

func (c *cpio) file(name string, perm int, data []byte) { c.entry(name, 0o100000|perm, data, 0, 0) }

func (c *cpio) node(name string, mode, major, minor int) { c.entry(name, mode, nil, major, minor) }

func (c *cpio) entry(name string, mode int, data []byte, major, minor int) {
	c.ino++
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name)
	c.pad()
	c.buf.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}

func (c *cpio) end() []byte {
	c.entry("TRAILER!!!", 0, nil, 0, 0)
	return c.buf.Bytes()
}
