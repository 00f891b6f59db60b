package kmod

import (
	"path"
	"slices"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// ConfigLine is one line of the host's modprobe configuration.
type ConfigLine struct {
	File string
	// Words are the line's words: command first, then what it is about, its
	// name normalised.
	Words []string
}

// modprobeDirs are modprobe's configuration directories, the first wins for
// files of the same name (modprobe.d(5)).
var modprobeDirs = []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}

// ModprobeConfig reads the host's modprobe configuration, in modprobe's order:
// by file name, whatever the directory. Lines may end with a backslash to go on.
func ModprobeConfig(n *hostops.Node) []ConfigLine {
	files := map[string]string{}
	var names []string
	for _, dir := range modprobeDirs {
		for _, file := range n.Glob(dir + "/*.conf") {
			if name := path.Base(file); files[name] == "" {
				files[name] = file
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var lines []ConfigLine
	for _, name := range names {
		b, err := n.ReadFile(files[name])
		if err != nil {
			continue
		}
		text := strings.ReplaceAll(string(b), "\\\n", " ")
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			if len(words) < 2 || strings.HasPrefix(words[0], "#") {
				continue
			}
			if words[0] != "alias" {
				words[1] = module.Normalize(words[1])
			}
			lines = append(lines, ConfigLine{files[name], words})
		}
	}
	return lines
}

// ConfiguredSoftdeps are the soft dependencies that a modprobe configuration
// names, by module; fitout's own files, which repeat what others say, are left out.
func ConfiguredSoftdeps(config []ConfigLine) (pre, post map[string][]string) {
	var text strings.Builder
	for _, line := range config {
		if line.Words[0] == "softdep" && !strings.HasPrefix(path.Base(line.File), "fitout-") {
			text.WriteString(strings.Join(line.Words, " ") + "\n")
		}
	}
	pre, post = map[string][]string{}, map[string][]string{}
	for name, d := range parseSoftdeps(text.String()) {
		pre[name], post[name] = d.pre, d.post
	}
	return pre, post
}
