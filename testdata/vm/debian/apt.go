package debian

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"fitout/testdata/program"
)

// resolve returns the kernel release that a meta-package stands for. The
// caller holds the apt lock.
func resolve(meta Meta) (string, error) {
	for try := 0; ; try++ {
		out, err := aptCache("depends", "--no-recommends", "--no-suggests", string(meta))
		if err == nil {
			for line := range strings.Lines(out) {
				if dep, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
					return dep, nil
				}
			}
		}
		if try == 1 {
			return cached(meta)
		}
		if err := program.Run("apt-get", "update"); err != nil {
			return cached(meta)
		}
	}
}

// aptCache asks apt's index. Containers' settings drop the parsed form of it, and
// each question would cost seconds; here it is kept.
func aptCache(args ...string) (string, error) {
	dir, err := CacheDir("apt")
	if err != nil {
		return "", err
	}
	keep := []string{"-o", "Dir::Cache::pkgcache=" + filepath.Join(dir, "pkgcache.bin"),
		"-o", "Dir::Cache::srcpkgcache=" + filepath.Join(dir, "srcpkgcache.bin")}
	return program.Output("apt-cache", append(keep, args...)...)
}

// flavours tells the releases of a meta-package's kernels.
var flavours = map[Meta]*regexp.Regexp{
	Stock: stockRelease,
	Cloud: regexp.MustCompile(`^6\.1\.0-\d+-cloud-amd64$`),
	RT:    regexp.MustCompile(`^6\.1\.0-\d+-rt-amd64$`),
	Plus:  regexp.MustCompile(`^6\.12\.\d+\+deb12-amd64$`),
}

// cached returns the newest release of that flavour in the cache.
func cached(meta Meta) (string, error) {
	dir, err := CacheDir("kernels")
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if name := entries[i].Name(); flavours[meta].MatchString(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("apt knows no kernel for %s and the cache has none: check /etc/apt/sources.list and the network, then run apt-get update", meta)
}

// Download fetches a Debian package of this machine's suites and returns the
// path of the .deb.
func Download(pkg string) (string, error) {
	debs, err := CacheDir("debs")
	if err != nil {
		return "", err
	}
	unlock, err := Lock("apt")
	if err != nil {
		return "", err
	}
	defer unlock()
	if deb := newestDeb(debs, pkg); deb != "" {
		return deb, nil
	}
	for try := 0; ; try++ {
		err = download(debs, pkg)
		if err == nil {
			break
		}
		if try == 2 {
			return "", err
		}
		time.Sleep(time.Duration(try) * 5 * time.Second)
		if uerr := program.Run("apt-get", "update"); uerr != nil {
			err = errors.Join(err, uerr)
		}
	}
	return newestDeb(debs, pkg), nil
}

// download runs apt-get download in a directory of its own, so that a cut
// download is never taken for a package.
func download(debs, pkg string) error {
	tmp, err := os.MkdirTemp(debs, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := program.Run("env", "--chdir="+tmp, "apt-get", "-o", "APT::Sandbox::User=root", "download", pkg); err != nil {
		return err
	}
	got := newestDeb(tmp, pkg)
	if got == "" {
		return fmt.Errorf("apt-get download %s left no package", pkg)
	}
	return os.Rename(got, filepath.Join(debs, filepath.Base(got)))
}

// newestDeb returns the package's file, "" when there is none.
func newestDeb(dir, pkg string) string {
	found, _ := filepath.Glob(filepath.Join(dir, pkg+"_*.deb"))
	if len(found) == 0 {
		return ""
	}
	sort.Strings(found)
	return found[len(found)-1]
}
