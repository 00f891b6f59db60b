package image

import (
	"path"
	"strings"
)

// cleanName turns a tar entry's name into a path relative to the image's root
// ("." for the root itself). Names that are absolute, climb out or are too
// long are refused: an image has no use for them.
func cleanName(name string, lim Limits) (string, error) {
	if len(name) > lim.Name {
		return "", fail(Limit, "the entry %q… has a name of %d bytes; %d are allowed (limit name)", name[:min(64, lim.Name)], len(name), lim.Name)
	}
	if strings.ContainsRune(name, 0) {
		return "", fail(Hostile, "the entry %q has a NUL in its name", name)
	}
	if strings.HasPrefix(name, "/") && strings.Trim(name, "/.") != "" {
		return "", fail(Hostile, "the entry %q has an absolute name", name)
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") || climbs(name) {
		return "", fail(Hostile, "the entry %q would leave the image's directory", name)
	}
	return clean, nil
}

// climbs says whether a path is outside its start at any point of the way.
func climbs(p string) bool {
	depth := 0
	for _, c := range strings.Split(p, "/") {
		switch c {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return false
}

// linkTarget is what a symbolic link means inside the image: a path relative
// to the image's root. ok is false when it climbs above the root.
func linkTarget(link, target string) (resolved string, ok bool) {
	if strings.HasPrefix(target, "/") {
		return path.Clean(strings.TrimLeft(target, "/")), !climbs(target)
	}
	joined := path.Dir(link) + "/" + target
	return path.Clean(joined), !climbs(joined)
}

// maxLinks is how many links one path may pass, as in path_resolution(7).
const maxLinks = 40

// resolve follows the links of an image through every component of p. It
// returns p unchanged where no link is in the way; ok is false for a loop or a
// way out of the root.
func resolve(links map[string]string, p string) (string, bool) {
	for hops := 0; hops <= maxLinks; hops++ {
		at, target := firstLink(links, p)
		if at == "" {
			return p, true
		}
		to, ok := linkTarget(at, target)
		if !ok {
			return p, false
		}
		p = path.Clean(path.Join(to, strings.TrimPrefix(p, at)))
	}
	return p, false
}

// firstLink is the shortest prefix of p that is a link, and its target.
func firstLink(links map[string]string, p string) (at, target string) {
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if t, ok := links[p[:i]]; ok {
			return p[:i], t
		}
	}
	return "", ""
}

// parents calls f with each proper ancestor of p, the longest first.
func parents(p string, f func(string) bool) bool {
	for {
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return false
		}
		p = p[:i]
		if f(p) {
			return true
		}
	}
}
