package actions

import (
	"errors"
	"io/fs"
	"time"

	"fitout/catalog/image"
	"fitout/catalog/strict"
	"fitout/hostops"
)

// SettingsFile holds what an administrator has set for this node.
const SettingsFile = "/etc/fitout/config.yaml"

// settings are the content of the file, which need not be there.
type settings struct {
	APIVersion string        `yaml:"apiVersion"`
	Kind       string        `yaml:"kind"`
	Images     imageSettings `yaml:"images"`
}

type imageSettings struct {
	Limits imageLimits `yaml:"limits"`
}

// imageLimits are those of [image.Limits], under the names that errors use.
type imageLimits struct {
	Entries  int64  `yaml:"entries"`
	Files    int64  `yaml:"files"`
	Bytes    int64  `yaml:"bytes"`
	Name     int    `yaml:"name"`
	Ratio    int64  `yaml:"ratio"`
	Window   int64  `yaml:"window"`
	Manifest int64  `yaml:"manifest"`
	Members  int    `yaml:"members"`
	Depth    int    `yaml:"depth"`
	Wait     string `yaml:"wait"`
}

// Check implements strict.Checker.
func (s *settings) Check(r *strict.Report) {
	if s.APIVersion != "fitout/v1" || s.Kind != "Config" {
		r.Bad(nil, "this is no fitout settings file: it begins with apiVersion: fitout/v1 and kind: Config")
	}
	l := s.Images.Limits
	for name, n := range map[string]int64{"entries": l.Entries, "files": l.Files, "bytes": l.Bytes, "name": int64(l.Name), "ratio": l.Ratio,
		"window": l.Window, "manifest": l.Manifest, "members": int64(l.Members), "depth": int64(l.Depth)} {
		if n < 0 || n == 0 && r.Has("images", "limits", name) {
			r.Bad([]any{"images", "limits", name}, "images.limits.%s must be a number above 0", name)
		}
	}
	if d, err := time.ParseDuration(l.Wait); r.Has("images", "limits", "wait") && (err != nil || d <= 0) {
		r.Bad([]any{"images", "limits", "wait"}, "images.limits.wait must be a duration like 5m, not %q", l.Wait)
	}
}

// limits are the bounds for reading images that are set on this node. A file
// that is not valid is an error: to go on with the defaults would hide it.
func limits(n *hostops.Node) (image.Limits, error) {
	raw, err := n.ReadFile(SettingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return image.Limits{}, nil
	}
	var s settings
	if err == nil {
		err = strict.Decode(SettingsFile, raw, &s)
	}
	if err != nil {
		return image.Limits{}, err
	}
	l := s.Images.Limits
	wait, _ := time.ParseDuration(l.Wait) // checked above
	return image.Limits{Entries: l.Entries, Files: l.Files, Bytes: l.Bytes, Name: l.Name, Ratio: l.Ratio,
		Window: uint64(l.Window), Manifest: l.Manifest, Members: l.Members, Depth: l.Depth, Wait: wait}, nil
}
