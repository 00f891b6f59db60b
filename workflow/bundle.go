package workflow

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"fitout/hostops"
	"fitout/hostops/host"
)

// BundleFile is one file of a support bundle, secrets already taken out.
type BundleFile struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	data []byte
}

// maxBundled bounds one file of a bundle, in bytes; of longer ones the end is
// kept, where the trouble mostly is.
const maxBundled = 4 << 20

// bundled are the node's files that say what machine and what state it is.
var bundled = []string{
	"/etc/os-release", "/proc/version", "/proc/cmdline", "/proc/modules", "/proc/mounts", "/proc/swaps",
	"/proc/sys/kernel/tainted", "/sys/kernel/security/lockdown", "/sys/module/module/parameters/sig_enforce",
	"/sys/module/firmware_class/parameters/path", "/etc/fitout/catalog.d/*.yaml", "/etc/modprobe.d/*.conf",
	"/boot/loader/entries/*.conf", host.StagedDeployment, "/run/motd.d/fitout",
}

// told are the commands whose output says what the kernel and the hooks said; the
// journal is that of earlier boots too, a refusal at shutdown is in no other.
var told = map[string][]string{
	"dmesg.txt": {"dmesg"},
	"journal.txt": {"journalctl", "--no-pager", "--lines=2000", "SYSLOG_IDENTIFIER=fitout",
		"+", "UNIT=fitout-drivers.service", "+", "_SYSTEMD_UNIT=fitout-drivers.service",
		"+", "UNIT=ostree-finalize-staged.service", "+", "_SYSTEMD_UNIT=ostree-finalize-staged.service"},
}

// BundleFiles collects what a support bundle of a run (or of the newest state,
// when run is "") would hold. Nothing is written.
func (e *Engine) BundleFiles(ctx context.Context, id string) ([]BundleFile, error) {
	b := bundler{n: e.Node}
	b.add("fitout-version.txt", []byte(e.Version+"\n"))
	if s, err := e.Survey(ctx); err == nil {
		b.json("survey.json", s)
	} else {
		b.add("survey-error.txt", []byte(err.Error()+"\n"))
	}
	if st, err := e.Status(ctx); err == nil {
		b.json("status.json", st)
	} else {
		b.add("status-error.txt", []byte(err.Error()+"\n"))
	}
	for _, pattern := range append(slices.Clone(bundled), path.Join(e.StateDir(), "drivers/*.json"), path.Join(e.StateDir(), "kept/*.json"),
		path.Join(e.StateDir(), "blocked/*.json"), path.Join(e.StateDir(), "runs", orAny(id), "*")) {
		for _, f := range e.Node.Glob(pattern) {
			b.file(f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if out, err := e.Node.Exec.Run(ctx, told[name]...); err == nil && len(out) > 0 {
			b.add(name, out)
		}
	}
	return b.files, nil
}

func orAny(id string) string {
	if id == "" {
		return "*"
	}
	return id
}

type bundler struct {
	n     *hostops.Node
	files []BundleFile
}

func (b *bundler) file(p string) {
	data, err := b.n.ReadFile(p)
	if err != nil {
		data = []byte("cannot be read: " + err.Error() + "\n")
	}
	b.add(strings.TrimPrefix(p, "/"), data)
}

func (b *bundler) json(name string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		b.add(name, data)
	}
}

func (b *bundler) add(name string, data []byte) {
	if len(data) > maxBundled {
		data = data[len(data)-maxBundled:]
	}
	data = Redact(data)
	b.files = append(b.files, BundleFile{Name: name, Size: len(data), data: data})
}

// secrets are the forms in which passwords and tokens turn up in texts.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(://[^/\s:@"]+:)[^/\s@"]+(@)`),
	regexp.MustCompile(`(?i)("?(?:auth|password|passwd|identitytoken|registrytoken|token|secret)"?\s*[:=]\s*"?)[^\s",}]+()`),
	regexp.MustCompile(`(?i)(authorization:\s*(?:basic|bearer)\s+)\S+()`),
}

// Redact takes secrets out of a text.
func Redact(data []byte) []byte {
	for _, s := range secrets {
		data = s.ReplaceAll(data, []byte("${1}REDACTED${2}"))
	}
	return data
}

// WriteBundle writes files as one compressed archive.
func WriteBundle(w io.Writer, files []BundleFile) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: "fitout-bundle/" + f.Name, Mode: 0o600, Size: int64(len(f.data)), Typeflag: tar.TypeReg}); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
		if _, err := t.Write(f.data); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return z.Close()
}

// Bundle writes a support bundle of a run below the state directory and returns
// its path.
func (e *Engine) Bundle(ctx context.Context, id string) (string, error) {
	files, err := e.BundleFiles(ctx, id)
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	if err := WriteBundle(&buf, files); err != nil {
		return "", err
	}
	p := path.Join(e.StateDir(), "bundle-"+e.Node.Now().UTC().Format("20060102-150405")+".tar.gz")
	if err := e.Node.WriteFile(p, buf.Bytes(), 0o600); err != nil {
		return "", err
	}
	return e.Node.Path(p), nil
}
