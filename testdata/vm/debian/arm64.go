package debian

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"fitout/testdata/program"
)

// arm64Meta is the smallest of Debian's arm64 kernels: an uncompressed Image
// and plain modules.
const arm64Meta = "linux-image-cloud-arm64"

// ARM64 fetches a kernel of the other architecture, for what can be read of its
// files. It is got from the same mirror, by an index of its own, and stays in
// the cache from then on.
func ARM64() (Kernel, error) {
	kernels, err := CacheDir("kernels")
	if err != nil {
		return Kernel{}, err
	}
	unlock, err := Lock("arm64")
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	if have, _ := filepath.Glob(filepath.Join(kernels, "*-cloud-arm64")); len(have) > 0 {
		sort.Strings(have)
		dir := have[len(have)-1]
		return Kernel{Release: filepath.Base(dir), Dir: dir}, nil
	}
	apt, err := CacheDir("apt-arm64")
	if err != nil {
		return Kernel{}, err
	}
	status := filepath.Join(apt, "status")
	if err := errors.Join(os.MkdirAll(filepath.Join(apt, "lists", "partial"), 0o755),
		os.MkdirAll(filepath.Join(apt, "cache", "archives", "partial"), 0o755), os.WriteFile(status, nil, 0o644)); err != nil {
		return Kernel{}, err
	}
	options := []string{"-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64", "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + filepath.Join(apt, "cache"), "-o", "Dir::State::status=" + status}
	if err := program.Run("apt-get", append(options, "update")...); err != nil {
		return Kernel{}, err
	}
	out, err := program.Output("apt-cache", append(options, "depends", arm64Meta)...)
	if err != nil {
		return Kernel{}, err
	}
	_, rest, ok := strings.Cut(out, "Depends: linux-image-")
	release, _, _ := strings.Cut(rest, "\n")
	if !ok || release == "" {
		return Kernel{}, fmt.Errorf("apt knows no kernel for %s: check /etc/apt/sources.list and the network", arm64Meta)
	}
	tmp, err := os.MkdirTemp(apt, ".new-")
	if err != nil {
		return Kernel{}, err
	}
	defer os.RemoveAll(tmp)
	return extract(release, func() (string, error) {
		err := program.Run("env", append(append([]string{"--chdir=" + tmp, "apt-get"}, options...), "download", "linux-image-"+release)...)
		return newestDeb(tmp, "linux-image-"+release), err
	})
}
