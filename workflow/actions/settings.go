package actions

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"fitout/catalog/image"
	"fitout/catalog/strict"
	"fitout/hostops"
	"fitout/hostops/host"
)

// SettingsFile holds what an administrator has set for this node; where /etc is
// not kept, config.yaml in the state directory does.
const SettingsFile = "/etc/fitout/config.yaml"

// Settings are the content of the file, which need not be there.
type Settings struct {
	APIVersion string        `yaml:"apiVersion"`
	Kind       string        `yaml:"kind"`
	Images     imageSettings `yaml:"images,omitempty"`
	Runs       RunsSettings  `yaml:"runs,omitempty"`
	Store      StoreSettings `yaml:"store,omitempty"`
	Gate       GateSettings  `yaml:"gate,omitempty"`
}

// RunsSettings are about the record of runs.
type RunsSettings struct {
	// Keep is how many runs are kept. Those that can still be undone are kept
	// beyond that.
	Keep int `yaml:"keep,omitempty"`
}

// StoreSettings are about the image store.
type StoreSettings struct {
	// Limit is the size above which images that nothing needs leave the store,
	// a number with KiB, MiB, GiB or TiB.
	Limit string `yaml:"limit,omitempty"`
}

// Bytes is the limit in bytes.
func (s StoreSettings) Bytes() int64 {
	n, _ := parseSize(s.Limit) // checked when it was read
	return n
}

// GateSettings are about the upgrade gate.
type GateSettings struct {
	// Fetch is how long an upgrade may wait for a registry; 0s: none is asked.
	Fetch string `yaml:"fetch,omitempty"`
}

// Wait is how long the gate may ask a registry.
func (s GateSettings) Wait() time.Duration {
	d, _ := time.ParseDuration(s.Fetch) // checked when it was read
	return d
}

// The defaults: room for a few of the largest vendors' images, and a wait that
// somebody who sits before a package manager still bears.
const (
	storeLimit = "2GiB"
	gateFetch  = "20s"
)

// keepRuns is how many runs are kept where nothing else is set: 5 MiB each at
// most, some 50 KiB usually.
const keepRuns = 50

type imageSettings struct {
	Limits imageLimits `yaml:"limits,omitempty"`
	// Authorities are certificate files that registries are believed by, besides
	// the node's own.
	Authorities []string `yaml:"authorities,omitempty"`
}

// imageLimits are those of [image.Limits], under the names that errors use.
type imageLimits struct {
	Entries  int64  `yaml:"entries,omitempty"`
	Files    int64  `yaml:"files,omitempty"`
	Bytes    int64  `yaml:"bytes,omitempty"`
	Name     int    `yaml:"name,omitempty"`
	Ratio    int64  `yaml:"ratio,omitempty"`
	Window   int64  `yaml:"window,omitempty"`
	Manifest int64  `yaml:"manifest,omitempty"`
	Members  int    `yaml:"members,omitempty"`
	Depth    int    `yaml:"depth,omitempty"`
	Wait     string `yaml:"wait,omitempty"`
	Stall    string `yaml:"stall,omitempty"`
}

// Check implements strict.Checker.
func (s *Settings) Check(r *strict.Report) {
	if s.APIVersion != "fitout/v1" || s.Kind != "Config" {
		r.Bad(nil, "this is no fitout settings file: it begins with apiVersion: fitout/v1 and kind: Config")
	}
	if s.Runs.Keep < 0 || s.Runs.Keep == 0 && r.Has("runs", "keep") {
		r.Bad([]any{"runs", "keep"}, "runs.keep must be a number of runs, 1 or more")
	}
	if _, err := parseSize(s.Store.Limit); err != nil {
		r.Bad([]any{"store", "limit"}, "store.limit %v", err)
	}
	if d, err := time.ParseDuration(s.Gate.Fetch); err != nil || d < 0 {
		r.Bad([]any{"gate", "fetch"}, "gate.fetch must be a duration like 20s (0s: the gate asks no registry), not %q", s.Gate.Fetch)
	}
	l := s.Images.Limits
	for name, n := range map[string]int64{"entries": l.Entries, "files": l.Files, "bytes": l.Bytes, "name": int64(l.Name), "ratio": l.Ratio,
		"window": l.Window, "manifest": l.Manifest, "members": int64(l.Members), "depth": int64(l.Depth)} {
		if n < 0 || n == 0 && r.Has("images", "limits", name) {
			r.Bad([]any{"images", "limits", name}, "images.limits.%s must be a number above 0", name)
		}
	}
	for i, file := range s.Images.Authorities {
		if !path.IsAbs(file) {
			r.Bad([]any{"images", "authorities", i}, "images.authorities are files by their absolute path, not %q", file)
		}
	}
	for name, text := range map[string]string{"wait": l.Wait, "stall": l.Stall} {
		if d, err := time.ParseDuration(text); r.Has("images", "limits", name) && (err != nil || d <= 0) {
			r.Bad([]any{"images", "limits", name}, "images.limits.%s must be a duration like 5m, not %q", name, text)
		}
	}
}

// ReadSettings reads the node's settings. A file that is not valid is an error:
// to go on with the defaults would hide it. What could be read comes with it.
func ReadSettings(n *hostops.Node) (*Settings, error) {
	s := &Settings{Runs: RunsSettings{Keep: keepRuns}, Store: StoreSettings{Limit: storeLimit}, Gate: GateSettings{Fetch: gateFetch}}
	for _, file := range []string{SettingsFile, path.Join(host.Detect(n).Facts().StateDir, path.Base(SettingsFile))} {
		raw, err := n.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s, fmt.Errorf("reading the settings: %w", err)
		}
		return s, strict.Decode(file, raw, s)
	}
	return s, nil
}

// bounds are the limits for reading images.
func (l imageLimits) bounds() image.Limits {
	wait, _ := time.ParseDuration(l.Wait) // checked above
	stall, _ := time.ParseDuration(l.Stall)
	return image.Limits{Entries: l.Entries, Files: l.Files, Bytes: l.Bytes, Name: l.Name, Ratio: l.Ratio,
		Window: uint64(l.Window), Manifest: l.Manifest, Members: l.Members, Depth: l.Depth, Wait: wait, Stall: stall}
}

// units are those of IEC 80000-13.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// parseSize reads a number of bytes with its unit ("500MiB").
func parseSize(s string) (int64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("must be a size like 2GiB or 500MiB, not %q", s)
}
