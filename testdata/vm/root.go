package vm

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fitout/testdata/program"
	"fitout/testdata/vm/debian"
)

//go:embed guest/*
var guest embed.FS

// format is part of the cached images' names: raise it when what is built
// changes for a reason that no input shows.
const format = "2"

// osRelease is the machine's /usr/lib/os-release. It is no distribution that
// fitout knows, on purpose: a plain host with a read-only /usr.
const osRelease = `ID=machine
NAME="Throw-away machine"
PRETTY_NAME="Throw-away machine (Debian kernel, busybox)"
VERSION_ID=1
`

// links is the usr-merged layout, and what points into /usr, /run and /var.
var links = map[string]string{
	"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64",
	"root": "var/roothome", "etc/os-release": "../usr/lib/os-release",
	"etc/mtab": "../proc/self/mounts", "var/run": "../run", "init": "usr/sbin/init",
}

var dirs = []string{
	"boot", "dev", "etc/modprobe.d", "etc/modules-load.d", "etc/init.d", "media", "mnt", "opt", "persist", "proc",
	"run", "sys", "tmp", "tools", "usr/bin", "usr/sbin", "usr/lib/machine", "usr/lib/modules", "usr/lib/firmware", "usr/lib64", "var",
}

// etcFiles are the lower layer of /etc.
var etcFiles = map[string]string{
	"etc/passwd":   "root::0:0:root:/root:/bin/bash\n",
	"etc/group":    "root:x:0:\ntty:x:5:\n",
	"etc/hosts":    "127.0.0.1 localhost\n10.0.2.100 registry.local\n",
	"etc/profile":  "export PATH=/usr/sbin:/usr/bin\n",
	"etc/hostname": "machine\n",
	"etc/inputrc":  "set enable-bracketed-paste off\n",
}

// rootSpec says what a root file system is made of.
type rootSpec struct {
	// Kernels are installed; the first one is booted.
	Kernels []debian.Kernel
	// Remove names modules that the kernels' trees lack.
	Remove []string
	// Only, when it is set, names all modules that the trees have.
	Only []string
}

// buildRoot returns the squashfs of a root, built once for each content.
func buildRoot(spec rootSpec) (string, error) {
	dir, err := debian.CacheDir("vm")
	if err != nil {
		return "", err
	}
	sum, err := spec.sum()
	if err != nil {
		return "", err
	}
	image := filepath.Join(dir, "root-"+sum+".squashfs")
	err = debian.Once(image, func(tmp string) error {
		stage, err := os.MkdirTemp(dir, ".stage-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(stage)
		if err := spec.stage(stage); err != nil {
			return fmt.Errorf("putting the machine's root together: %w", err)
		}
		prune(dir)
		return squash(stage, tmp)
	})
	if err == nil {
		now := time.Now()
		os.Chtimes(image, now, now) // for prune
	}
	return image, err
}

// keptRoots is how many root file systems the cache holds, each of some 170 MB.
const keptRoots = 12

// prune deletes the root file systems that were not used for longest, and none
// that was used within the last day: a machine may be running from it.
func prune(dir string) {
	roots, _ := filepath.Glob(filepath.Join(dir, "root-*.squashfs"))
	age := map[string]time.Duration{}
	for _, r := range roots {
		if st, err := os.Stat(r); err == nil {
			age[r] = time.Since(st.ModTime())
		}
	}
	slices.SortFunc(roots, func(a, b string) int { return cmp.Compare(age[a], age[b]) })
	for i, r := range roots {
		if i >= keptRoots && age[r] > 24*time.Hour {
			os.Remove(r)
		}
	}
}

// squash makes a squashfs of a directory: everything owned by root, quick to
// read under emulation.
func squash(dir, file string) error {
	if err := program.Run("mksquashfs", dir, file, "-noappend", "-all-root", "-no-xattrs", "-comp", "lz4", "-no-progress", "-quiet"); err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	// The kernel looks for partition tables at the start and complains of disks
	// that are shorter.
	return os.Truncate(file, max(st.Size(), 1<<20))
}

// Ext4 makes an ext4 of a directory, as large as size says to mke2fs(8).
func Ext4(dir, file, size string, more ...string) error {
	args := append([]string{"-q", "-t", "ext4", "-m", "0", "-d", dir, "-E", "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0"}, more...)
	return program.Run("mke2fs", append(args, file, size)...)
}

// sum is over all inputs that the root is built from.
func (s rootSpec) sum() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, format, osRelease, dirs, links, etcFiles)
	for _, k := range s.Kernels {
		fmt.Fprintln(h, k.Release)
	}
	fmt.Fprintln(h, slices.Sorted(slices.Values(s.Remove)), slices.Sorted(slices.Values(s.Only)))
	err := fs.WalkDir(guest, "guest", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := guest.ReadFile(p)
		fmt.Fprintf(h, "%s %x\n", p, sha256.Sum256(data))
		return err
	})
	if err != nil {
		return "", err
	}
	for _, prog := range []string{"/bin/busybox", "/bin/kmod", "/bin/dash", "/bin/bash"} {
		st, err := os.Stat(prog)
		if err != nil {
			return "", fmt.Errorf("%w: install busybox-static and kmod (make deps)", err)
		}
		fmt.Fprintln(h, prog, st.Size(), st.ModTime().Unix())
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// stage lays the root out below dir.
func (s rootSpec) stage(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	files := map[string]string{"usr/lib/os-release": osRelease, "usr/bin/fitout": ""}
	for name, text := range etcFiles {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := stageGuest(dir); err != nil {
		return err
	}
	// Debian's busybox prefers its own commands to those in the path, whoever
	// calls it as a shell; hosts have a shell that does not.
	for prog, to := range map[string]string{"/bin/kmod": "usr/bin/kmod", "/bin/dash": "usr/bin/sh", "/bin/bash": "usr/bin/bash"} {
		if err := stageProgram(dir, prog, to); err != nil {
			return err
		}
	}
	if err := program.Run("cp", "-r", "/lib/terminfo", filepath.Join(dir, "usr/lib/terminfo")); err != nil {
		return err
	}
	if err := stageBusybox(dir); err != nil {
		return err
	}
	for _, name := range []string{"modprobe", "insmod", "rmmod", "depmod", "lsmod", "modinfo"} {
		link := filepath.Join(dir, "usr/sbin", name)
		os.Remove(link)
		os.Remove(filepath.Join(dir, "usr/bin", name))
		if err := os.Symlink("../bin/kmod", link); err != nil {
			return err
		}
	}
	for _, k := range s.Kernels {
		if err := stageKernel(dir, k, s.lacks); err != nil {
			return err
		}
	}
	return nil
}

// AgentScript is the program that runs a test's commands on a machine with an
// init of its own: it has to be started there with a shell.
func AgentScript() string {
	text, err := guest.ReadFile("guest/agent")
	if err != nil {
		panic(err) // embedded
	}
	return string(text)
}

// stageGuest copies the machine's own scripts.
func stageGuest(dir string) error {
	for _, name := range []string{"rcS", "rcK", "login", "agent"} {
		data, err := guest.ReadFile("guest/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "usr/lib/machine", name), data, 0o755); err != nil {
			return err
		}
	}
	data, err := guest.ReadFile("guest/inittab")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "etc/inittab"), data, 0o644)
}

// stageBusybox installs busybox and a link for each of its commands.
func stageBusybox(dir string) error {
	if err := copyFile("/bin/busybox", filepath.Join(dir, "usr/bin/busybox"), 0o755); err != nil {
		return err
	}
	list, err := program.Output("/bin/busybox", "--list-full")
	if err != nil {
		return err
	}
	for _, applet := range strings.Fields(list) {
		where, target := "usr/bin", "busybox"
		if strings.Contains(filepath.Dir(applet), "sbin") {
			where, target = "usr/sbin", "../bin/busybox"
		}
		link := filepath.Join(dir, where, filepath.Base(applet))
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "usr/bin/linuxrc"))
}

// stageProgram copies a program with the libraries that it is linked to, each
// at its own place.
func stageProgram(dir, prog, to string) error {
	if err := copyFile(prog, filepath.Join(dir, to), 0o755); err != nil {
		return err
	}
	out, err := program.Output("ldd", prog)
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(out) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		dst := filepath.Join(dir, "usr", strings.TrimPrefix(word, "/usr"))
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		if err := copyFile(word, dst, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// lacks says that the trees do not have a module.
func (s rootSpec) lacks(name string) bool {
	return slices.Contains(s.Remove, name) || len(s.Only) > 0 && !slices.Contains(s.Only, name)
}

// stageKernel links the kernel's image, configuration and modules into the root, without those
// that it lacks, and makes the module tables anew.
func stageKernel(dir string, k debian.Kernel, lacks func(module string) bool) error {
	for _, file := range []string{k.Vmlinuz(), k.Config()} {
		if err := os.Link(file, filepath.Join(dir, "boot", filepath.Base(file))); err != nil {
			return err
		}
	}
	to := filepath.Join(dir, "usr/lib/modules", k.Release)
	err := filepath.WalkDir(k.Modules(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(k.Modules(), p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular(), generated(rel), strings.Contains(rel, ".ko") && lacks(debian.ModuleName(rel)):
			return nil
		}
		return os.Link(p, filepath.Join(to, rel))
	})
	if err != nil {
		return err
	}
	return program.Run("depmod", "-b", dir, k.Release)
}

// closure is the names of modules of these kernels, those named and all that they
// need; nil for none.
func closure(kernels []debian.Kernel, names []string) ([]string, error) {
	var out []string
	for _, k := range kernels {
		files, err := k.ModuleFiles(names...)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out = append(out, debian.ModuleName(f))
		}
	}
	return out, nil
}

// generated says that depmod makes the file.
func generated(rel string) bool {
	return strings.HasPrefix(rel, "modules.") && !slices.Contains(debian.DepmodReads, rel)
}

// copyFile copies a file's content, following links.
func copyFile(from, to string, perm os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
