package workflow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fitout/catalog/image"
	"fitout/hostops/host"
)

// kernelPlaces are the parts of an operating system's image that tell which
// kernel it boots and what that kernel's modules are.
var kernelPlaces = []string{"lib/modules", "usr/lib/modules", "boot", "lib/firmware", "usr/lib/firmware"}

// OSImage makes the kernel of an operating system's image readable: a directory
// that holds one, a squashfs file (Harvester's rootfs.squashfs), an ext image
// (Elemental's snapshot.img), or a container image of any transport. It returns the node path of a root for CheckKernel;
// done removes what was unpacked, and changes nothing else on the node.
func (e *Engine) OSImage(ctx context.Context, reference string) (osRoot string, done func(), err error) {
	done = func() {}
	given := reference
	reference = e.osFile(given)
	if dir := e.Node.Path(reference); filepath.IsAbs(reference) && hasModules(dir) {
		return reference, done, nil
	}
	dir, err := e.workDir("os-image-")
	if err != nil {
		return "", done, err
	}
	done = func() { e.dropWorkDir(dir) }
	switch form := fileForm(e.Node.Path(reference)); {
	case filepath.IsAbs(reference) && form == "squashfs":
		err = e.unsquash(ctx, reference, dir)
	case filepath.IsAbs(reference) && form == "ext":
		err = e.undump(ctx, reference, dir)
	default:
		err = e.fetchOS(ctx, given, dir)
	}
	if err == nil && !hasModules(dir) {
		err = stopf(ExitNoMatch, "no-kernel", "name the image of an operating system, as the upgrade would use it",
			"%s has no kernel modules below /lib/modules or /usr/lib/modules", given)
	}
	if err != nil {
		done()
		return "", func() {}, err
	}
	return e.Node.NodePath(dir), done, nil
}

// osFile is the node path of a file or directory that is given below the working
// directory, as a person types it; what is none stays as it is.
func (e *Engine) osFile(reference string) string {
	file, err := filepath.Abs(reference)
	if _, missing := os.Stat(file); filepath.IsAbs(reference) || err != nil || missing != nil {
		return reference
	}
	if on := e.Node.NodePath(file); e.Node.Path(on) == file {
		return on
	}
	return reference // of this machine, and not of the recorded node
}

func hasModules(root string) bool {
	for _, p := range kernelPlaces[:2] {
		if entries, err := os.ReadDir(filepath.Join(root, p)); err == nil && len(entries) > 0 {
			return true
		}
	}
	return false
}

// fileForm tells a file system image by its superblock's magic number:
// squashfs has "hsqs" at the start, the ext family 0xEF53 at byte 1080.
func fileForm(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "hsqs" {
		return "squashfs"
	}
	if _, err := f.ReadAt(magic[:2], 1080); err == nil && magic[0] == 0x53 && magic[1] == 0xef {
		return "ext"
	}
	return ""
}

// unsquash reads the wanted parts of a squashfs with the node's own tool:
// systems that are installed from one have it.
func (e *Engine) unsquash(ctx context.Context, file, dir string) error {
	mount := fmt.Sprintf("mount it and name the directory: mount -o ro,loop %s /mnt && fitout check --os-root /mnt", file)
	if !e.Node.Exec.Look("unsquashfs") {
		return stopf(ExitUnsupported, "no-tool", mount, "reading %s: this node has no unsquashfs", file)
	}
	// A part that is not in it is a warning; whether enough came out is looked at
	// afterwards.
	argv := append([]string{"unsquashfs", "-n", "-f", "-no-xattrs", "-d", e.Node.NodePath(dir), file}, kernelPlaces...)
	if said, err := e.Node.Exec.Run(ctx, argv...); err != nil && !hasModules(dir) {
		return stopf(ExitUnreachable, "image-unreadable", mount, "reading %s: %v: %s", file, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// undump reads the wanted parts of an ext image with debugfs, which mounts
// nothing.
func (e *Engine) undump(ctx context.Context, file, dir string) error {
	mount := fmt.Sprintf("mount it and name the directory: mount -o ro,loop %s /mnt && fitout check --os-root /mnt", file)
	if !e.Node.Exec.Look("debugfs") {
		return stopf(ExitUnsupported, "no-tool", mount, "reading %s: this node has no debugfs", file)
	}
	for _, place := range kernelPlaces {
		parent := filepath.Join(dir, filepath.Dir(place))
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return err
		}
		if said, err := e.Node.Exec.Run(ctx, "debugfs", "-R", "rdump /"+place+" "+e.Node.NodePath(parent), file); err != nil {
			return stopf(ExitUnreachable, "image-unreadable", mount, "reading %s: %v: %s", file, err, strings.TrimSpace(string(said)))
		}
	}
	return nil
}

func (e *Engine) fetchOS(ctx context.Context, reference, dir string) error {
	ref, err := image.ParseReference(reference)
	if err != nil {
		return ReferenceError(err)
	}
	opts, err := e.ImageOptions()
	if err != nil {
		return err
	}
	img, err := image.Open(ctx, ref, opts)
	if err != nil {
		return ImageError(reference, err)
	}
	defer img.Close()
	if _, err := img.FetchFiles(ctx, dir, ofKernel); err != nil {
		return ImageError(reference, err)
	}
	return nil
}

// ofKernel says whether a file of an OS image matters to its kernel's modules.
func ofKernel(p string) bool {
	for _, place := range kernelPlaces {
		if strings.HasPrefix(p, place+"/") {
			return !strings.Contains(p, "/build/") && !strings.Contains(p, "/source/")
		}
	}
	return false
}

// workDir is a new directory for what is unpacked and thrown away: on the disk
// that keeps the state, which has room where /tmp is memory; without the right
// to write there, where temporary files go.
func (e *Engine) workDir(prefix string) (string, error) {
	parent := e.Node.Path(host.WorkDir(e.StateDir()))
	if err := os.MkdirAll(parent, 0o700); err == nil {
		if dir, err := os.MkdirTemp(parent, prefix); err == nil {
			return dir, nil
		}
	}
	if e.Node.Simulated() {
		return "", stopf(ExitUnsupported, "no-space", "make the state directory writable", "no place to unpack below %s", parent)
	}
	return os.MkdirTemp("", "fitout-"+prefix)
}

// dropWorkDir removes a work directory, and the parents that are empty now.
func (e *Engine) dropWorkDir(dir string) {
	_ = os.RemoveAll(dir)
	for range 2 {
		if dir = filepath.Dir(dir); strings.HasPrefix(dir, e.Node.Path(e.StateDir())) {
			_ = os.Remove(dir)
		}
	}
}
