package debian

import (
	"fmt"
	"os"
	"path/filepath"

	"fitout/testdata/program"
)

// Program returns a file of a Debian package ("usr/bin/kubectl"), extracted once
// into the cache: nothing is installed on this machine.
func Program(pkg, file string) (string, error) {
	deb, err := Download(pkg)
	if err != nil {
		return "", err
	}
	all, err := CacheDir("programs")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(all, filepath.Base(deb))
	return filepath.Join(dir, file), Once(dir, func(tmp string) error {
		if err := program.Run("dpkg-deb", "-x", deb, tmp); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(tmp, file)); err != nil {
			return fmt.Errorf("package %s: %w", pkg, err)
		}
		return nil
	})
}
