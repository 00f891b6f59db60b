package debian

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fitout/testdata/program"
)

// rootFormat is part of the cached roots' names: raise it when they are made
// in another way.
const rootFormat = "1"

// left out of a root: what nobody reads on a throw-away machine.
var leftOut = []string{"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/i18n/*", "/usr/share/lintian/*"}

// Root returns a tar archive of a Debian root: the essential packages and those
// named, installed and configured by apt and dpkg as on any machine. It is made
// once for each list of packages, as root.
func Root(packages ...string) (string, error) {
	dir, err := CacheDir("roots")
	if err != nil {
		return "", err
	}
	packages = slices.Clone(packages)
	slices.Sort(packages)
	sum := sha256.Sum256([]byte(strings.Join(append([]string{rootFormat, Suite}, packages...), "\n")))
	file := filepath.Join(dir, fmt.Sprintf("root-%x.tar", sum[:8]))
	return file, Once(file, func(tmp string) error { return makeRoot(tmp, packages) })
}

// makeRoot lets mmdebstrap make the archive.
func makeRoot(file string, packages []string) error {
	if os.Getuid() != 0 {
		return errors.New("a Debian root with its packages configured is made by root only: run this as root")
	}
	sources, err := sources()
	if err != nil {
		return err
	}
	args := []string{"--quiet", "--format=tar", "--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ","), `--aptopt=Acquire::Languages "none"`}
	for _, glob := range leftOut {
		args = append(args, "--dpkgopt=path-exclude="+glob)
	}
	args = append(args, "--customize-hook=rm -rf $1/var/lib/apt/lists/* $1/var/cache/apt/* $1/var/log/*", Suite, file)
	if err := program.Run("mmdebstrap", append(args, sources...)...); err != nil {
		return fmt.Errorf("making a Debian root takes mmdebstrap (make deps): %w", err)
	}
	return nil
}

// Suite is the Debian release that machines are made of.
const Suite = "bookworm"

// sources are the lines of sources.list for this machine's own mirror.
func sources() ([]string, error) {
	for try := 0; ; try++ {
		out, err := program.Output("apt-get", "indextargets", "--format", "$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
		if err != nil {
			return nil, err
		}
		var lines []string
		for line := range strings.Lines(out) {
			if l, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian "); ok && strings.Contains(l, Suite) && !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
		if len(lines) > 0 {
			return lines, nil
		}
		if try == 1 {
			return nil, fmt.Errorf("apt has no index of Debian %s: these machines are made on Debian 12", Suite)
		}
		// A machine that has nothing yet has no index.
		if err := program.Run("apt-get", "update"); err != nil {
			return nil, err
		}
	}
}
