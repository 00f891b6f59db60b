package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RPM says what rpmbuild packs.
type RPM struct {
	Name, Version, Release string
	// Payload is rpmbuild's word for the compression: "w19.zstdio" as Fedora
	// has it, "w6.xzdio" as SUSE, "w9.gzdio" as older ones.
	Payload string
	Files   []File
}

// rpmSpec packs what lies below a directory; nothing is built or stripped.
const rpmSpec = `Name: %s
Version: %s
Release: %s
Summary: Kernel modules
License: GPL-2.0-only
BuildArch: x86_64
%%description
Kernel modules.
%%files
%s
`

// Build makes the package with rpmbuild, and says what file name it has.
func (r RPM) Build() (File, error) {
	tmp, err := os.MkdirTemp("", "rpm-")
	if err != nil {
		return File{}, err
	}
	defer os.RemoveAll(tmp)
	root, spec := filepath.Join(tmp, "root"), filepath.Join(tmp, "package.spec")
	var list []string
	for _, f := range r.Files {
		to := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return File{}, err
		}
		if f.Link != "" {
			err = os.Symlink(f.Link, to)
		} else {
			err = os.WriteFile(to, f.Data, 0o644)
		}
		if err != nil {
			return File{}, err
		}
		list = append(list, "/"+f.Name)
	}
	text := fmt.Sprintf(rpmSpec, r.Name, r.Version, r.Release, strings.Join(list, "\n"))
	if err := os.WriteFile(spec, []byte(text), 0o644); err != nil {
		return File{}, err
	}
	cmd := exec.Command("rpmbuild", "-bb", "--quiet", "--buildroot", root, "--target", "x86_64",
		"--define", "_topdir "+tmp, "--define", "_binary_payload "+r.Payload, "--define", "__os_install_post %{nil}",
		"--define", "_build_id_links none", "--define", "debug_package %{nil}", "--define", "_smp_build_ncpus 1", spec)
	// rpmbuild empties the build root before %install, of which there is none.
	if out, err := cmd.CombinedOutput(); err != nil {
		return File{}, fmt.Errorf("running rpmbuild: %w (install rpm: make deps): %s", err, out)
	}
	name := fmt.Sprintf("%s-%s-%s.x86_64.rpm", r.Name, r.Version, r.Release)
	data, err := os.ReadFile(filepath.Join(tmp, "RPMS/x86_64", name))
	return File{Name: name, Data: data}, err
}
