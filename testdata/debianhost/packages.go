package debianhost

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// kept are the modules, with what they need, that stay in the kernel packages:
// those for which a machine has a use. A whole tree of 4,000 files would cost
// minutes of emulated time at every installation.
var kept = append([]string{"squashfs", "loop", "autofs4", "ptp", "e1000", "vmxnet3", "nvme", "crc32c_intel"}, vm.DiskModules...)

// Package is the name of a kernel's package.
func Package(k debian.Kernel) string { return "linux-image-" + k.Release }

// addPackage puts a kernel's package into a package source: Debian's control
// files and maintainer scripts, its image and the kept modules, not packed.
// Its entry is added to the source's index.
func addPackage(index *strings.Builder, to string, k debian.Kernel, remove []string) error {
	deb, err := debian.Download(Package(k))
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp(to, ".deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := os.Chmod(stage, 0o755); err != nil {
		return err
	}
	if err := program.Run("dpkg-deb", "-e", deb, filepath.Join(stage, "DEBIAN")); err != nil {
		return err
	}
	files, err := packageFiles(k, remove)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(stage, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.Link(filepath.Join(k.Dir, name), filepath.Join(stage, name)); err != nil {
			if err := program.Run("cp", "--", filepath.Join(k.Dir, name), filepath.Join(stage, name)); err != nil {
				return err
			}
		}
	}
	if err := keepSums(filepath.Join(stage, "DEBIAN/md5sums"), files); err != nil {
		return err
	}
	file := filepath.Join(to, filepath.Base(deb))
	if err := program.Run("dpkg-deb", "-Znone", "--root-owner-group", "-b", stage, file); err != nil {
		return err
	}
	return addEntry(index, file)
}

// packageFiles are the files of a kernel's package that stay, by their paths
// below its root.
func packageFiles(k debian.Kernel, remove []string) ([]string, error) {
	var files []string
	for _, name := range []string{"vmlinuz-", "config-", "System.map-"} {
		files = append(files, "boot/"+name+k.Release)
	}
	modules := "lib/modules/" + k.Release + "/"
	for _, name := range debian.DepmodReads {
		files = append(files, modules+name)
	}
	stay, err := k.ModuleFiles(kept...)
	if err != nil {
		return nil, err
	}
	for _, f := range stay {
		if !slices.Contains(remove, debian.ModuleName(f)) {
			files = append(files, modules+f)
		}
	}
	return files, nil
}

// keepSums leaves in a package's md5sums those of the files named.
func keepSums(file string, files []string) error {
	all, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(all)) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), "  "); slices.Contains(files, name) {
			out.WriteString(line)
		}
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}

// addEntry adds a package to an index (deb-src(5) has the fields).
func addEntry(index *strings.Builder, file string) error {
	control, err := program.Output("dpkg-deb", "-f", file)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	fmt.Fprintf(index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(control), filepath.Base(file), size, h.Sum(nil))
	return nil
}
