package hostops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadFile reads a whole file of the node.
func (n *Node) ReadFile(p string) ([]byte, error) { return os.ReadFile(n.Path(p)) }

// ReadString reads a small file and trims the white space around it.
func (n *Node) ReadString(p string) (string, error) {
	b, err := n.ReadFile(p)
	return strings.TrimSpace(string(b)), err
}

// ReadDir lists a directory, sorted by name.
func (n *Node) ReadDir(p string) ([]os.DirEntry, error) { return os.ReadDir(n.Path(p)) }

// Readlink reads the link at p itself.
func (n *Node) Readlink(p string) (string, error) { return os.Readlink(n.entry(p)) }

// Stat follows links, Lstat does not follow the last.
func (n *Node) Stat(p string) (os.FileInfo, error) { return os.Stat(n.Path(p)) }

// Lstat describes the entry at p itself.
func (n *Node) Lstat(p string) (os.FileInfo, error) { return os.Lstat(n.entry(p)) }

// Exists says that p can be reached, links followed.
func (n *Node) Exists(p string) bool {
	_, err := n.Stat(p)
	return err == nil
}

// Open opens a file for reading.
func (n *Node) Open(p string) (*os.File, error) { return os.Open(n.Path(p)) }

// Glob lists the node paths that match a pattern (filepath.Match), sorted.
func (n *Node) Glob(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(n.Root, pattern))
	if err != nil {
		return nil
	}
	for i, f := range found {
		found[i] = n.NodePath(f)
	}
	return found
}

// WriteFile puts data at p, as WriteFrom does.
func (n *Node) WriteFile(p string, data []byte, perm os.FileMode) error {
	return n.WriteFrom(p, bytes.NewReader(data), perm, "")
}

// WriteFrom puts what src gives at p in one step: a temporary file beside it,
// with its SELinux label ("" for the directory's), synced, renamed over it, the
// directory synced. On any error (a full disk too) the old content stays.
// Missing parent directories are made, 0755. Memory stays flat whatever the size.
func (n *Node) WriteFrom(p string, src io.Reader, perm os.FileMode, label string) (err error) {
	dst := n.Path(p)
	dir := filepath.Dir(dst)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", p, err)
	}
	f, err := openTemp(dst)
	if err != nil {
		return fmt.Errorf("writing %s: %w", p, err)
	}
	defer f.Close()
	placed := false
	defer func() {
		if err != nil && !placed {
			_ = os.Remove(f.Name())
		}
		if err != nil {
			err = fmt.Errorf("writing %s: %w", p, err)
		}
	}()
	if _, err = io.Copy(f, src); err != nil {
		return err
	}
	if err = f.Chmod(perm); err != nil {
		return err
	}
	if err = n.labelReal(f.Name(), label); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), dst); err != nil {
		return err
	}
	placed = true // the name is the next writer's now
	return syncDir(dir)
}

// WriteKernel writes data to a sysfs or procfs file with one write(2), adding
// nothing and truncating nothing: the kernel takes each write as one command. On a
// recorded node these are plain files, which would keep what a shorter write leaves,
// and those of a bus that can only be written are missing.
func (n *Node) WriteKernel(p string, data string) error {
	flags := os.O_WRONLY
	if n.Simulated() {
		flags |= os.O_TRUNC
		if strings.HasPrefix(p, "/sys/bus/") {
			flags |= os.O_CREATE
		}
	}
	f, err := os.OpenFile(n.Path(p), flags, 0o644)
	if err != nil {
		return fmt.Errorf("opening %s: %w", p, err)
	}
	_, err = f.Write([]byte(data))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing %q to %s: %w", data, p, err)
	}
	if n.Simulated() {
		return n.simulateWrite(p, data)
	}
	return nil
}

// MkdirAll makes a directory and its parents.
func (n *Node) MkdirAll(p string, perm os.FileMode) error { return os.MkdirAll(n.Path(p), perm) }

// Remove removes one entry, and what a writer of it that was killed has left, and
// syncs its directory; that it was not there is no error.
func (n *Node) Remove(p string) error {
	real := n.entry(p)
	if err := dropTemp(real); err != nil {
		return err
	}
	if err := os.Remove(real); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(real))
}

// RemoveAll removes a tree, never through a link at p, and syncs the directory
// that it was in.
func (n *Node) RemoveAll(p string) error {
	real := n.entry(p)
	if err := dropTemp(real); err != nil {
		return err
	}
	if _, err := os.Lstat(real); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(real); err != nil {
		return err
	}
	return syncDir(filepath.Dir(real))
}

// Rename moves an entry and syncs the target's directory.
func (n *Node) Rename(from, to string) error {
	dst := n.entry(to)
	if err := os.Rename(n.entry(from), dst); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dst))
}

// Symlink makes or replaces the link at p in one step.
func (n *Node) Symlink(target, p string) error {
	dst := n.entry(p)
	if old, err := os.Readlink(dst); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	tmp := tempFor(dst)
	err := dropTemp(dst)
	if err == nil {
		err = os.Symlink(target, tmp)
	}
	if err == nil {
		if err = os.Rename(tmp, dst); err != nil {
			_ = os.Remove(tmp)
		}
	}
	if err != nil {
		return fmt.Errorf("linking %s: %w", p, err)
	}
	return syncDir(filepath.Dir(dst))
}

// Free says how many bytes and inodes are free for us on the file system that
// holds p, or would hold it (the nearest directory that exists).
func (n *Node) Free(p string) (bytes, inodes uint64, err error) {
	dir := n.Path(p)
	for {
		var st unix.Statfs_t
		err = unix.Statfs(dir, &st)
		if err == nil {
			return st.Bavail * uint64(st.Bsize), st.Ffree, nil
		}
		if !errors.Is(err, unix.ENOENT) || dir == "/" {
			return 0, 0, fmt.Errorf("free space of %s: %w", p, err)
		}
		dir = filepath.Dir(dir)
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems refuse to sync a directory; that is theirs to answer for.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
