package hostops

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds how many symbolic links one path may go through, as the
// kernel does (MAXSYMLINKS).
const maxLinks = 40

// Path is where the node's path p lies on the machine fitout runs on. Links
// are followed below Root: an absolute link of a recorded node stays inside it.
func (n *Node) Path(p string) string { return n.resolve(p, true) }

// entry is Path for the directory entry itself: a link at the end is not
// followed.
func (n *Node) entry(p string) string { return n.resolve(p, false) }

func (n *Node) resolve(p string, followLast bool) string {
	p = filepath.Clean("/" + p)
	if n.Root == "/" {
		return p
	}
	at, rest, links := "/", strings.Split(p[1:], "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if len(rest) == 0 && !followLast {
			return filepath.Join(n.Root, next)
		}
		target, err := os.Readlink(filepath.Join(n.Root, next))
		if err != nil || links == maxLinks {
			at = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(n.Root, at)
}

// NodePath is the opposite of Path: a path below Root as the node sees it.
func (n *Node) NodePath(p string) string {
	if n.Root == "/" {
		return p
	}
	rel, err := filepath.Rel(n.Root, p)
	if err != nil {
		return p
	}
	return filepath.Clean("/" + rel)
}
