package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// OwnFile is a file or link that fitout put on the node.
type OwnFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// openProgram opens this very program, which on a recorded node lies outside
// of it.
func openProgram(n *hostops.Node, p string) (*os.File, error) {
	f, err := n.Open(p)
	if err != nil && n.Simulated() {
		return os.Open(p)
	}
	return f, err
}

func hashProgram(n *hostops.Node, p string) (string, int64, error) {
	f, err := openProgram(n, p)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return hashReader(f)
}

// hashFile is the SHA-256 of a file of the node and its size in bytes.
func hashFile(n *hostops.Node, p string) (string, int64, error) {
	f, err := n.Open(p)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return hashReader(f)
}

func hashReader(r io.Reader) (string, int64, error) {
	h := sha256.New()
	size, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

func hashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// copyFile copies from to to, as [hostops.Node.WriteFrom] writes.
func copyFile(n *hostops.Node, from, to string, perm os.FileMode, label string) error {
	src, err := n.Open(from)
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	defer src.Close()
	return n.WriteFrom(to, src, perm, label)
}

// same says that the own file is on the node as recorded.
func (o OwnFile) same(n *hostops.Node) bool {
	if o.Link != "" {
		got, err := n.Readlink(o.Path)
		return err == nil && got == o.Link
	}
	if st, err := n.Lstat(o.Path); err != nil || !st.Mode().IsRegular() {
		return false
	}
	sum, _, err := hashFile(n, o.Path)
	return err == nil && sum == o.SHA256
}

// there says that something is at the own file's path.
func (o OwnFile) there(n *hostops.Node) bool {
	_, err := n.Lstat(o.Path)
	return err == nil
}

// ownFiles lists every file and link below dir as own files, in lexical order.
// A dir that is not there gives none.
func ownFiles(n *hostops.Node, dir string) ([]OwnFile, error) {
	var out []OwnFile
	root := n.Path(dir)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		node := path.Join(dir, filepath.ToSlash(mustRel(root, p)))
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			out = append(out, OwnFile{Path: node, Link: target})
			return err
		}
		sum, _, err := hashFile(n, node)
		out = append(out, OwnFile{Path: node, SHA256: sum})
		return err
	})
	return out, err
}

// mustRel is p below root; WalkDir gives no others.
func mustRel(root, p string) string {
	rel, err := filepath.Rel(root, p)
	if err != nil {
		return filepath.Base(p)
	}
	return rel
}

// moveFile moves an own file aside or back, over file systems too.
func moveFile(n *hostops.Node, from, to string) error {
	if err := n.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	err := n.Rename(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	if target, lerr := n.Readlink(from); lerr == nil {
		if err := n.Symlink(target, to); err != nil {
			return err
		}
		return n.Remove(from)
	}
	st, err := n.Stat(from)
	if err != nil {
		return err
	}
	if err := copyFile(n, from, to, st.Mode().Perm(), ""); err != nil {
		return err
	}
	return n.Remove(from)
}

// freshSaved is a place below dir for what an action is about to replace, chosen
// by its Prepare. Each has its own: what an earlier one left is not the state to
// come back to.
func freshSaved(n *hostops.Node, dir string) string {
	for i := 1; ; i++ {
		if p := path.Join(dir, strconv.Itoa(i)); !n.Exists(p) {
			return p
		}
	}
}

// saveDir moves a directory to its saved place, and forgets what earlier actions
// saved of it.
func saveDir(n *hostops.Node, from, saved string) error {
	if err := moveFile(n, from, saved); err != nil {
		return err
	}
	return forgetOlder(n, saved)
}

func forgetOlder(n *hostops.Node, saved string) error {
	for _, p := range n.Glob(path.Dir(saved) + "/*") {
		if p == saved {
			continue
		}
		if err := n.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}

// pruneDirs removes the empty directories from dir upwards, stop excluded.
func pruneDirs(n *hostops.Node, dir, stop string) {
	for dir != stop && dir != "/" && dir != "." {
		entries, err := n.ReadDir(dir)
		if err != nil || len(entries) > 0 || n.Remove(dir) != nil {
			return
		}
		dir = path.Dir(dir)
	}
}

// needSpace refuses before anything is written when p's file system lacks
// room for bytes and files; a mebibyte is left for the records.
func needSpace(n *hostops.Node, p string, bytes, files uint64, instead string) error {
	free, inodes, err := n.Free(p)
	if err != nil {
		return err
	}
	if bytes+1<<20 > free {
		return &NoSpace{Path: p, Need: bytes + 1<<20, Have: free, Instead: instead}
	}
	// File systems without fixed inodes (btrfs) report 0.
	if inodes > 0 && files+16 > inodes {
		return &NoSpace{Path: p, Need: files + 16, Have: inodes, Inodes: true, Instead: instead}
	}
	return nil
}
