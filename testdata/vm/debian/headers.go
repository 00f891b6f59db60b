package debian

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fitout/testdata/program"
)

// Headers returns the directory to build modules for a kernel release in
// (make -C DIR M=…): Debian's headers and build programs, extracted once, so
// that nothing is installed on this machine. The programs themselves, gcc and
// make, have to be here.
func Headers(release string) (string, error) {
	all, err := CacheDir("headers")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(all, release)
	build := filepath.Join(dir, "usr/src/linux-headers-"+release)
	return build, Once(dir, func(tmp string) error {
		if err := extractHeaders(tmp, dir, release); err != nil {
			return fmt.Errorf("laying out the headers of kernel %s: %w", release, err)
		}
		return nil
	})
}

// extractHeaders extracts the headers and what they need to be built with, and
// makes them refer to the place where they will be.
func extractHeaders(tmp, dir, release string) error {
	deb, err := Download("linux-headers-" + release)
	if err != nil {
		return err
	}
	depends, err := program.Output("dpkg-deb", "-f", deb, "Depends")
	if err != nil {
		return err
	}
	debs := []string{deb}
	for dep := range strings.SplitSeq(depends, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(dep), " ")
		if !strings.HasPrefix(name, "linux-headers-") && !strings.HasPrefix(name, "linux-kbuild-") {
			continue
		}
		d, err := Download(name)
		if err != nil {
			return err
		}
		debs = append(debs, d)
	}
	for _, d := range debs {
		if err := program.Run("dpkg-deb", "-x", d, tmp); err != nil {
			return err
		}
	}
	build := filepath.Join(tmp, "usr/src/linux-headers-"+release)
	// Without vmlinux no type information is made, which would take pahole.
	if err := os.Remove(filepath.Join(build, "vmlinux")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(build, "Makefile"))
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(" /usr/src/"), []byte(" "+dir+"/usr/src/"))
	return os.WriteFile(filepath.Join(build, "Makefile"), text, 0o644)
}

// Build builds the modules of a directory, whose Kbuild names them, for a kernel
// release, and returns the .ko files by name.
func Build(release string, sources fs.FS) (map[string][]byte, error) {
	headers, err := Headers(release)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, sources); err != nil {
		return nil, err
	}
	if err := program.Run("make", "-C", headers, "M="+dir, "modules"); err != nil {
		return nil, fmt.Errorf("building modules takes gcc, make and libelf1 (make deps): %w", err)
	}
	built, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil || len(built) == 0 {
		return nil, fmt.Errorf("the build for kernel %s left no module", release)
	}
	files := map[string][]byte{}
	for _, ko := range built {
		if files[filepath.Base(ko)], err = os.ReadFile(ko); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// SignFile is the kernel's own program that signs modules, of a release's
// headers: HASH KEY CERTIFICATE MODULE [DESTINATION].
func SignFile(release string) (string, error) {
	build, err := Headers(release)
	if err != nil {
		return "", err
	}
	return filepath.Join(build, "scripts/sign-file"), nil
}
